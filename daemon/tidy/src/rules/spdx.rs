// SPDX-License-Identifier: Apache-2.0
//! The licence line.

use crate::breach::Breach;
use crate::repository::{File, Repository};

const LINE: &str = "SPDX-License-Identifier: Apache-2.0";

/// In the first line, or in the second after `#!` or an XML declaration.
pub(super) fn first_line(repository: &Repository) -> Vec<Breach> {
    let lacks = |file: &&File| !file.text.is_empty() && !has_line(&file.text);
    let breach = |file: &File| {
        Breach::at(
            &file.path,
            1,
            "licence",
            format!("start the file with a comment: {LINE}"),
        )
    };
    repository
        .files
        .iter()
        .filter(|f| needs_line(f))
        .filter(lacks)
        .map(breach)
        .collect()
}

fn needs_line(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    file.source.is_some()
        || ["sh", "sql", "xml", "yml", "yaml"]
            .iter()
            .any(|end| file.has_extension(end))
        || ["Makefile", "Dockerfile", "run"].contains(&name)
}

fn has_line(text: &str) -> bool {
    let is_preamble = |line: &&str| line.starts_with("#!") || line.starts_with("<?xml");
    let first = text.lines().find(|line| !is_preamble(line));
    first.is_some_and(|line| line.contains(LINE))
}
