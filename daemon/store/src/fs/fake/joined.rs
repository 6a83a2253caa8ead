// SPDX-License-Identifier: Apache-2.0
//! A directory of a filesystem that knows paths only: nobody plants links in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fs::{Access, Dir, File, Fs, Kind, Open};

/// A path, and the filesystem that it is in.
#[derive(Debug)]
pub struct JoinedDir<F> {
    fs: F,
    path: PathBuf,
}

impl<F: Fs> JoinedDir<F> {
    /// The directory at a path.
    pub fn new(fs: F, path: &Path) -> Self {
        let path = path.into();
        Self { fs, path }
    }
}

impl<F: Fs> Dir for JoinedDir<F> {
    fn open(&self, below: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.fs.open(&self.path.join(below), how)
    }

    fn create_dir(&self, below: &Path, access: Access) -> io::Result<()> {
        self.fs.create_dir(&self.path.join(below), access)
    }

    fn remove_file(&self, below: &Path) -> io::Result<()> {
        self.fs.remove_file(&self.path.join(below))
    }

    fn kind(&self, below: &Path) -> io::Result<Kind> {
        self.fs.kind(&self.path.join(below))
    }

    fn shows_removals(&self) -> bool {
        true
    }
}
