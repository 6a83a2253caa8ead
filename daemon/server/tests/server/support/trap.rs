// SPDX-License-Identifier: Apache-2.0
//! The real disk, with a trap: a function of the test that is called when the daemon opens a file,
//! and may fail in place of the disk. And with directories in which calls hang.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use lodestone_store::Environment;
use lodestone_store::fs::fake::JoinedDir;
use lodestone_store::fs::{
    Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Mounts, Open, OsFs, Space,
};

use super::daemon::TEST_TIMEOUT;

type Trap = Arc<dyn Fn(Open) -> io::Result<()> + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct TrapFs {
    trap: Arc<Mutex<Option<Trap>>>,
    hanging: Arc<Hanging>,
    /// The directories that are disks of their own.
    disks: Vec<PathBuf>,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Opens a file.
    Open,
    /// Removes a file.
    Remove,
    /// Asks for the room of the disk.
    Space,
    /// Looks what is at a path.
    Look,
}

#[derive(Default)]
struct Hanging {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// These calls hang below this directory.
    calls: Option<(PathBuf, Vec<Does>)>,
    waiting: usize,
}

/// However a test ends: nothing hangs any more.
pub(crate) struct Mended(TrapFs);

impl Drop for Mended {
    fn drop(&mut self) {
        self.0.hanging.state.lock().unwrap().calls = None;
        self.0.hanging.changed.notify_all();
    }
}

impl fmt::Debug for TrapFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrapFs")
    }
}

impl TrapFs {
    pub(crate) fn with_disks<P: AsRef<Path>>(dirs: &[P]) -> Self {
        Self {
            disks: dirs.iter().map(|dir| dir.as_ref().to_owned()).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment {
            fs: Arc::new(self.clone()),
            ..Environment::os()
        }
    }

    pub(crate) fn arm(&self, trap: impl Fn(Open) -> io::Result<()> + Send + Sync + 'static) {
        *self.trap.lock().unwrap() = Some(Arc::new(trap));
    }

    pub(crate) fn disarm(&self) {
        *self.trap.lock().unwrap() = None;
    }

    /// Lets these calls hang below a directory, until the returned value is dropped.
    pub(crate) fn hang(&self, dir: &Path, calls: &[Does]) -> Mended {
        self.hanging.state.lock().unwrap().calls = Some((dir.into(), calls.into()));
        Mended(self.clone())
    }

    /// Returns when at least so many calls hang.
    pub(crate) fn await_hanging(&self, calls: usize) {
        let state = self.hanging.state.lock().unwrap();
        let changed = &self.hanging.changed;
        let are_few = |state: &mut State| state.waiting < calls;
        let waited = changed.wait_timeout_while(state, TEST_TIMEOUT, are_few);
        let waiting = waited.unwrap().0.waiting;
        assert!(waiting >= calls, "only {waiting} calls hang");
    }

    fn pass(&self, does: Does, path: &Path) {
        let hangs = |state: &State| {
            let calls = state.calls.as_ref();
            calls.is_some_and(|(dir, calls)| path.starts_with(dir) && calls.contains(&does))
        };
        let mut state = self.hanging.state.lock().unwrap();
        if hangs(&state) {
            state.waiting += 1;
            self.hanging.changed.notify_all();
            let changed = &self.hanging.changed;
            state = changed.wait_while(state, |state| hangs(state)).unwrap();
            state.waiting -= 1;
        }
    }
}

impl Fs for TrapFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.pass(Does::Open, path);
        let trap = self.trap.lock().unwrap().clone();
        if let Some(trap) = trap {
            trap(how)?;
        }
        OsFs.open(path, how)
    }
    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Dir>> {
        Ok(Arc::new(JoinedDir::new(self.clone(), path)))
    }
    fn create_dir(&self, path: &Path, access: Access) -> io::Result<()> {
        OsFs.create_dir(path, access)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.pass(Does::Remove, path);
        OsFs.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        OsFs.remove_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        OsFs.list(path)
    }
    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.pass(Does::Look, path);
        OsFs.kind(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.pass(Does::Look, path);
        OsFs.canonical(path)
    }
    fn dir_access(&self, path: &Path) -> io::Result<DirAccess> {
        OsFs.dir_access(path)
    }
    fn mounts(&self) -> Mounts {
        Mounts::new(self.disks.iter().cloned().zip(1..))
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.pass(Does::Space, path);
        OsFs.space(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        OsFs.try_lock(path)
    }
}
