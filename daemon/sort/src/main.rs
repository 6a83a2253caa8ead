// SPDX-License-Identifier: Apache-2.0
//! `lodestone-sort`: makes and checks the records of the Sort Benchmark.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use lodestone_sort::cli::{Command, run};

fn main() -> ExitCode {
    match run(&Command::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr leaves nowhere to report to.
            let _ = writeln!(io::stderr(), "lodestone-sort: {error}");
            ExitCode::FAILURE
        }
    }
}
