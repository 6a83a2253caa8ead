// SPDX-License-Identifier: Apache-2.0
//! Three services and one remote shuffle: the promises of the clients' rules, and the discovery of
//! mistakes in them.

use std::collections::BTreeMap;

use lodestone_sim::fleet::{Bug, run};
use lodestone_store::{OsRandom, Random as _};

const FIXED: u64 = 1000;
const FRESH: u64 = 300;

/// The events that the fixed seeds must have seen.
const REACHED: [&str; 13] = [
    "attempt committed",
    "attempt given up",
    "attempt killed",
    "drain cancelled",
    "drained to the end",
    "killed",
    "lease ran out",
    "loser",
    "lost",
    "output of several versions",
    "read",
    "reader waits",
    "stopped",
];

#[test]
fn whatever_happens_to_services_readers_get_the_pushed_data_or_a_loss_is_reported() {
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..FIXED {
        let report = run(seed, None);
        assert_eq!(report.breach, None, "seed {seed}: {:?}", report.tally);
        for (what, count) in report.tally {
            *tally.entry(what).or_default() += count;
        }
    }
    for what in REACHED {
        let count = tally.get(what).copied().unwrap_or_default();
        assert!(count >= 50, "{what} only {count} times: {tally:#?}");
    }
    let base = OsRandom.next_u64().unwrap() >> 16;
    for seed in base..base + FRESH {
        assert_eq!(run(seed, None).breach, None, "fresh seed {seed}");
    }
}

#[test]
fn every_planted_mistake_of_clients_is_found_by_what_it_does_wrong() {
    let expected = [
        (Bug::WithoutIgnored, "a reader"),
        (Bug::MissingTakenForEmpty, "a reader got"),
        (
            Bug::ReleasedUnseen,
            "a reader misses data that was not lost",
        ),
        (Bug::CommitSkipped, "a reader misses data that was not lost"),
        (Bug::ReplicasReadTwice, "a reader got"),
        (Bug::RegisteredAgain, "a reader"),
        (
            Bug::ReleasedUnasked,
            "a reader misses data that was not lost",
        ),
    ];
    for (bug, part) in expected {
        let caught = (0..FIXED).find_map(|seed| Some((seed, run(seed, Some(bug)).breach?)));
        let Some((seed, breach)) = caught else {
            panic!("{bug:?} was not found within {FIXED} seeds");
        };
        eprintln!("{bug:?}: seed {seed}, {breach}");
        assert!(breach.contains(part), "{bug:?}, seed {seed}: {breach}");
    }
}

/// One of several segments of a block is lost after the ledger was compared: only its reader can
/// find this.
#[test]
fn a_segment_that_a_service_loses_after_the_commit_is_missed_by_readers_and_never_overlooked() {
    let mut missed = 0;
    for seed in 0..FIXED {
        let breach = run(seed, Some(Bug::SegmentForgotten)).breach;
        let breach = breach.unwrap_or_default();
        assert!(!breach.contains("a reader got"), "seed {seed}: {breach}");
        missed += u64::from(breach.contains("a reader misses data that was not lost"));
    }
    assert!(
        missed >= FIXED / 2,
        "only {missed} of {FIXED} runs lost anything"
    );
}
