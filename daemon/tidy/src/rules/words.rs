// SPDX-License-Identifier: Apache-2.0
//! Words of the dialect that STYLE rule 14 ends.

use crate::breach::Breach;
use crate::repository::{File, Repository};

/// Each has several meanings, or is not present-day English.
const BANNED: [&str; 5] = ["told", "anew", "all the same", "let go", "patience"];

/// Comments that begin so are no sentences, and name nothing.
const FRAGMENTS: [&str; 4] = ["/// Of ", "//! Of ", "/** Of ", "// Of "];

/// These name the words in order to ban them, or are kept as they were written.
fn may_name_them(path: &str) -> bool {
    ["STYLE.md", "docs/glossary.md"].contains(&path)
        || ["bench/results/", "bench/README.md", "daemon/tidy/"]
            .iter()
            .any(|folder| path.starts_with(folder))
}

pub(super) fn plain(repository: &Repository) -> Vec<Breach> {
    let is_text = |path: &str| {
        path == "Makefile"
            || [".md", ".sh", ".toml", ".xml"]
                .iter()
                .any(|end| path.ends_with(end))
    };
    let is_read =
        |file: &&File| (file.source.is_some() || is_text(&file.path)) && !may_name_them(&file.path);
    let mut found = Vec::new();
    for file in repository.files.iter().filter(is_read) {
        for (at, line) in file.text.lines().enumerate() {
            if FRAGMENTS.iter().any(|begin| line.trim().starts_with(begin)) {
                let advice = "a comment begins with a noun or a verb, not with `Of`".to_owned();
                found.push(Breach::at(&file.path, at + 1, "plain words", advice));
            }
            if let Some(word) = banned_in(line) {
                let advice = format!("`{word}` is not plain: see rule 14 of STYLE.md");
                found.push(Breach::at(&file.path, at + 1, "plain words", advice));
            }
        }
    }
    found
}

/// As whole words, in prose and in names of the form `was_told`.
fn banned_in(line: &str) -> Option<&'static str> {
    let is_letter = |c: char| c.is_alphanumeric();
    let words: Vec<_> = line
        .split(|c| !is_letter(c))
        .map(str::to_lowercase)
        .collect();
    let spoken = format!(" {} ", words.join(" "));
    BANNED
        .into_iter()
        .find(|banned| spoken.contains(&format!(" {banned} ")))
}
