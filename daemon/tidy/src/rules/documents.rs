// SPDX-License-Identifier: Apache-2.0
//! Markdown: one title per page, and no link into the void.

use crate::breach::Breach;
use crate::repository::{File, Repository};

/// One link of a page to a file of the repository.
pub(super) struct Link {
    /// Line, from 1.
    pub(super) line: usize,
    /// Path below the root, without anchor.
    pub(super) target: String,
}

pub(super) fn pages(repository: &Repository) -> impl Iterator<Item = &File> {
    repository
        .files
        .iter()
        .filter(|file| file.has_extension("md"))
}

pub(super) fn titles(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for page in pages(repository) {
        let titles = prose(&page.text)
            .filter(|(_, line)| line.starts_with("# "))
            .count();
        if titles != 1 {
            let advice = format!("{titles} lines start with `# `: a page has one title");
            found.push(Breach::of(&page.path, "title", advice));
        }
    }
    found
}

pub(super) fn links(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for page in pages(repository) {
        for link in links_of(page)
            .iter()
            .filter(|link| !repository.exists(&link.target))
        {
            let advice = format!("there is no {}", link.target);
            found.push(Breach::at(&page.path, link.line, "link", advice));
        }
    }
    found
}

/// Tests that a table of `docs/` names in a column `tests`: each must exist, with this name.
pub(super) fn named_tests(repository: &Repository) -> Vec<Breach> {
    let mut found = Vec::new();
    for page in pages(repository).filter(|page| page.path.starts_with("docs/")) {
        for (line, cell) in test_cells(&page.text) {
            for name in cell.split('`').skip(1).step_by(2) {
                if !is_test(repository, name) {
                    let advice = format!("there is no test {name}");
                    found.push(Breach::at(&page.path, line, "named test", advice));
                }
            }
        }
    }
    found
}

/// The last column of tables whose last heading is `tests`.
fn test_cells(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_table = false;
    prose(text).filter_map(move |(line, row)| {
        let last = row.strip_suffix('|').and_then(|row| row.rsplit('|').next());
        let cell = last.map(str::trim);
        let is_row = in_table && cell.is_some();
        in_table = cell.is_some_and(|cell| in_table || cell == "tests");
        cell.filter(|_| is_row).map(|cell| (line, cell))
    })
}

fn is_test(repository: &Repository, name: &str) -> bool {
    let definitions = [
        format!("fn {name}("),
        format!("def {name}("),
        format!("def `{name}`"),
    ];
    let mut tests = repository.files.iter().filter(|file| file.is_test());
    tests.any(|file| definitions.iter().any(|one| file.text.contains(one)))
}

/// Relative links outside of code blocks.
pub(super) fn links_of(page: &File) -> Vec<Link> {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (line, text) in prose(&page.text) {
        for after in text.split("](").skip(1) {
            let target = after.split([')', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push(Link {
                    line,
                    target: resolve(folder, target),
                });
            }
        }
    }
    found
}

/// Lines outside of ``` blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        (!in_block && !is_fence).then_some((at + 1, line))
    })
}

fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
