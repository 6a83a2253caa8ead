// SPDX-License-Identifier: Apache-2.0
//! The files that ARCHITECTURE.md names exist.

use crate::breach::Breach;
use crate::repository::Repository;

pub(super) const MAP: &str = "ARCHITECTURE.md";
const TOP_FOLDERS: [&str; 8] = [
    "daemon/",
    "client/",
    "protocol/",
    "docs/",
    "e2e/",
    "bench/",
    "deploy/",
    ".ci/",
];

/// Every file in the life table exists, below the folder that its column's header names.
pub(super) fn life_table(repository: &Repository) -> Vec<Breach> {
    let Some(map) = repository.file(MAP) else {
        return vec![Breach::of(
            MAP,
            "life table",
            "write it: it is the map of the code",
        )];
    };
    let mut folders: Vec<&str> = Vec::new();
    let (mut found, mut named) = (Vec::new(), 0);
    for (at, line) in map.text.lines().enumerate() {
        let is_row = line.starts_with('|');
        if is_row && line.starts_with("| stage |") {
            folders = cells(line)
                .map(|cell| quoted(cell).next().unwrap_or_default())
                .collect();
        } else if !is_row {
            folders.clear();
        }
        let columns = cells(line)
            .zip(&folders)
            .filter(|(_, folder)| folder.ends_with('/'));
        for (name, folder) in
            columns.flat_map(|(cell, folder)| quoted(cell).map(move |n| (n, folder)))
        {
            let path = format!("{folder}{name}");
            named += 1;
            if name != *folder && !repository.exists(&path) {
                let advice = format!("{path} does not exist: write it, or correct the table");
                found.push(Breach::at(MAP, at + 1, "life table", advice));
            }
        }
    }
    if named == 0 {
        found.push(Breach::of(
            MAP,
            "life table",
            "has no table that starts with `| stage |`",
        ));
    }
    found
}

/// Every path that the map mentions exists.
pub(super) fn named_paths(repository: &Repository) -> Vec<Breach> {
    let Some(map) = repository.file(MAP) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (at, line) in map.text.lines().enumerate() {
        let is_path = |name: &&str| {
            TOP_FOLDERS.iter().any(|top| name.starts_with(top))
                && !name.contains(['*', '<', ' ', '{'])
        };
        for path in quoted(line)
            .filter(is_path)
            .filter(|path| !repository.exists(path))
        {
            let advice = format!("{path} does not exist: write it, or correct the map");
            found.push(Breach::at(MAP, at + 1, "code map", advice));
        }
    }
    found
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.trim().trim_matches('|').split('|').map(str::trim)
}

/// Returns the texts between back-ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
