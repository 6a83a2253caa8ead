// SPDX-License-Identifier: Apache-2.0
//! The places of the disks of directories that executors name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::executors::LOCAL_DIRS_MAX;
use crate::fs::Mounts;
use crate::resource::dirs::SpreadDir;
use crate::resource::foreign_disks::NEW_DISKS_MAX;
use crate::state::store::Store;

/// A directory of a registration that is not accepted yet.
pub(super) struct FoundDir {
    name: String,
    pub(super) base: PathBuf,
    below: PathBuf,
    /// The base is there. A disk gets no number for a name of nothing.
    exists: bool,
}

impl Store {
    /// Returns the directory `below` another one, as Spark names it. From now on the other one is
    /// found without links: its owner could change them. A directory that does not exist yet is
    /// found only if there are none in its path.
    pub(super) fn found_dir(&self, name: String, dir: &Path, below: &str) -> FoundDir {
        let found = self.resources.fs().canonical(dir);
        FoundDir {
            name,
            exists: found.is_ok(),
            base: found.unwrap_or_else(|_| dir.into()),
            below: below.into(),
        }
    }

    /// Returns a directory of an executor that is accepted, with the place of its disk.
    pub(super) fn placed(
        &self,
        dir: FoundDir,
        mounts: &Mounts,
        new_disks: &mut usize,
    ) -> SpreadDir {
        let disks = &self.resources.disks;
        let device = mounts.device_of(&dir.base.join(&dir.below));
        let numbered = device.and_then(|device| {
            let may_be_new = dir.exists && *new_disks < NEW_DISKS_MAX;
            disks.foreign().take(device, may_be_new, mounts)
        });
        let place = match &numbered {
            Some(numbered) => disks.len() + numbered.number,
            None => disks.foreign_place(device),
        };
        *new_disks += usize::from(numbered.as_ref().is_some_and(|numbered| numbered.is_new));
        SpreadDir {
            name: dir.name,
            base: dir.base,
            below: dir.below,
            place,
            used: numbered.map(|numbered| numbered.used),
        }
    }

    /// Returns the places of the disks of these directories, and of what is beside them, as far as
    /// is known without asking a disk: their paths may have links. A request with too many of them
    /// is refused.
    pub fn places_of_dirs(&self, dirs: &[String]) -> Vec<usize> {
        let mounts = self.resources.fs().mounts();
        let paths = dirs.iter().take(LOCAL_DIRS_MAX).map(Path::new);
        let paths = paths.flat_map(|dir| std::iter::once(dir).chain(dir.parent()));
        let disks = &self.resources.disks;
        let place = |path| disks.foreign_place(mounts.device_of(path));
        let places: BTreeSet<_> = paths.map(place).collect();
        places.into_iter().collect()
    }
}
