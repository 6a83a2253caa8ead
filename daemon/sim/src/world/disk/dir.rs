// SPDX-License-Identifier: Apache-2.0
//! A directory of an executor. To remove a file or to look at one needs a descriptor here: of the
//! directory that it is in.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_store::fs::{Access, Dir, File, Fs, Kind, Open};

use super::Disk;

#[derive(Debug)]
pub(super) struct SimDir {
    pub(super) disk: Disk,
    pub(super) path: PathBuf,
}

impl Dir for SimDir {
    fn open(&self, below: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.disk.open(&self.path.join(below), how)
    }

    fn create_dir(&self, below: &Path, access: Access) -> io::Result<()> {
        self.disk.take_descriptor()?;
        self.disk.create_dir(&self.path.join(below), access)
    }

    fn remove_file(&self, below: &Path) -> io::Result<()> {
        self.disk.take_descriptor()?;
        self.disk.remove_file(&self.path.join(below))
    }

    fn kind(&self, below: &Path) -> io::Result<Kind> {
        self.disk.take_descriptor()?;
        self.disk.kind(&self.path.join(below))
    }

    fn shows_removals(&self) -> bool {
        true
    }
}
