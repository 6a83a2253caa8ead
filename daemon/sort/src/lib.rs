// SPDX-License-Identifier: Apache-2.0
//! `lodestone-sort` makes the records of the Sort Benchmark (sortbenchmark.org) and judges sorted
//! ones. It writes the same bytes as the benchmark's `gensort`, and gives the same verdict as its
//! `valsort`.
//!
//! ```text
//! random      the number behind each record, reached from any record number at once
//! record      the hundred bytes of a record
//! summary     the result of a validator for records in a row; two summaries make one
//! generate    files of records, by several threads, continued after an interruption
//! part        one of those files, in pieces
//! validate    the summary of files, by several threads
//! ```

pub mod cli;
mod disk;
pub mod generate;
mod part;
pub mod progress;
pub mod random;
pub mod record;
pub mod summary;
mod threads;
pub mod validate;
