// SPDX-License-Identifier: Apache-2.0
//! `lodestone-bench`: measures shuffle services.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use lodestone_bench::cli::{Command, run};

fn main() -> ExitCode {
    match run(&Command::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr leaves nowhere to report to.
            let _ = writeln!(io::stderr(), "lodestone-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
