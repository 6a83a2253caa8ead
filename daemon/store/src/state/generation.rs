// SPDX-License-Identifier: Apache-2.0
//! A generation of a shuffle: its partitions and map attempts, and in which phase of its life it is.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use lodestone_model::{Code, FinalizeSummary, Mode, ReduceId, Refusal, ShuffleKey, ShuffleSpec};

use super::attempts::Attempts;
use crate::merge::{PARTITION_BYTES, Partition};
use crate::resource::home::Home;
use crate::resource::patient::Patient;
use crate::resource::planted::{self, Bug};
use crate::resource::{Resources, reading, writing};

/// What a generation costs beside its partitions, for the budget.
pub(crate) const GENERATION_BYTES: usize = 1024;

/// One generation of one shuffle.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) key: ShuffleKey,
    /// `None` for shuffles that Spark's own pushes made.
    pub(crate) spec: Option<ShuffleSpec>,
    pub(crate) home: Arc<Home>,
    pub(crate) partitions: RwLock<Partitions>,
    /// Of remote mode.
    pub(crate) attempts: Attempts,
    /// The answer to finalize; its lock makes a repeated finalize wait for the first.
    pub(crate) summary: Patient<Option<FinalizeSummary>>,
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
    pub(crate) fn new(key: ShuffleKey, spec: Option<ShuffleSpec>, home: Home) -> Self {
        Self {
            key,
            spec,
            home: Arc::new(home),
            partitions: RwLock::default(),
            attempts: Attempts::default(),
            summary: Patient::default(),
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

    /// The partitions of these reduce ids, made if need be.
    pub(crate) fn open_partitions(
        &self,
        resources: &Resources,
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
        partitions.check_open()?;
        let open = |reduce| {
            if let Some(partition) = partitions.by_reduce.get(&reduce) {
                return Ok(Arc::clone(partition));
            }
            if resources.budget.metadata_is_full() {
                return Err(Code::Overloaded);
            }
            resources.budget.resize_metadata(0, PARTITION_BYTES);
            let home = Arc::clone(&self.home);
            let partition = Arc::new(Partition::new(reduce, self.mode(), home));
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

    /// A remote shuffle is read while it is written: attempts that are wanted have committed.
    pub(crate) fn check_readable(&self, partitions: &Partitions) -> Result<(), Refusal> {
        let readable = match partitions.phase {
            Phase::Finalized => Ok(()),
            Phase::Removed => Err(Code::UnknownShuffle),
            Phase::Open if self.mode() == Mode::Remote => Ok(()),
            Phase::Open | Phase::Finalizing => Err(Code::NotFinalized),
        };
        readable.map_err(|code| self.refuse(code))
    }

    pub(crate) fn mode(&self) -> Mode {
        self.spec.as_ref().map_or(Mode::Merge, |spec| spec.mode)
    }

    /// As they were registered; as many as there can be where Spark pushes by itself.
    pub(crate) fn num_maps(&self) -> u32 {
        self.spec.as_ref().map_or(u32::MAX, |spec| spec.num_maps)
    }

    /// The attempts of a remote shuffle.
    pub(crate) fn attempts(&self) -> Result<&Attempts, Refusal> {
        match self.mode() {
            Mode::Remote => Ok(&self.attempts),
            Mode::Merge => {
                let detail = format!("{} is merged: its maps do not commit", self.key);
                Err(Code::Malformed.because(detail))
            }
        }
    }

    pub(crate) fn refuse(&self, code: Code) -> Refusal {
        code.because(self.key.to_string())
    }
}

impl Partitions {
    pub(crate) fn check_open(&self) -> Result<(), Code> {
        let late = planted::is(Bug::LateAppend) && self.phase == Phase::Finalized;
        if self.phase == Phase::Open || late {
            Ok(())
        } else {
            Err(Code::TooLate)
        }
    }
}
