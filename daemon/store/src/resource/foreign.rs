// SPDX-License-Identifier: Apache-2.0
//! Files in directories that others own. The directories that were used last stay open.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::locked;
use super::map_files::OpenedFile;
use crate::fs::{Access, Dir, File, Fs, Kind, Open};
use crate::sync::Mutex;

/// The most directories that stay open. Some tens of executors have as many.
const OPEN_MAX: usize = 256;

/// A file below a directory that others own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignPath {
    pub(crate) base: PathBuf,
    pub(crate) below: PathBuf,
    /// The place of its disk.
    pub(crate) place: usize,
}

impl fmt::Display for ForeignPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.join(&self.below).display().fmt(f)
    }
}

/// The open directories.
#[derive(Debug, Default)]
pub(crate) struct ForeignDirs(Mutex<Opened>);

#[derive(Debug, Default)]
struct Opened {
    uses: u64,
    /// As texts: to compare paths part by part takes longer than to open a file.
    by_path: BTreeMap<OsString, (Arc<dyn Dir>, u64)>,
}

/// Files of others, by the calls of a filesystem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForeignFiles<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) dirs: &'a ForeignDirs,
}

impl ForeignFiles<'_> {
    pub(crate) fn open(&self, path: &ForeignPath, how: Open) -> io::Result<Arc<dyn File>> {
        self.with(path, |dir| dir.open(&path.below, how))
    }

    /// Opens a file that may stay open.
    pub(crate) fn open_to_keep(&self, path: &ForeignPath) -> io::Result<OpenedFile> {
        self.with(path, |dir| {
            Ok(OpenedFile {
                file: dir.open(&path.below, Open::Read)?,
                shows_removal: dir.shows_removals(),
            })
        })
    }

    pub(crate) fn remove(&self, path: &ForeignPath) -> io::Result<()> {
        self.with(path, |dir| dir.remove_file(&path.below))
    }

    pub(crate) fn kind(&self, path: &ForeignPath) -> io::Result<Kind> {
        self.with(path, |dir| dir.kind(&path.below))
    }

    /// Creates a file, and the directories between the base and the file if they are missing.
    pub(crate) fn create(&self, path: &ForeignPath) -> io::Result<Arc<dyn File>> {
        match self.open(path, Open::Create) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
        let mut missing: Vec<&Path> = path.below.ancestors().skip(1).collect();
        // The last one is the base itself.
        missing.pop();
        for parent in missing.into_iter().rev() {
            match self.with(path, |dir| dir.create_dir(parent, Access::Group)) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        self.open(path, Open::Create)
    }

    fn with<T>(
        &self,
        path: &ForeignPath,
        act: impl Fn(&dyn Dir) -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(dir) = self.dirs.opened(&path.base) {
            return act(dir.as_ref());
        }
        let dir = self.fs.open_dir(&path.base)?;
        self.dirs.keep(&path.base, &dir);
        act(dir.as_ref())
    }
}

impl ForeignDirs {
    fn opened(&self, path: &Path) -> Option<Arc<dyn Dir>> {
        let mut opened = locked(&self.0);
        opened.uses += 1;
        let uses = opened.uses;
        let (dir, used) = opened.by_path.get_mut(path.as_os_str())?;
        *used = uses;
        Some(Arc::clone(dir))
    }

    fn keep(&self, path: &Path, dir: &Arc<dyn Dir>) {
        let mut opened = locked(&self.0);
        let uses = opened.uses;
        let replaced = opened.by_path.insert(path.into(), (Arc::clone(dir), uses));
        let mut oldest = None;
        if opened.by_path.len() > OPEN_MAX {
            let found = opened.by_path.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(path) = found.map(|(path, _)| path.clone()) {
                oldest = opened.by_path.remove(&path);
            }
        }
        // Its disk may hang: nobody waits for this lock meanwhile.
        drop(opened);
        drop((replaced, oldest));
    }

    /// Closes directories that end, or that are named again and may be others by now.
    pub(crate) fn close<'a>(&self, paths: impl Iterator<Item = &'a Path>) {
        let mut closed = Vec::new();
        let mut opened = locked(&self.0);
        for path in paths {
            closed.extend(opened.by_path.remove(path.as_os_str()));
        }
        drop(opened);
        drop(closed);
    }
}
