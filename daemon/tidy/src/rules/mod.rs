// SPDX-License-Identifier: Apache-2.0
//! The rules, by theme. Each takes the repository and returns its breaches.

mod config;
mod confined;
mod dead;
mod documents;
mod layout;
mod leftovers;
mod modules;
mod names;
mod size;
mod spdx;
mod test_quality;
mod words;

use crate::breach::Breach;
use crate::repository::Repository;

/// A rule of the house.
pub type Rule = fn(&Repository) -> Vec<Breach>;

/// All of them.
pub const ALL: &[Rule] = &[
    config::key_counts,
    dead::rust_files,
    dead::pages,
    documents::links,
    documents::named_tests,
    documents::titles,
    layout::life_table,
    layout::named_paths,
    leftovers::comments,
    leftovers::code,
    leftovers::log_lines,
    modules::cycles,
    modules::packages,
    names::files,
    names::types,
    confined::calls,
    confined::catch_alls,
    confined::dependencies,
    size::files,
    size::functions,
    size::lines,
    size::first_pages,
    size::roots,
    spdx::first_line,
    test_quality::bare_matches,
    test_quality::names,
    test_quality::sleeps,
    words::plain,
];

#[cfg(test)]
mod tests;
