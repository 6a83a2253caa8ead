// SPDX-License-Identifier: Apache-2.0
//! The real disk, with a trap: a function of the test that is called when the daemon opens a file,
//! and may fail in place of the disk.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lodestone_store::Environment;
use lodestone_store::fs::fake::JoinedDir;
use lodestone_store::fs::{Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Open, OsFs, Space};

type Trap = Arc<dyn Fn(Open) -> io::Result<()> + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct TrapFs(Arc<Mutex<Option<Trap>>>);

impl fmt::Debug for TrapFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrapFs")
    }
}

impl TrapFs {
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            fs: Arc::new(self.clone()),
            ..Environment::os()
        }
    }

    pub(crate) fn arm(&self, trap: impl Fn(Open) -> io::Result<()> + Send + Sync + 'static) {
        *self.0.lock().unwrap() = Some(Arc::new(trap));
    }

    pub(crate) fn disarm(&self) {
        *self.0.lock().unwrap() = None;
    }
}

impl Fs for TrapFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let trap = self.0.lock().unwrap().clone();
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
        OsFs.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        OsFs.remove_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        OsFs.list(path)
    }
    fn kind(&self, path: &Path) -> io::Result<Kind> {
        OsFs.kind(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        OsFs.canonical(path)
    }
    fn dir_access(&self, path: &Path) -> io::Result<DirAccess> {
        OsFs.dir_access(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        OsFs.space(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        OsFs.try_lock(path)
    }
}
