// SPDX-License-Identifier: Apache-2.0
//! The files of a log. A rolling log is a directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{EventLogError, unreadable};

/// Returns the files of a log in order.
pub(super) fn of(path: &Path) -> Result<Vec<PathBuf>, EventLogError> {
    let unreadable = |source| unreadable(path, source);
    let found = fs::metadata(path).map_err(unreadable)?;
    let owned = path.to_owned();
    if found.is_file() {
        return Ok(vec![owned]);
    }
    if !found.is_dir() {
        return Err(EventLogError::NoFile { path: owned });
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    let parts = rolled(&names);
    if parts.is_empty() {
        return Err(EventLogError::NoEvents { path: owned });
    }
    Ok(parts.into_iter().map(|name| path.join(name)).collect())
}

/// What is missing in a log that has a compacted file.
pub(super) const COMPACTED: &str = "Spark has compacted the log \
     (spark.history.fs.eventLog.rolling.maxFilesToRetain): jobs that had finished by then are \
     missing.";

pub(super) fn are_compacted<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    names.any(|name| name.ends_with(".compact"))
}

/// Returns the names of the files of a rolling log in order.
pub(super) fn rolled(names: &[String]) -> Vec<&str> {
    let mut parts: BTreeMap<u64, &str> = BTreeMap::new();
    for name in names {
        let number = name
            .strip_prefix("events_")
            .and_then(|rest| rest.split('_').next()?.parse().ok());
        // A compacted file has the number of the last file in it, and stands in its place. Spark
        // has not finished one that is in progress.
        if let Some(number) = number.filter(|_| !name.ends_with(".inprogress")) {
            let part = parts.entry(number).or_insert(name);
            if name.ends_with(".compact") {
                *part = name;
            }
        }
    }
    parts.into_values().collect()
}
