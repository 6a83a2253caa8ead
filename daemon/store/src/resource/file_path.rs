// SPDX-License-Identifier: Apache-2.0
//! Paths of files with data, and how they are opened.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use super::Resources;
use super::foreign::ForeignPath;
use crate::fs::{Access, File, Open};

/// The path of a file with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilePath {
    /// In a directory of this daemon.
    Ours(PathBuf),
    /// In a merge directory of Spark's own push.
    Foreign(ForeignPath),
}

impl FilePath {
    pub(crate) fn open(&self, resources: &Resources, how: Open) -> io::Result<Arc<dyn File>> {
        match self {
            Self::Ours(path) => resources.fs().open(path, how),
            Self::Foreign(path) => resources.foreign().open(path, how),
        }
    }

    pub(crate) fn remove(&self, resources: &Resources) -> io::Result<()> {
        match self {
            Self::Ours(path) => resources.fs().remove_file(path),
            Self::Foreign(path) => resources.foreign().remove(path),
        }
    }

    /// Creates the file, and its directory if that is missing.
    pub(super) fn create(&self, resources: &Resources) -> io::Result<Arc<dyn File>> {
        let path = match self {
            Self::Ours(path) => path,
            Self::Foreign(path) => return resources.foreign().create(path),
        };
        let fs = resources.fs();
        match fs.open(path, Open::Create) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let dir = path.parent().ok_or(error)?;
                match fs.create_dir(dir, Access::Private) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
                fs.open(path, Open::Create)
            }
            other => other,
        }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(path) => path.display().fmt(f),
            Self::Foreign(path) => path.fmt(f),
        }
    }
}
