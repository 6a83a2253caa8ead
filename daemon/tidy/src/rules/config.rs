// SPDX-License-Identifier: Apache-2.0
//! How many keys a user may be asked to know.

use crate::breach::Breach;
use crate::repository::Repository;

const PAGES: [(&str, usize); 2] = [("docs/operations.md", 25), ("docs/configuration.md", 15)];

/// Rows of the table of each page whose header starts with `key` and has a default. (Tests of the
/// daemon and the plugin compare that table with the code.)
pub(super) fn key_counts(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, limit) in PAGES {
        let keys = repository.file(path).map_or(0, |file| key_rows(&file.text));
        if keys == 0 {
            let advice = "needs a table `| key | default | meaning |` with every key";
            found.push(Breach::of(path, "configuration keys", advice));
        }
        if keys > limit {
            let advice = format!("{keys} keys, {limit} are allowed: find a good value instead");
            found.push(Breach::of(path, "configuration keys", advice));
        }
    }
    found
}

fn key_rows(text: &str) -> usize {
    let mut lines = text.lines();
    let is_header = |line: &str| line.starts_with("| key |") && line.contains("default");
    match lines.find(|line| is_header(line)) {
        Some(_) => lines
            .take_while(|line| line.starts_with('|'))
            .count()
            .saturating_sub(1),
        None => 0,
    }
}
