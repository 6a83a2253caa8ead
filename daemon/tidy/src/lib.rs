// SPDX-License-Identifier: Apache-2.0
//! The house law (`STYLE.md`) as code: [`check`] reads every file that git knows and returns each
//! breach as `path:line: rule: what to do`.
//!
//! Rust, Scala, Java and Python are read in the same way: [`mask`] separates code from comments and
//! texts, [`functions`] finds where a function ends by its indentation (formatters are enforced for
//! all four languages, so indentation is reliable).

#![expect(
    clippy::indexing_slicing,
    reason = "indices come from the text that they point into, and a panic here is a failed test"
)]

pub mod breach;
pub mod functions;
pub mod mask;
pub mod repository;
pub mod rules;

use breach::Breach;
use repository::Repository;

/// Every breach of every rule, by path and line.
pub fn check(repository: &Repository) -> Vec<Breach> {
    let mut found: Vec<Breach> = rules::ALL
        .iter()
        .flat_map(|rule| rule(repository))
        .collect();
    found.sort();
    found
}
