// SPDX-License-Identifier: Apache-2.0
//! Executors that registered with Spark's own protocol, and their directories.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Code, Refusal};
use serde::{Deserialize, Serialize};

use super::registration_files::Registration;
use crate::resource::dirs::HashedDirs;
use crate::resource::names::HeldNames;

/// The executor whose "local directories" are the application's merge directories.
pub(crate) const MERGER: &str = "shuffle-push-merger";

/// An application is forgotten when the directories of its executors have been gone for this long:
/// a disk that is mounted again, or a mount that is away for a moment, takes seconds.
const GONE_MS: u64 = 60_000;

/// So many looks have to find them gone: a daemon that stood still for a minute has seen nothing in
/// this time.
const GONE_LOOKS: u32 = 10;

/// A look that hangs is followed by none: directories that were gone before may be there again when
/// the disk continues.
const RECENT_MS: u64 = 5_000;

/// Looks that are closer to each other count as one. The directories of an application with
/// thousands of executors are not looked at for each one that is refused. (Spark registers three
/// times, five seconds apart.)
const LOOK_MS: u64 = 1_000;

/// Executors of one application.
pub const EXECUTORS_MAX: usize = 65_536;

/// The registration of an executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorInfo {
    /// Its block manager's directories.
    pub local_dirs: Vec<String>,
    /// Subdirectories in each, over which files are spread.
    pub sub_dirs: u32,
    /// Name of the merge directory beside each local directory, if pushes are on.
    pub merge_dir: Option<String>,
}

/// The executors of one application.
#[derive(Debug, Default)]
pub(crate) struct Executors {
    by_id: BTreeMap<String, Executor>,
    merge_dirs: Option<HashedDirs>,
    /// When their directories may be looked at the next time.
    next_look_ms: u64,
    /// How many executors registered so far.
    pub(crate) registrations: u64,
    /// How many disks have a number since they registered.
    pub(crate) new_disks: usize,
    /// By place: since when all own directories of executors there are gone.
    absent: BTreeMap<usize, Absence>,
}

/// Directories that were not there.
#[derive(Clone, Copy, Debug)]
struct Absence {
    since_ms: u64,
    last_ms: u64,
    looks: u32,
}

/// One executor, as it registered.
#[derive(Clone, Debug)]
pub(crate) struct Executor {
    /// A later registration has a higher one.
    pub(crate) serial: u64,
    pub(crate) attempt: AppAttempt,
    pub(crate) dirs: HashedDirs,
    pub(crate) merge_dir: Option<String>,
}

impl Executors {
    /// Ok if there may be such an executor.
    pub(crate) fn check_room(&self, app: &AppId, id: &str) -> Result<(), Refusal> {
        if !self.by_id.contains_key(id) && self.by_id.len() >= EXECUTORS_MAX {
            return Err(Code::TooLarge.because(format!("{app} has {EXECUTORS_MAX} executors")));
        }
        Ok(())
    }

    /// Puts an executor in place of what is known of it. Returns true if that changed anything.
    pub(crate) fn put(
        &mut self,
        app: &AppId,
        id: &str,
        executor: Executor,
    ) -> Result<bool, Refusal> {
        self.check_room(app, id)?;
        let known = self.by_id.get(id);
        let is_news = known.is_none_or(|known| !known.is_same(&executor));
        self.by_id.insert(id.into(), executor);
        self.registrations += 1;
        self.absent.clear();
        Ok(is_news)
    }

    /// The first ones stay, until they are forgotten.
    pub(crate) fn offer_merge_dirs(&mut self, dirs: Option<HashedDirs>) {
        if self.merge_dirs.is_none() {
            self.merge_dirs = dirs;
        }
    }

    pub(crate) fn merge_dirs(&self) -> Option<&HashedDirs> {
        self.merge_dirs.as_ref()
    }

    pub(crate) fn forget_merge_dirs(&mut self) {
        self.merge_dirs = None;
    }

    /// The directories of all executors that have one of their own at this place.
    pub(crate) fn own_at(&self, place: usize) -> Vec<HashedDirs> {
        let here = self
            .living()
            .filter(|dirs| dirs.own_at(place).next().is_some());
        here.cloned().collect()
    }

    /// The directories that show whether there are executors. When all of these are forgotten, the
    /// directories of merged partitions do.
    fn living(&self) -> impl Iterator<Item = &HashedDirs> {
        let merged = self.merge_dirs.iter().filter(|_| self.by_id.is_empty());
        let executors = self.by_id.values().map(|executor| &executor.dirs);
        executors.chain(merged)
    }

    /// The number of executors with a directory of their own at a place where not all of these were
    /// gone at the last look.
    pub(crate) fn present(&self) -> usize {
        let is_present = |executor: &&Executor| {
            let mut places = executor.dirs.own_places();
            places.any(|place| !self.absent.contains_key(&place))
        };
        self.by_id.values().filter(is_present).count()
    }

    /// Records a look at the own directories of executors at a place.
    pub(crate) fn looked(&mut self, place: usize, are_gone: bool, now_ms: u64) {
        if are_gone {
            let first = Absence {
                since_ms: now_ms,
                last_ms: now_ms,
                looks: 1,
            };
            let absence = self.absent.entry(place).or_insert(first);
            if now_ms.saturating_sub(absence.last_ms) >= LOOK_MS {
                absence.last_ms = now_ms;
                absence.looks += 1;
            }
        } else {
            self.absent.remove(&place);
        }
    }

    /// True if no executor has had a directory of its own for some time.
    pub(crate) fn are_gone(&self, now_ms: u64) -> bool {
        let is_gone = |place: usize| {
            self.absent.get(&place).is_some_and(|absence| {
                let is_recent = now_ms.saturating_sub(absence.last_ms) < RECENT_MS;
                is_recent
                    && absence.looks >= GONE_LOOKS
                    && now_ms.saturating_sub(absence.since_ms) >= GONE_MS
            })
        };
        let mut places = self.living().flat_map(HashedDirs::own_places);
        places.all(is_gone)
    }

    /// True if any directory was registered.
    pub(crate) fn has_dirs(&self) -> bool {
        self.bases().next().is_some()
    }

    /// The directories in which files of executors are found.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &Path> {
        let local = self.by_id.values().map(|executor| &executor.dirs);
        local.chain(&self.merge_dirs).flat_map(HashedDirs::bases)
    }

    /// The directories of this executor.
    pub(crate) fn dirs(&self, exec: &str) -> Option<&HashedDirs> {
        if exec == MERGER {
            self.merge_dirs.as_ref()
        } else {
            self.by_id.get(exec).map(|executor| &executor.dirs)
        }
    }

    /// Returns the memory of the names of an executor that is known by this registration.
    pub(crate) fn held_names(
        &self,
        exec: &str,
        attempt: AppAttempt,
        info: &ExecutorInfo,
    ) -> Option<Arc<HeldNames>> {
        let known = self.by_id.get(exec)?;
        let is_same = known.attempt == attempt && known.info() == *info;
        known.dirs.held().filter(|_| is_same)
    }

    /// Returns the directories of all executors, to be looked at; nothing if another thread looks
    /// at them, or did so a moment ago.
    pub(crate) fn begin_look(&mut self, now_ms: u64) -> Option<Vec<(String, HashedDirs)>> {
        if now_ms < self.next_look_ms {
            return None;
        }
        self.next_look_ms = u64::MAX;
        let all = self.by_id.iter();
        let all = all.map(|(exec, executor)| (exec.clone(), executor.dirs.clone()));
        Some(all.collect())
    }

    /// Forgets executors whose directories are gone, if they are still the same, and returns their
    /// number.
    pub(crate) fn end_look(&mut self, now_ms: u64, gone: &[(String, HashedDirs)]) -> usize {
        self.next_look_ms = now_ms + LOOK_MS;
        let before = self.by_id.len();
        for (exec, dirs) in gone {
            let known = self.by_id.get(exec);
            if known.is_some_and(|known| known.dirs.number() == dirs.number()) {
                self.by_id.remove(exec);
            }
        }
        before - self.by_id.len()
    }

    pub(crate) fn registrations(&self, app: &AppId) -> impl Iterator<Item = Registration> {
        self.by_id
            .iter()
            .map(move |(exec, executor)| executor.registration(app, exec))
    }
}

impl Executor {
    /// True if the other one differs at most in the time of its registration.
    fn is_same(&self, other: &Self) -> bool {
        (self.attempt, &self.dirs, &self.merge_dir)
            == (other.attempt, &other.dirs, &other.merge_dir)
    }

    pub(crate) fn registration(&self, app: &AppId, exec: &str) -> Registration {
        Registration {
            serial: self.serial,
            app: app.to_string(),
            attempt: self.attempt.0,
            executor: exec.to_owned(),
            info: self.info(),
        }
    }

    fn info(&self) -> ExecutorInfo {
        ExecutorInfo {
            local_dirs: self.dirs.names(),
            sub_dirs: self.dirs.sub_dirs(),
            merge_dir: self.merge_dir.clone(),
        }
    }
}
