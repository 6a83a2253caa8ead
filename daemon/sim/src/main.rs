// SPDX-License-Identifier: Apache-2.0
//! `soak`: fresh seeds until one fails or it is interrupted. `soak <seed>` prints the story of one.
//! A seed of connections takes as long as many of handlers: each twentieth seed runs both.

use std::io::Write as _;
use std::process::ExitCode;

use lodestone_sim::connections;
use lodestone_sim::run::{SimSetup, run};
use lodestone_store::{OsRandom, Random as _};

/// Seeds between two lines of progress.
const PROGRESS: u64 = 10_000;

/// Seeds of handlers for each one of connections.
const FOR_EACH_OF_CONNECTIONS: u64 = 20;

/// Events shown before a breach.
const SHOWN: usize = 40;

fn main() -> ExitCode {
    let mut out = std::io::stdout();
    let argument = std::env::args().nth(1);
    let first = match &argument {
        Some(text) => text.parse().ok(),
        None => OsRandom.next_u64().ok(),
    };
    let Some(first) = first else {
        let _ = writeln!(out, "usage: soak [seed]");
        return ExitCode::FAILURE;
    };
    let last = if argument.is_some() { first } else { u64::MAX };
    let mut events = 0;
    for (done, seed) in (0..).zip(first..=last) {
        let report = run(SimSetup {
            seed,
            ..SimSetup::default()
        });
        events += report.trace.events();
        if let Some(breach) = report.breach {
            let report = run(SimSetup {
                seed,
                keeps_story: true,
                ..SimSetup::default()
            });
            for event in report.trace.last(SHOWN) {
                let _ = writeln!(out, "  {event}");
            }
            let _ = writeln!(out, "seed {seed}: {breach}");
            return ExitCode::FAILURE;
        }
        if done % FOR_EACH_OF_CONNECTIONS == 0
            && let Some(breach) = connections::run(seed, None).breach
        {
            let _ = writeln!(out, "seed {seed}, of connections: {breach}");
            return ExitCode::FAILURE;
        }
        if done % PROGRESS == 0 || argument.is_some() {
            let hash = report.trace.hash();
            let _ = writeln!(
                out,
                "{done} seeds, {events} events; seed {seed} is well, trace {hash:016x}"
            );
        }
    }
    ExitCode::SUCCESS
}
