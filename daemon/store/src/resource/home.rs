// SPDX-License-Identifier: Apache-2.0
//! Where the files of one generation of a shuffle are.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Resources;
use super::disk::{DiskIndex, code_of};
use super::incarnation::{data_file_name, remove_data_dir};
use crate::fs::{Access, File, Open};
use crate::model::code::Code;
use crate::model::id::{ReduceId, ShuffleKey};
use crate::spark::dirs::{HashedDirs, MergedFile};

/// Characters of the application id that a directory name keeps: enough to recognise it, few enough
/// for any filesystem.
const NAME_CHARS_MAX: usize = 96;

/// The directories of one generation.
#[derive(Debug)]
pub(crate) enum Home {
    /// A directory of its own on each of our disks, partitions spread over the disks.
    Ours { dir_name: String, spread: u64 },
    /// The application's merge directories, where Spark's executors look for merged files.
    Spark { dirs: HashedDirs, key: ShuffleKey },
}

impl Home {
    /// `number` is unique in the life of the store, so that no two generations share a directory.
    pub(crate) fn ours(key: &ShuffleKey, number: u64) -> Self {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        };
        let app: String = key
            .app
            .as_str()
            .chars()
            .map(plain)
            .take(NAME_CHARS_MAX)
            .collect();
        let dir_name = format!("{app}-s{}-m{}-{number}", key.shuffle, key.merge);
        Self::Ours {
            dir_name,
            spread: number,
        }
    }

    /// The disk for a new file.
    pub(crate) fn place(&self, resources: &Resources, reduce: ReduceId) -> Result<DiskIndex, Code> {
        match self {
            Self::Ours { spread, .. } => resources.disks.place(
                spread.wrapping_add(u64::from(reduce.0)),
                &resources.environment,
            ),
            Self::Spark { .. } => Ok(0),
        }
    }

    /// Ok if a partition with its file at `place`, or with none yet, can be written out.
    pub(crate) fn check(
        &self,
        resources: &Resources,
        reduce: ReduceId,
        place: Option<DiskIndex>,
    ) -> Result<(), Code> {
        match (self, place) {
            (Self::Ours { .. }, Some(disk)) => resources.disks.check(disk, &resources.environment),
            (Self::Ours { .. }, None) => self.place(resources, reduce).map(|_| ()),
            (Self::Spark { .. }, _) => Ok(()),
        }
    }

    /// Notes a failed write and says what to answer.
    pub(crate) fn report(
        &self,
        resources: &Resources,
        place: DiskIndex,
        error: &io::Error,
    ) -> Code {
        match self {
            Self::Ours { .. } => resources.disks.report(place, error, &resources.environment),
            Self::Spark { .. } => code_of(error),
        }
    }

    /// How many places are worth trying for a new file.
    pub(crate) fn places(&self, resources: &Resources) -> usize {
        match self {
            Self::Ours { .. } => resources.disks.len(),
            Self::Spark { .. } => 1,
        }
    }

    pub(crate) fn data_path(
        &self,
        resources: &Resources,
        place: DiskIndex,
        reduce: ReduceId,
    ) -> PathBuf {
        match self {
            Self::Ours { dir_name, .. } => resources
                .disks
                .root(place)
                .join(dir_name)
                .join(data_file_name(reduce)),
            Self::Spark { dirs, key } => dirs.merged(key, reduce, MergedFile::Data),
        }
    }

    /// Creates a file, and its directory if that is missing.
    pub(crate) fn create(&self, resources: &Resources, path: &Path) -> io::Result<Arc<dyn File>> {
        let fs = resources.fs();
        match fs.open(path, Open::Create) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match self {
                    Self::Ours { .. } => make_parents(resources, path, 1, Access::Private)?,
                    // `<mergeDir>/<xx>`: Spark makes both, but need not have.
                    Self::Spark { .. } => make_parents(resources, path, 2, Access::Group)?,
                }
                fs.open(path, Open::Create)
            }
            other => other,
        }
    }

    /// Removes what is left when all partitions' files are gone.
    pub(crate) fn remove(&self, resources: &Resources) {
        if let Self::Ours { dir_name, .. } = self {
            for root in resources.disks.roots() {
                remove_data_dir(resources.fs(), &root.join(dir_name));
            }
        }
    }
}

/// Makes up to `levels` missing directories above `path`.
fn make_parents(
    resources: &Resources,
    path: &Path,
    levels: usize,
    access: Access,
) -> io::Result<()> {
    let parents: Vec<_> = path.ancestors().skip(1).take(levels).collect();
    for parent in parents.into_iter().rev() {
        match resources.fs().create_dir(parent, access) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
