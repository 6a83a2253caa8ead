// SPDX-License-Identifier: Apache-2.0
//! A generation of a shuffle: its kind, its partitions and map attempts, and its phase.

use std::collections::BTreeMap;
use std::sync::Arc;

use lodestone_model::{Code, ReduceId, Refusal, ShuffleKey, ShuffleSpec};
use lodestone_planted::{self as planted, Bug};

use super::attempts::Attempts;
use crate::index::kind::Kind;
use crate::merge::Partition;
use crate::resource::account::Account;
use crate::resource::home::Home;
use crate::resource::timed_mutex::TimedMutex;
use crate::resource::{reading, writing};
use crate::sync::RwLock;

/// Memory that a generation needs beside its partitions, for the budget.
pub(crate) const GENERATION_BYTES: usize = 1024;

/// One generation of one shuffle.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) key: ShuffleKey,
    /// `None` for shuffles that Spark's own pushes made.
    pub(crate) spec: Option<ShuffleSpec>,
    pub(crate) home: Arc<Home>,
    /// The metadata of its application.
    pub(crate) account: Arc<Account>,
    pub(crate) partitions: RwLock<Partitions>,
    /// None in Spark's own push.
    pub(crate) attempts: Attempts,
    /// For Spark's own push; its lock makes a repeated finalize wait for the first.
    pub(crate) is_finalized: TimedMutex<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct Partitions {
    pub(crate) phase: Phase,
    pub(crate) by_reduce: BTreeMap<ReduceId, Arc<Partition>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Open,
    Finalizing,
    Finalized,
    Removed,
}

impl Generation {
    pub(crate) fn new(
        key: ShuffleKey,
        spec: Option<ShuffleSpec>,
        home: Home,
        account: Arc<Account>,
    ) -> Self {
        account.count_shuffle();
        Self {
            key,
            spec,
            home: Arc::new(home),
            account,
            partitions: RwLock::default(),
            attempts: Attempts::default(),
            is_finalized: TimedMutex::default(),
        }
    }

    pub(crate) fn all_partitions(&self) -> Vec<Arc<Partition>> {
        reading(&self.partitions)
            .by_reduce
            .values()
            .cloned()
            .collect()
    }

    pub(crate) fn has_opened(&self, reduce: ReduceId) -> bool {
        reading(&self.partitions).by_reduce.contains_key(&reduce)
    }

    /// True if pushes may be merged.
    pub(crate) fn is_open(&self) -> bool {
        reading(&self.partitions).check_open().is_ok()
    }

    /// The partitions of these reduce ids, made if need be.
    pub(crate) fn open_partitions(
        &self,
        reduces: impl Iterator<Item = ReduceId> + Clone,
    ) -> Result<Vec<Arc<Partition>>, Code> {
        {
            let partitions = reading(&self.partitions);
            partitions.check_open()?;
            let found: Option<Vec<_>> = reduces
                .clone()
                .map(|reduce| partitions.by_reduce.get(&reduce).cloned())
                .collect();
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let mut partitions = writing(&self.partitions);
        if !planted::is(Bug::OpenedAfterRemoval) {
            partitions.check_open()?;
        }
        let open = |reduce| {
            if let Some(partition) = partitions.by_reduce.get(&reduce) {
                return Ok(Arc::clone(partition));
            }
            self.account.check()?;
            let (home, account) = (Arc::clone(&self.home), Arc::clone(&self.account));
            let partition = Arc::new(Partition::new(reduce, self.kind(), home, account));
            partitions.by_reduce.insert(reduce, Arc::clone(&partition));
            Ok(partition)
        };
        reduces.map(open).collect()
    }

    /// The partition that holds something for this reduce id.
    pub(crate) fn partition(&self, reduce: ReduceId) -> Result<Arc<Partition>, Refusal> {
        let partitions = reading(&self.partitions);
        self.check_readable(&partitions)?;
        partitions.by_reduce.get(&reduce).cloned().ok_or_else(|| {
            Code::UnknownPartition
                .because(format!("nothing for partition {reduce} of {}", self.key))
        })
    }

    /// Where attempts commit a shuffle is read while it is written.
    pub(crate) fn check_readable(&self, partitions: &Partitions) -> Result<(), Refusal> {
        let readable = match partitions.phase {
            Phase::Finalized => Ok(()),
            Phase::Removed => Err(Code::UnknownShuffle),
            Phase::Open if self.kind().commits() => Ok(()),
            Phase::Open | Phase::Finalizing => Err(Code::NotFinalized),
        };
        readable.map_err(|code| self.refuse(code))
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::of(self.spec.as_ref())
    }

    /// Returns the registered name; none if Spark itself pushes.
    pub(crate) fn format(&self) -> &str {
        self.spec.as_ref().map_or("", |spec| &spec.format)
    }

    /// Returns the registered number; the largest possible one if Spark itself pushes.
    pub(crate) fn num_maps(&self) -> u32 {
        self.spec.as_ref().map_or(u32::MAX, |spec| spec.num_maps)
    }

    /// The attempts of a shuffle whose attempts commit.
    pub(crate) fn attempts(&self) -> Result<&Attempts, Refusal> {
        if self.kind().commits() {
            return Ok(&self.attempts);
        }
        Err(Code::Malformed.because(format!("{} belongs to Spark's own push", self.key)))
    }

    /// Refuses requests of Spark's own protocol for a shuffle whose attempts commit: they would
    /// show, and end, segments that count only by attempt.
    pub(crate) fn check_sparks_own(&self) -> Result<(), Refusal> {
        if self.kind().commits() {
            let detail = format!("{} was registered for batches with map ids", self.key);
            return Err(Code::Malformed.because(detail));
        }
        Ok(())
    }

    pub(crate) fn refuse(&self, code: Code) -> Refusal {
        code.because(self.key.to_string())
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.account.uncount_shuffle();
    }
}

impl Partitions {
    pub(crate) fn check_open(&self) -> Result<(), Code> {
        if self.phase == Phase::Open {
            Ok(())
        } else {
            Err(Code::TooLate)
        }
    }
}
