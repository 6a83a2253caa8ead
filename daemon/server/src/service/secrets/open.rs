// SPDX-License-Identifier: Apache-2.0
//! Files of secrets that every user of this host may read: Kubernetes mounts them like this by
//! default. The daemon takes them, and its log says so: again when another file is open, or one
//! that was not in between.

use std::collections::BTreeSet;
use std::fs::{Metadata, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Others than owner and group may read a file, or reach what is in a folder.
const OTHERS_READ: u32 = 0o004;
const OTHERS_ENTER: u32 = 0o001;

/// Files that are remembered. The log has said it so often then that it need not say it of others.
const SAID_MAX: usize = 4096;

/// The files of which the log has said that they are open.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    said: Mutex<BTreeSet<PathBuf>>,
}

impl OpenFiles {
    /// Says of all files together that they are open, if there is one.
    pub(super) fn say(&self, open: BTreeSet<PathBuf>) {
        if let Some(first) = open.first() {
            warn(first, open.len());
        }
        *self.said() = open;
    }

    /// Says of a file that is read that it is open, if that is news, and returns true then.
    pub(super) fn notice(&self, path: &Path, found: &Metadata) -> bool {
        if !is_open_as(path, found) {
            self.forget(path);
            return false;
        }
        let is_news = {
            let mut said = self.said();
            said.len() < SAID_MAX && said.insert(path.to_owned())
        };
        if is_news {
            warn(path, 1);
        }
        is_news
    }

    /// There is no such file any more.
    pub(super) fn forget(&self, path: &Path) {
        self.said().remove(path);
    }

    fn said(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether every user may read this file.
pub(super) fn is_open(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_file() && is_open_as(path, &found))
}

fn is_open_as(path: &Path, found: &Metadata) -> bool {
    found.mode() & OTHERS_READ != 0 && is_reached_by_others(path)
}

/// Whether none of the folders above the file keeps other users out. Links count where they lead.
fn is_reached_by_others(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let lets_in = |folder: &Path| {
        let found = metadata(folder);
        found.is_ok_and(|found| found.mode() & OTHERS_ENTER != 0)
    };
    path.ancestors().skip(1).all(lets_in)
}

fn warn(path: &Path, files: usize) {
    tracing::warn!(
        path = %path.display(),
        files,
        "every user of this host may read secrets: let only their owner do so (`chmod 600`)"
    );
}
