// SPDX-License-Identifier: Apache-2.0
//! Register: applications, their shuffles, and the generations of those.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, RwLock};

use super::attempts::Attempts;
use super::finalize::FinalizeSummary;
use crate::merge::{PARTITION_BYTES, Partition};
use crate::model::code::{Code, Refusal};
use crate::model::id::{AppAttempt, AppId, MergeId, ReduceId, ShuffleId, ShuffleKey, check_name};
use crate::model::mode::Mode;
use crate::resource::home::Home;
use crate::resource::patient::Patient;
use crate::resource::planted::{self, Bug};
use crate::resource::{Resources, locked, reading, writing};
use crate::spark::executors::Executors;
use crate::store::Store;

/// Lease that registering a shuffle opens if there is none.
pub(crate) const FIRST_LEASE_MS: u64 = 120_000;

/// Removed shuffles that one application remembers, so that late pushes are told apart from unknown
/// ones. Past it the lowest (oldest) shuffle ids are forgotten.
const TOMBSTONES_MAX: usize = 65_536;

/// What a generation costs beside its partitions, for the budget.
pub(crate) const GENERATION_BYTES: usize = 1024;

/// What the driver says of a shuffle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShuffleSpec {
    /// Whether executors keep what they push.
    pub mode: Mode,
    /// Map tasks; every map index is below.
    pub num_maps: u32,
    /// Reduce partitions; every reduce id is below.
    pub num_partitions: u32,
    /// Tag of what segments hold such as `spark-stream`.
    pub format: String,
}

/// One application and what it owns.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) state: Mutex<ApplicationState>,
}

#[derive(Debug)]
pub(crate) struct ApplicationState {
    pub(crate) attempt: AppAttempt,
    /// True once it was taken out of the map: whoever still holds it must look again.
    pub(crate) ended: bool,
    /// When the lease runs out, on the store's clock.
    pub(crate) lease_until_ms: Option<u64>,
    /// For how long it was granted last; a driver renews it after a third of that.
    pub(crate) lease_ms: u64,
    /// What Spark's own protocol registered.
    pub(crate) executors: Executors,
    pub(crate) shuffles: BTreeMap<ShuffleId, Arc<Generation>>,
    pub(crate) tombstones: BTreeMap<ShuffleId, MergeId>,
}

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

impl ApplicationState {
    fn new(attempt: AppAttempt) -> Self {
        Self {
            attempt,
            ended: false,
            lease_until_ms: None,
            lease_ms: FIRST_LEASE_MS,
            executors: Executors::default(),
            shuffles: BTreeMap::new(),
            tombstones: BTreeMap::new(),
        }
    }

    /// Remembers that this generation is over.
    pub(crate) fn bury(&mut self, shuffle: ShuffleId, merge: MergeId) {
        self.tombstones.insert(shuffle, merge);
        if self.tombstones.len() > TOMBSTONES_MAX {
            self.tombstones.pop_first();
        }
    }

    /// Starts a newer attempt; what the older one had is returned for removal.
    pub(crate) fn start_attempt(&mut self, attempt: AppAttempt) -> Vec<Arc<Generation>> {
        self.attempt = attempt;
        self.tombstones.clear();
        self.executors.forget_merge_dirs();
        std::mem::take(&mut self.shuffles).into_values().collect()
    }

    /// Refuses if this generation cannot be started because one as new was there; otherwise returns
    /// the older one, for removal, or the very same one.
    pub(crate) fn make_way(&self, key: &ShuffleKey) -> Result<Option<Arc<Generation>>, Refusal> {
        let current = self.shuffles.get(&key.shuffle);
        let newest = current
            .map(|generation| generation.key.merge)
            .max(self.tombstones.get(&key.shuffle).copied());
        match newest {
            Some(newest) if newest > key.merge => {
                Err(Code::StaleMerge.because(format!("{key}: merge id {newest} is known")))
            }
            Some(newest) if newest == key.merge && current.is_none() => {
                Err(Code::TooLate.because(format!("{key} was removed")))
            }
            _ => Ok(current.cloned()),
        }
    }
}

impl Application {
    pub(crate) fn generations(&self) -> Vec<Arc<Generation>> {
        locked(&self.state).shuffles.values().cloned().collect()
    }

    pub(crate) fn shuffle_count(&self) -> usize {
        locked(&self.state).shuffles.len()
    }
}

impl Generation {
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

impl Store {
    /// Registers a shuffle before its first push. Repeating it with the same numbers changes
    /// nothing; a higher merge id or attempt replaces the older one, whose files go.
    pub fn register_shuffle(&self, key: &ShuffleKey, spec: ShuffleSpec) -> Result<(), Refusal> {
        let Some(attempt) = key.attempt else {
            return Err(Code::Malformed.because("a shuffle is registered with an attempt"));
        };
        check_name("a format", &spec.format)?;
        self.check_news(key)?;
        if self.resources.budget.metadata_is_full() {
            return Err(Code::Overloaded.because("no memory for another shuffle"));
        }
        let number = self.next_home.fetch_add(1, Relaxed);
        let home = Home::ours(key, number, spec.num_maps, self.resources.disks.len());
        let now_ms = self.resources.now_ms();
        let mut replaced = Vec::new();
        let outcome = self.with_application(&key.app, attempt, |state| {
            if attempt < state.attempt {
                let detail = format!("attempt {} of {} is known", state.attempt, key.app);
                return Err(Code::StaleAttempt.because(detail));
            }
            if attempt > state.attempt {
                replaced = state.start_attempt(attempt);
            }
            if state
                .lease_until_ms
                .is_none_or(|until_ms| until_ms <= now_ms)
            {
                state.lease_until_ms = Some(now_ms + FIRST_LEASE_MS);
            }
            if let Some(current) = state.make_way(key)? {
                if current.key.merge == key.merge {
                    return same_spec(&current, &spec);
                }
                replaced.push(current);
            }
            state.start(&self.resources, key, Some(spec.clone()), home);
            Ok(())
        });
        replaced
            .iter()
            .for_each(|generation| generation.remove(&self.resources));
        outcome
    }

    /// Runs `work` on the application, which is made if it is unknown.
    pub(crate) fn with_application<T>(
        &self,
        app: &AppId,
        attempt: AppAttempt,
        work: impl FnOnce(&mut ApplicationState) -> T,
    ) -> T {
        loop {
            let known = reading(&self.applications).get(app).cloned();
            let application = known.unwrap_or_else(|| {
                let mut applications = writing(&self.applications);
                Arc::clone(applications.entry(app.clone()).or_insert_with(|| {
                    Arc::new(Application {
                        state: Mutex::new(ApplicationState::new(attempt)),
                    })
                }))
            });
            let mut state = locked(&application.state);
            if !state.ended {
                return work(&mut state);
            }
        }
    }

    /// The application, if it is known.
    pub(crate) fn application(&self, app: &AppId) -> Result<Arc<Application>, Refusal> {
        reading(&self.applications)
            .get(app)
            .cloned()
            .ok_or_else(|| unknown_application(app))
    }

    /// The generation that `key` names. A removed one is refused with `removed`.
    pub(crate) fn generation(
        &self,
        key: &ShuffleKey,
        removed: Code,
    ) -> Result<Arc<Generation>, Refusal> {
        let application = self.application(&key.app)?;
        let state = locked(&application.state);
        state.check_attempt(key)?;
        let stale = |merge| Code::StaleMerge.because(format!("{key}: merge id {merge} is known"));
        if let Some(current) = state.shuffles.get(&key.shuffle) {
            match current.key.merge {
                merge if merge == key.merge => return Ok(Arc::clone(current)),
                merge if merge > key.merge => return Err(stale(merge)),
                _ => {}
            }
        } else if let Some(&merge) = state.tombstones.get(&key.shuffle) {
            match merge {
                merge if merge == key.merge => {
                    return Err(removed.because(format!("{key} was removed")));
                }
                merge if merge > key.merge => return Err(stale(merge)),
                _ => {}
            }
        }
        Err(Code::UnknownShuffle.because(format!("{key} was never registered here")))
    }
}

impl ApplicationState {
    /// Refuses if the key is of another attempt than the current one.
    pub(crate) fn check_attempt(&self, key: &ShuffleKey) -> Result<(), Refusal> {
        match key.attempt {
            _ if self.ended => Err(unknown_application(&key.app)),
            Some(attempt) if attempt < self.attempt => {
                let detail = format!("attempt {} of {} is known", self.attempt, key.app);
                Err(Code::StaleAttempt.because(detail))
            }
            Some(attempt) if attempt > self.attempt => {
                let detail = format!("attempt {attempt} of {} was never seen", key.app);
                Err(Code::UnknownApplication.because(detail))
            }
            _ => Ok(()),
        }
    }

    /// Starts a generation in place of whatever was there.
    pub(crate) fn start(
        &mut self,
        resources: &Resources,
        key: &ShuffleKey,
        spec: Option<ShuffleSpec>,
        home: Home,
    ) -> Arc<Generation> {
        let generation = Arc::new(Generation {
            key: ShuffleKey {
                attempt: Some(self.attempt),
                ..key.clone()
            },
            spec,
            home: Arc::new(home),
            partitions: RwLock::default(),
            attempts: Attempts::default(),
            summary: Patient::default(),
        });
        resources.budget.resize_metadata(0, GENERATION_BYTES);
        self.tombstones.remove(&key.shuffle);
        self.shuffles.insert(key.shuffle, Arc::clone(&generation));
        generation
    }
}

fn same_spec(current: &Generation, spec: &ShuffleSpec) -> Result<(), Refusal> {
    if current.spec.as_ref() == Some(spec) {
        return Ok(());
    }
    Err(Code::Malformed.because(format!("{} was registered otherwise", current.key)))
}

fn unknown_application(app: &AppId) -> Refusal {
    Code::UnknownApplication.because(format!("application {app} is not known here"))
}
