// SPDX-License-Identifier: Apache-2.0
//! The data files of shuffles, in a directory of each shuffle: their names and their removal.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use lodestone_model::ReduceId;

use crate::fs::{Fs, Kind};

const DATA_SUFFIX: &str = ".data";

/// The name of the file that partitions share in their shuffle's directory.
pub(crate) const SHARED_FILE_NAME: &str = "spill.data";

/// Removes the shuffles of an incarnation. Calls `got_on` after each file.
pub(crate) fn remove_data(fs: &dyn Fs, root: &Path, got_on: &dyn Fn()) {
    remove_data_except(fs, root, &BTreeSet::new(), got_on);
}

/// Removes the shuffles of an incarnation, except those with these directories. Calls `got_on`
/// after each file.
pub(crate) fn remove_data_except(
    fs: &dyn Fs,
    root: &Path,
    kept: &BTreeSet<String>,
    got_on: &dyn Fn(),
) {
    for entry in fs.list(root).unwrap_or_default() {
        let is_kept = entry.name.to_str().is_some_and(|name| kept.contains(name));
        if entry.kind == Kind::Directory && !is_kept {
            remove_data_dir(fs, &root.join(&entry.name), got_on);
        }
    }
}

/// Removes a shuffle's directory and the data files in it. Calls `got_on` after each file.
pub(crate) fn remove_data_dir(fs: &dyn Fs, dir: &Path, got_on: &dyn Fn()) {
    for entry in fs.list(dir).unwrap_or_default() {
        if entry.kind == Kind::File && is_data_file(entry.name.to_str()) {
            let _ = fs.remove_file(&dir.join(&entry.name));
            got_on();
        }
    }
    match fs.remove_dir(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(dir = %dir.display(), %error, "the directory of a shuffle stays")
        }
    }
}

fn is_data_file(name: Option<&str>) -> bool {
    let is_number = |stem: &str| !stem.is_empty() && stem.bytes().all(|b| b.is_ascii_digit());
    name == Some(SHARED_FILE_NAME)
        || name
            .and_then(|name| name.strip_suffix(DATA_SUFFIX))
            .is_some_and(is_number)
}

/// The name of a partition's file in its shuffle's directory.
pub(crate) fn data_file_name(reduce: ReduceId) -> String {
    format!("{reduce}{DATA_SUFFIX}")
}
