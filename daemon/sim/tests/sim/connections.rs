// SPDX-License-Identifier: Apache-2.0
//! Connections of honest and of unfair clients: seeds of them, and the bugs that they find.

use std::collections::BTreeMap;

use lodestone_planted::Bug;
use lodestone_sim::connections::run;

/// Seeds of one test run.
const SEEDS: u64 = 40;

/// Seeds within which each planted bug is found.
const BUG_SEEDS: u64 = 60;

/// Returns the seed with which the search for a bug begins. Only one of some 400 seeds shows that
/// nobody is hurried: there must be a crowd, and an honest client that needs the memory it holds.
fn first_seed(bug: Bug) -> u64 {
    match bug {
        Bug::NobodyHurried => 740,
        _ => 0,
    }
}

#[test]
fn honest_clients_get_right_answers_in_time_whatever_the_others_do() {
    let mut reasons = BTreeMap::new();
    for seed in 0..SEEDS {
        let report = run(seed, None);
        assert_eq!(report.breach, None, "seed {seed}");
        for (reason, count) in report.tally {
            *reasons.entry(reason).or_insert(0) += count;
        }
    }
    // Runs meet each of these ends of connections.
    for reason in [
        "Client",
        "Frame",
        "Idle",
        "MadeWay",
        "Shutdown",
        "SlowRequest",
        "StalledAnswer",
        "StalledRequest",
    ] {
        assert!(reasons.contains_key(reason), "{reason}: {reasons:?}");
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..10 {
        let (one, again) = (run(seed, None), run(seed, None));
        assert_eq!(one.time, again.time, "seed {seed}");
        assert_eq!(one.tally, again.tally, "seed {seed}");
    }
}

/// Bugs, and parts of the descriptions by which they may be found.
const BUGS: [(Bug, &[&str]); 13] = [
    (Bug::StalledAnswerKept, &["never closed"]),
    (Bug::StalledRequestKept, &["never closed"]),
    (
        Bug::SlowRequestKept,
        &["never closed", "for the answer", "no answer"],
    ),
    (Bug::NobodyHurried, &["for the answer"]),
    (Bug::AnswersHeld, &["never closed", "for the answer"]),
    (
        Bug::RestOfAnswerForgotten,
        &["for the answer", "the daemon sent"],
    ),
    (
        Bug::PartOfChunkRepeated,
        &["other bytes", "the daemon sent", "for the answer"],
    ),
    (Bug::NoWayMade, &["turned away"]),
    (Bug::ControlsWaitForDisks, &["for the answer", "no answer"]),
    (Bug::GapNotAdded, &["was refused", "a lease ended"]),
    (Bug::GapFromFirstLook, &["has not ended"]),
    (Bug::LeaseEndsEarly, &["a lease ended"]),
    (Bug::GoneExecutorsKept, &["that are gone are known"]),
];

#[test]
fn every_bug_that_is_planted_in_connections_is_found() {
    for (bug, parts) in BUGS {
        let first = first_seed(bug);
        let mut seeds = first..first + BUG_SEEDS;
        let found = seeds.find_map(|seed| Some((seed, run(seed, Some(bug)).breach?)));
        let Some((seed, breach)) = found else {
            panic!("{bug:?} was not found within {BUG_SEEDS} seeds from {first}");
        };
        eprintln!("{bug:?}: seed {seed}, {breach}");
        assert_eq!(run(seed, None).breach, None, "seed {seed} without a bug");
        let is_expected = parts.iter().any(|part| breach.contains(part));
        assert!(is_expected, "{bug:?}, seed {seed}: {breach}");
    }
}
