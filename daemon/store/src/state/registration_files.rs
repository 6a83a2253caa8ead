// SPDX-License-Identifier: Apache-2.0
//! Files of registrations: see `registrations.rs`.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::executors::ExecutorInfo;
use crate::fs::{Fs, Open, read_exact_at};
use crate::resource::incarnation::registration_files;

/// A file larger than this was not written here.
const READ_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// One executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// A higher one is newer, in whatever file it is. Files of older versions have none: there the
    /// number of the file counts, and then the position in it.
    #[serde(default)]
    pub(crate) serial: u64,
    pub(crate) app: String,
    pub(crate) attempt: i32,
    pub(crate) executor: String,
    #[serde(flatten)]
    pub(crate) info: ExecutorInfo,
}

/// Returns the lines of these registrations.
pub(crate) fn lines_of(registrations: &[Registration]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for registration in registrations {
        serde_json::to_writer(&mut lines, registration)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// A line that is cut is left out: another file has it, too, or no disk has taken it in time.
pub(crate) fn registrations_in(content: &[u8]) -> impl Iterator<Item = Registration> {
    let lines = content.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok())
}

/// The registrations of earlier daemons.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The last one of each executor, in the order of the registrations.
    pub(crate) registrations: Vec<Registration>,
    /// The number of the newest file.
    pub(crate) number: u64,
    /// The directories in which not all files could be read.
    unread: BTreeSet<PathBuf>,
}

impl Earlier {
    /// Reads the directories of earlier daemons.
    ///
    /// All files count together: the one with the highest number need not be the newest, because
    /// its disk may have failed since, and may be cut. An executor that a newer file does not have
    /// is taken from an older one: it has ended, and its directories are gone, or will be soon.
    /// Only if no file with its last registration can be read, an earlier one counts.
    pub(crate) fn read<'a>(fs: &dyn Fs, roots: impl Iterator<Item = &'a Path>) -> Self {
        let mut earlier = Self::default();
        let mut files = Vec::new();
        for root in roots {
            match registration_files(fs, root) {
                Ok(found) => files.extend(found.into_iter().map(|(n, name)| (n, root, name))),
                Err(error) => earlier.miss(root, root, &error),
            }
        }
        files.sort_unstable();
        earlier.number = files.last().map_or(0, |(number, ..)| *number);
        // Each disk has a copy, so only the last registration is kept while they are read.
        let mut last: HashMap<_, (u64, usize, Registration)> = HashMap::new();
        let mut position = 0;
        for (_, root, name) in files {
            let path = root.join(name);
            let content = content(fs, &path).unwrap_or_else(|error| {
                earlier.miss(root, &path, &error);
                Vec::new()
            });
            for one in registrations_in(&content) {
                position += 1;
                let name = (one.app.clone(), one.executor.clone());
                if last
                    .get(&name)
                    .is_none_or(|(serial, ..)| *serial <= one.serial)
                {
                    last.insert(name, (one.serial, position, one));
                }
            }
        }
        let mut last: Vec<_> = last.into_values().collect();
        last.sort_unstable_by_key(|(serial, position, _)| (*serial, *position));
        earlier.registrations = last.into_iter().map(|(.., one)| one).collect();
        earlier
    }

    /// The highest serial of a registration.
    pub(crate) fn serial(&self) -> u64 {
        self.registrations.last().map_or(0, |last| last.serial)
    }

    /// Returns true if all files in this directory have been read.
    pub(crate) fn has_read(&self, root: &Path) -> bool {
        !self.unread.contains(root)
    }

    fn miss(&mut self, root: &Path, path: &Path, error: &io::Error) {
        tracing::warn!(path = %path.display(), %error, "registrations of executors cannot be read");
        self.unread.insert(root.into());
    }
}

/// Reads the file at this path.
pub(crate) fn content(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path, Open::Read)?;
    let size = file.size()?;
    if size > READ_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; size as usize];
    read_exact_at(file.as_ref(), &mut content, 0)?;
    Ok(content)
}
