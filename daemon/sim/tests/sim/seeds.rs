// SPDX-License-Identifier: Apache-2.0
//! Many runs. `LODESTONE_SEED=n` replays one and prints its story.

use std::collections::BTreeMap;
use std::io::Write as _;

use lodestone_sim::run::{Report, SimSetup, run};
use lodestone_store::{OsRandom, Random as _};

const FIXED: u64 = 2_500;
const FRESH: u64 = 500;

/// The events that the simulation must reach.
const REACHED: [&str; 57] = [
    "OK",
    "DUPLICATE",
    "TOO_LATE",
    "STALE_GENERATION",
    "STALE_ATTEMPT",
    "STALE_INCARNATION",
    "UNKNOWN_APPLICATION",
    "UNKNOWN_SHUFFLE",
    "UNKNOWN_PARTITION",
    "CHECKSUM_MISMATCH",
    "DISK_FULL",
    "DISK_FAILED",
    "MALFORMED",
    "OVERLOADED",
    "DRAINING",
    "VERSION_MISMATCH",
    "LEDGER_MISMATCH",
    "ABORTED",
    "OTHER_CONTENT",
    "chunk read",
    "chunk not read",
    "chunk not opened",
    "chunk of a closed stream",
    "chunk of a shuffle that is gone",
    "chunk of a segment that is gone",
    "chunk of a segment that was dropped",
    "segment dropped",
    "disk call failed",
    "killed in a disk call",
    "killed at rest",
    "killed in its start",
    "did not start",
    "request lost at a closed port",
    "nothing held",
    "committed what it pushed",
    "took over a handover",
    "lost with a stop",
    "original opened",
    "original that is not there",
    "original that makes no sense",
    "original of a malformed request",
    "original not read",
    "original without a descriptor",
    "blocks removed",
    "no block removed",
    "directory vanished",
    "no descriptor",
    "chunk without a descriptor",
    "block merged",
    "block not merged",
    "block that is too late",
    "block of an older generation",
    "block of another application attempt",
    "finalized",
    "chunks of a merged partition",
    "merged chunk opened",
    "chunk that is not merged",
];

fn seed(seed: u64) -> Report {
    run(SimSetup {
        seed,
        ..SimSetup::default()
    })
}

fn check(report: &Report) {
    let Some(breach) = &report.breach else {
        return;
    };
    let report = run(SimSetup {
        seed: report.seed,
        keeps_story: true,
        ..SimSetup::default()
    });
    let story = report.trace.last(40).join("\n  ");
    let again = "replay with LODESTONE_SEED";
    panic!(
        "{story}\nseed {}: {breach} ({again}={})",
        report.seed, report.seed
    );
}

#[test]
fn no_fixed_seed_makes_the_daemon_break_a_promise_and_together_they_reach_everything() {
    if let Ok(given) = std::env::var("LODESTONE_SEED") {
        return check(&seed(given.parse().unwrap()));
    }
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for number in 0..FIXED {
        let report = seed(number);
        check(&report);
        for (what, count) in report.tally {
            *tally.entry(what).or_default() += count;
        }
    }
    for what in REACHED {
        let count = tally.get(what).copied().unwrap_or_default();
        assert!(count >= 10, "{what} only {count} times: {tally:#?}");
    }
}

#[test]
fn no_fresh_seed_makes_the_daemon_break_a_promise() {
    let base = OsRandom.next_u64().unwrap() >> 16;
    // Straight to standard error: the line is wanted also when the test passes.
    let _ = writeln!(std::io::stderr(), "{FRESH} fresh seeds from {base}");
    (base..base + FRESH).for_each(|number| check(&seed(number)));
}

#[test]
fn the_same_seed_is_the_same_run_event_by_event() {
    for number in (0..FIXED).step_by(40) {
        let (first, second) = (seed(number), seed(number));
        assert_eq!(first.trace.hash(), second.trace.hash(), "seed {number}");
        assert_eq!(first.trace.events(), second.trace.events());
        assert_eq!(first.tally, second.tally);
    }
    assert_ne!(seed(1).trace.hash(), seed(2).trace.hash());
}
