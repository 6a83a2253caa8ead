// SPDX-License-Identifier: Apache-2.0
//! The archive in which a History Server sends logs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use zip::ZipArchive;

use super::{Events, Reading, files};

/// Reads the log in an archive; of several attempts the last one. Returns what is wrong with an
/// archive that has none.
pub(super) fn read<E: Events>(file: File, reading: &mut Reading<'_, E>) -> Result<(), String> {
    let mut archive = ZipArchive::new(file).map_err(|error| error.to_string())?;
    let mut logs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in archive.file_names() {
        let name = name.map_err(|error| error.to_string())?;
        // A rolling log is a folder, and another one a file.
        match name.split_once('/') {
            Some((folder, file)) if !file.is_empty() => {
                let files = logs.entry(folder.to_owned()).or_default();
                files.push(file.to_owned());
            }
            Some(_) => {}
            None => {
                logs.entry(name.to_string()).or_default();
            }
        }
    }
    let count = logs.len();
    let last = logs.into_iter().max_by_key(|(name, _)| order(name));
    let Some((name, parts)) = last else {
        return Err("it is empty".to_owned());
    };
    if count > 1 {
        reading.outcome.notes.push(format!(
            "{count} attempts are there, and {name} is read: name another one by its number, as in \
             /history/APPLICATION/1"
        ));
    }
    if files::are_compacted(parts.iter().map(String::as_str)) {
        reading.outcome.notes.push(files::COMPACTED.to_owned());
    }
    let names = if parts.is_empty() {
        vec![name]
    } else {
        let in_order = files::rolled(&parts).into_iter();
        in_order.map(|part| format!("{name}/{part}")).collect()
    };
    for name in names {
        let entry = archive.by_name(&name).map_err(io::Error::other);
        reading.part(Path::new(&name), entry.map(BufReader::new));
    }
    Ok(())
}

/// Returns what puts attempts in order: the number at the end of their name. Names of a file and of
/// a rolling log begin differently.
fn order(name: &str) -> (Option<u64>, String) {
    let name = name.strip_prefix("eventlog_v2_").unwrap_or(name);
    let stem = name.split('.').next().unwrap_or(name);
    let number = stem.rsplit_once('_').and_then(|(_, end)| end.parse().ok());
    (number, name.to_owned())
}
