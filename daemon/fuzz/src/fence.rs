// SPDX-License-Identifier: Apache-2.0
//! A disk in memory on which nothing may be used outside of some directories.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use lodestone_store::fs::fake::{FakeFs, JoinedDir};
use lodestone_store::fs::{
    Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Mounts, Open, Space,
};

/// The daemon reads the name of the machine's start there.
const SYSTEM: &str = "/proc/sys/kernel/random";

#[derive(Clone, Debug)]
pub(crate) struct Fenced {
    fs: FakeFs,
    dirs: &'static [&'static str],
}

impl Fenced {
    pub(crate) fn new(fs: FakeFs, dirs: &'static [&'static str]) -> Self {
        Self { fs, dirs }
    }

    /// Panics if a file of this path, or what its directory is, is not below the directories.
    fn check(&self, path: &Path) {
        let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        assert!(path.components().all(is_plain), "{path:?} leads elsewhere");
        let is_below = |dir: &&str| path.starts_with(dir);
        let is_inside = self.dirs.iter().any(is_below) || path.starts_with(SYSTEM);
        assert!(is_inside, "{path:?} is outside");
    }
}

impl Fs for Fenced {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.check(path);
        self.fs.open(path, how)
    }
    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Dir>> {
        self.check(path);
        self.fs.open_dir(path)?;
        Ok(Arc::new(JoinedDir::new(self.clone(), path)))
    }
    fn create_dir(&self, path: &Path, access: Access) -> io::Result<()> {
        self.check(path);
        self.fs.create_dir(path, access)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check(path);
        self.fs.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.check(path);
        self.fs.remove_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.check(path);
        self.fs.list(path)
    }
    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.fs.kind(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs.canonical(path)
    }
    fn dir_access(&self, path: &Path) -> io::Result<DirAccess> {
        self.fs.dir_access(path)
    }
    fn mounts(&self) -> Mounts {
        self.fs.mounts()
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.fs.space(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.check(path);
        self.fs.try_lock(path)
    }
}
