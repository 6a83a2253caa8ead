// SPDX-License-Identifier: Apache-2.0
//! The resources of the store: filesystem, clock, randomness, disks, memory.

pub(crate) mod account;
pub(crate) mod allocator;
pub(crate) mod bodies;
pub(crate) mod budget;
pub(crate) mod clock;
pub(crate) mod data_files;
pub(crate) mod dirs;
pub(crate) mod disk;
pub(crate) mod elsewhere;
pub(crate) mod file_path;
pub(crate) mod flow;
pub(crate) mod foreign;
pub(crate) mod foreign_disks;
pub(crate) mod holes;
pub(crate) mod home;
pub(crate) mod incarnation;
pub(crate) mod map_files;
pub(crate) mod map_indexes;
pub(crate) mod names;
pub(crate) mod paged;
pub(crate) mod pages;
pub(crate) mod random;
pub(crate) mod reserve;
pub(crate) mod threads;
pub(crate) mod timed_mutex;
pub(crate) mod trash;
pub(crate) mod write_calls;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use crate::fs::Fs;
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use bodies::{Bodies, Body};
use budget::Budget;
use clock::Clock;
use disk::Disks;
use elsewhere::Elsewhere;
use flow::{Line, Writing};
use foreign::{ForeignDirs, ForeignFiles, ForeignPath};
use map_files::MapFiles;
use map_indexes::MapIndexes;
use names::Names;
use pages::Pages;
use random::Random;
use threads::Threads;
use trash::Trash;
use write_calls::WriteCalls;

/// Everything that is not deterministic, given from outside.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The disk.
    pub fs: Arc<dyn Fs>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub random: Arc<dyn Random>,
    /// The source of threads for disks that may hang.
    pub threads: Arc<dyn Threads>,
}

impl Environment {
    /// The operating system's.
    pub fn os() -> Self {
        Self {
            fs: Arc::new(crate::fs::OsFs),
            clock: Arc::new(clock::OsClock::default()),
            random: Arc::new(random::OsRandom),
            threads: Arc::new(threads::OsThreads),
        }
    }
}

/// The resources that a partition needs to write itself out.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) environment: Environment,
    pub(crate) disks: Disks,
    pub(crate) bodies: Bodies,
    pub(crate) budget: Arc<Budget>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) foreign_dirs: ForeignDirs,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) map_indexes: MapIndexes,
    pub(crate) map_files: MapFiles,
    pub(crate) names: Arc<Names>,
    pub(crate) trash: Trash,
    pub(crate) write_calls: WriteCalls,
}

impl Resources {
    pub(crate) fn fs(&self) -> &dyn Fs {
        self.environment.fs.as_ref()
    }

    /// The files in directories of executors.
    pub(crate) fn foreign(&self) -> ForeignFiles<'_> {
        ForeignFiles {
            fs: self.fs(),
            dirs: &self.foreign_dirs,
        }
    }

    /// Returns the body of a push, if bodies have a limit.
    pub(crate) fn body(&self, bytes: u64) -> Option<Body<'_>> {
        self.bodies.of(&self.disks, &self.environment, bytes)
    }

    /// Waits for the turn of a finalize to write to this file of executors.
    pub(crate) fn turn_to_write(&self, path: &ForeignPath) -> io::Result<Writing<'_>> {
        let flow = self.disks.flow_at(path.place);
        flow.begin_in(Line::Finalizes, self.environment.clock.as_ref())
    }

    /// Waits for a turn to look whether this file of executors exists.
    pub(crate) fn turn_to_look(&self, path: &ForeignPath) -> io::Result<Writing<'_>> {
        let flow = self.disks.looks_at(path.place);
        flow.begin(self.environment.clock.as_ref())
    }

    /// Call after memory was taken: wakes the threads that write data out, if little is left.
    pub(crate) fn call_if_short(&self) {
        if self.budget.is_short() {
            self.write_calls.call(self.budget.surplus());
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.environment.clock.now_ms()
    }

    /// Returns true if there is certainly nothing at this path.
    pub(crate) fn is_gone(&self, path: &Path) -> bool {
        is_gone(self.fs(), path)
    }
}

fn is_gone(fs: &dyn Fs, path: &Path) -> bool {
    let kind = fs.kind(path);
    kind.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

// Maps behind these locks are changed by single calls that cannot stop half way, so a panic of
// another thread does not leave them half changed. (A partition, which can be half changed, checks
// this itself.)

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn reading<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn writing<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
