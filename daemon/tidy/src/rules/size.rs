// SPDX-License-Identifier: Apache-2.0
//! How long things may be.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::MAP;
use crate::breach::Breach;
use crate::functions;
use crate::mask::Language;
use crate::repository::{File, Repository, Source};

const PRODUCTION_FILE_LINES: usize = 400;
const TEST_FILE_LINES: usize = 900;
const FUNCTION_LINES: usize = 70;
/// Code and comments.
const CODE_COLUMNS: usize = 100;
/// Markdown, and texts that take whole lines, such as the expected output of a test.
const PROSE_COLUMNS: usize = 140;
const ROOT_ENTRIES: usize = 12;
/// Pages that a newcomer reads from top to bottom, and their lines.
const FIRST_PAGES: [(&str, usize); 2] = [("README.md", 80), (MAP, 100)];

pub(super) fn files(repository: &Repository) -> Vec<Breach> {
    let check = |file: &File| {
        let limit = if file.is_test() {
            TEST_FILE_LINES
        } else {
            PRODUCTION_FILE_LINES
        };
        let lines = file.text.lines().count();
        (lines > limit).then(|| {
            let advice = format!("{lines} lines, {limit} are allowed: one idea per file, split it");
            Breach::of(&file.path, "file length", advice)
        })
    };
    repository
        .sources()
        .filter_map(|(file, _)| check(file))
        .collect()
}

pub(super) fn functions(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (file, source) in repository.sources() {
        for function in functions::functions(&source.code, source.language) {
            if function.lines > FUNCTION_LINES {
                let (name, lines) = (function.name, function.lines);
                let advice =
                    format!("{name} has {lines} lines, {FUNCTION_LINES} are allowed: split it");
                found.push(Breach::at(
                    &file.path,
                    function.line,
                    "function length",
                    advice,
                ));
            }
        }
    }
    found
}

pub(super) fn lines(repository: &Repository) -> Vec<Breach> {
    let measured = |file: &&File| file.source.is_some() || file.has_extension("md");
    repository
        .files
        .iter()
        .filter(measured)
        .flat_map(long_lines)
        .collect()
}

fn long_lines(file: &File) -> Vec<Breach> {
    let mut found = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let limit = match &file.source {
            Some(source) if !may_be_long(source, at) => CODE_COLUMNS,
            _ => PROSE_COLUMNS,
        };
        let columns = line.chars().count();
        if columns > limit && (file.path == MAP || !cannot_break(line)) {
            let advice = format!("{columns} columns, {limit} are allowed: break the line");
            found.push(Breach::at(&file.path, at + 1, "line length", advice));
        }
    }
    found
}

/// Returns true for a line of text that is not a comment. In Python the texts that take whole lines
/// are comments too.
fn may_be_long(source: &Source, at: usize) -> bool {
    let is_prose = source.is_prose.get(at).copied().unwrap_or(false);
    let is_comment = || {
        let comment = source.comments.lines().nth(at).unwrap_or_default();
        !comment.trim().is_empty()
    };
    is_prose && source.language != Language::Python && !is_comment()
}

/// Lines of the first pages.
pub(super) fn first_pages(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, limit) in FIRST_PAGES {
        let text = repository.file(path).map_or("", |file| &file.text);
        let lines = text.lines().count();
        if lines > limit {
            let advice = format!("{lines} lines, {limit} are allowed: move the rest to docs/");
            found.push(Breach::of(path, "page length", advice));
        }
    }
    found
}

/// A row of a markdown table, and a line that is one link. People read the map of the code in an
/// editor, where a row is a line like others.
fn cannot_break(line: &str) -> bool {
    line.starts_with('|') || (line.contains("://") && line.split_whitespace().count() <= 3)
}

/// Entries of each source root: `src/` of a crate, a package of the plugin.
pub(super) fn roots(repository: &Repository) -> Vec<Breach> {
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for path in repository.paths() {
        for root in roots_above(path) {
            let below = &path[root.len() + 1..];
            let entry = below.split('/').next().unwrap_or(below);
            entries.entry(root).or_default().insert(entry);
        }
    }
    let crowded = entries
        .into_iter()
        .filter(|(_, names)| names.len() > ROOT_ENTRIES);
    let breach = |(root, names): (&str, BTreeSet<&str>)| {
        let advice = format!(
            "{} entries, {ROOT_ENTRIES} are allowed: group what belongs together in a folder",
            names.len()
        );
        Breach::of(root, "entries at a root", advice)
    };
    crowded.map(breach).collect()
}

/// Folders above `path` that are the root of a crate or of the plugin's package.
fn roots_above(path: &str) -> Vec<&str> {
    let cuts = path.match_indices('/').map(|(at, _)| &path[..at]);
    let is_root = |folder: &&str| {
        (folder.starts_with("daemon/") && folder.ends_with("/src"))
            || (folder.contains("/src/main/") && folder.ends_with("/lodestone"))
    };
    cuts.filter(is_root).collect()
}
