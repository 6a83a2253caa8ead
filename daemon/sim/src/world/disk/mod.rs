// SPDX-License-Identifier: Apache-2.0
//! The store's fake disk, with a moment of death: the process is killed before, inside or after any
//! call that changes something, and from then on changes nothing.

mod dir;
mod faults;
mod file;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lodestone_store::fs::fake::{Errno, FakeFs};
use lodestone_store::fs::{
    Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Mounts, Open, Space,
};

use crate::client::EXECUTOR_DISKS;
use dir::SimDir;
pub use faults::Failures;
use faults::Faults;
use file::SimFile;

/// When the process is killed, counted in changing calls, and how much of the last call is done.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// Changing calls that still work.
    pub after: u64,
    /// The part of the last call: nothing, or this many bytes of a write (any other call is done).
    pub done: Option<usize>,
}

/// The disks of the simulated machine.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The files of the disks. Faults are injected there; look here only while the daemon stands
    /// still.
    pub fake: FakeFs,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    death: Option<Death>,
    dead: bool,
    /// No call may come.
    must_rest: bool,
    faults: Faults,
    failures: Failures,
    written: Vec<Written>,
    open: OpenFiles,
}

/// Files that are open now.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenFiles {
    /// Files of the daemon.
    pub own: u64,
    /// Files of executors.
    pub of_executors: u64,
}

impl OpenFiles {
    fn at(&mut self, path: &Path) -> &mut u64 {
        match is_executors(path) {
            true => &mut self.of_executors,
            false => &mut self.own,
        }
    }
}

enum Step {
    Go,
    Last(Option<usize>),
    Dead,
}

/// Bytes that went to a file of merged data, one after another.
#[derive(Clone, Debug)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Where they begin.
    offset: u64,
    /// The bytes of the write.
    pub bytes: Vec<u8>,
}

fn dead() -> io::Error {
    Errno::IO.into()
}

impl Disk {
    /// Disks with these directories.
    pub fn new(dirs: &[PathBuf]) -> Self {
        Self {
            fake: FakeFs::with_dirs(dirs),
            state: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the process at a changing call to come.
    pub fn kill_at(&self, death: Death) {
        self.state().death = Some(death);
    }

    /// Lets a read to come fail.
    pub fn fail_read(&self, after: u64) {
        self.state().faults.fail_read(after);
    }

    /// Lets all reads below a directory fail, until [`Disk::calm`].
    pub fn break_reads(&self, dir: &Path) {
        self.state().faults.break_reads(dir);
    }

    /// Lets some calls to come have no descriptor.
    pub fn take_descriptors(&self, after: u64, left: u64) {
        self.state().faults.take_descriptors(after, left);
    }

    /// Returns true if the process was killed.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// The process is gone: its locks are free, and the next one may start.
    pub fn bury(&self) {
        self.fake.crash();
        let mut state = self.state();
        state.dead = false;
        state.death = None;
    }

    /// Cancels the faults that were announced here.
    pub fn calm(&self) {
        let mut state = self.state();
        state.faults = Faults::default();
        state.death = None;
    }

    /// Returns the failures since the last call of this function.
    pub fn take_failures(&self) -> Failures {
        std::mem::take(&mut self.state().failures)
    }

    /// Returns how many files are open.
    pub fn open_files(&self) -> OpenFiles {
        self.state().open
    }

    /// Returns the writes to files of merged data since the last call of this function.
    pub fn take_written(&self) -> Vec<Written> {
        std::mem::take(&mut self.state().written)
    }

    /// Carries out work that must not wait, and so asks no disk.
    pub fn untouched<T>(&self, work: impl FnOnce() -> T) -> T {
        self.state().must_rest = true;
        let outcome = work();
        self.state().must_rest = false;
        outcome
    }

    fn check_may_be_asked(&self) {
        assert!(
            !self.state().must_rest,
            "a call that must not wait asks a disk"
        );
    }

    fn step(&self) -> Step {
        self.check_may_be_asked();
        let mut state = self.state();
        if state.dead {
            return Step::Dead;
        }
        match &mut state.death {
            Some(Death { after: 0, done }) => {
                let done = *done;
                state.dead = true;
                Step::Last(done)
            }
            Some(Death { after, .. }) => {
                *after -= 1;
                Step::Go
            }
            None => Step::Go,
        }
    }

    /// A call that is done or not, but not by half.
    fn change<T>(&self, path: &Path, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.step() {
            Step::Go => work().inspect_err(|error| self.count(path, error)),
            Step::Last(done) => {
                if done.is_some() {
                    drop(work());
                }
                Err(dead())
            }
            Step::Dead => Err(dead()),
        }
    }

    /// A file that a store looks for without knowing that it exists is no trouble. Nor are files of
    /// executors for the daemon's own data.
    fn count(&self, path: &Path, error: &io::Error) {
        use ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
        if matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotFound) {
            return;
        }
        let failures = &mut self.state().failures;
        match is_executors(path) {
            true => failures.removals += 1,
            false => failures.changes += 1,
        }
    }

    fn check_read(&self, path: &Path) -> io::Result<()> {
        self.check_may_be_asked();
        let mut state = self.state();
        if state.dead {
            return Err(dead());
        }
        let read = state.faults.read(path);
        state.failures.reads += u64::from(read.is_err());
        read
    }

    fn take_descriptor(&self) -> io::Result<()> {
        self.check_may_be_asked();
        let mut state = self.state();
        if state.dead {
            return Err(dead());
        }
        let taken = state.faults.descriptor();
        state.failures.descriptors += u64::from(taken.is_err());
        taken
    }
}

fn is_data(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "data")
}

/// True for what is on a disk of executors only.
fn is_executors(path: &Path) -> bool {
    EXECUTOR_DISKS.iter().any(|disk| path.starts_with(disk))
}

impl Fs for Disk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.take_descriptor()?;
        let found = match how {
            Open::Read => self
                .check_read(path)
                .and_then(|()| self.fake.open(path, how)),
            // Opening a file that exists changes nothing.
            Open::Write if self.is_dead() => Err(dead()),
            Open::Write => self
                .fake
                .open(path, how)
                .inspect_err(|error| self.count(path, error)),
            Open::Create => self.change(path, || self.fake.open(path, how)),
        };
        Ok(Arc::new(SimFile::new(self, found?, path)))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Dir>> {
        self.take_descriptor()?;
        self.fake.open_dir(path)?;
        Ok(Arc::new(SimDir {
            disk: self.clone(),
            path: path.into(),
        }))
    }

    fn create_dir(&self, path: &Path, access: Access) -> io::Result<()> {
        self.change(path, || self.fake.create_dir(path, access))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(path, || self.fake.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change(path, || self.fake.remove_dir(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.take_descriptor()?;
        self.fake.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.check_may_be_asked();
        self.fake.kind(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.check_may_be_asked();
        self.fake.canonical(path)
    }

    fn dir_access(&self, path: &Path) -> io::Result<DirAccess> {
        self.fake.dir_access(path)
    }

    fn mounts(&self) -> Mounts {
        self.fake.mounts()
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.check_may_be_asked();
        self.fake.space(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.take_descriptor()?;
        self.fake.try_lock(path)
    }
}
