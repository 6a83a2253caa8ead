// SPDX-License-Identifier: Apache-2.0
//! Each planted bug is found, within a number of seeds, by what it does wrong.

use lodestone_planted::Bug as PlantedBug;
use lodestone_sim::planted::Bug;
use lodestone_sim::run::{SimSetup, run};

/// Returns the seed that finds a bug, and the description of the breach.
fn caught(bug: Bug, seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| {
        let setup = SimSetup {
            seed,
            bug: Some(bug),
            keeps_story: false,
        };
        run(setup).breach.map(|breach| (seed, breach))
    })
}

/// What a reader finds if the bytes of a chunk are not those that were pushed.
const UNREADABLE: [&str; 2] = ["other bytes than were pushed", "cannot be read"];

/// What a client finds if an older generation is taken for the current one.
const NOT_STALE: [&str; 4] = [
    "no refusal",
    "was refused: StaleGeneration",
    "must be StaleGeneration",
    "must be UnknownShuffle",
];

/// Returns the number of seeds that it may take, and parts of the descriptions by which it may be
/// found.
fn expected(bug: Bug) -> (u64, &'static [&'static str]) {
    match bug {
        Bug::Store(bug) => expected_in_the_store(bug),
        Bug::IncarnationIgnored => (10, &["must be StaleIncarnation"]),
        Bug::ReleasedReadAsEmpty => (10, &["must be UnknownShuffle", "refused: UnknownShuffle"]),
        Bug::UnknownPartitionAsEmpty => (10, &["must be UnknownPartition"]),
        Bug::ChecksumUnchecked => (10, &["must be ChecksumMismatch", "damaged, and answered"]),
        Bug::StaleGenerationMerged => (50, &NOT_STALE),
        Bug::CommittedOnce | Bug::OtherAttemptRefused => {
            (10, &["Done was refused: LedgerMismatch"])
        }
        Bug::OneCodeForAll => (
            10,
            &[
                "must be",
                "nothing is wrong",
                "damaged, and answered",
                "LedgerMismatch",
            ],
        ),
        Bug::TornTailForgotten => (2000, &UNREADABLE),
        Bug::ShortWriteTakenForWhole => {
            let parts = &[
                "other bytes than were pushed",
                "cannot be read",
                "is None, may be",
            ];
            (500, parts)
        }
        Bug::MarkerUnchecked => (10, &["is not as it was"]),
        Bug::LeftoversKept => (10, &["is left of"]),
        Bug::RemovedFilesKept => (10, &["is left of", "blocks removed"]),
        Bug::LeaseIgnored => (50, &["applications without a lease"]),
        Bug::StreamsShared => (
            200,
            &["must be Closed", "no chunk: Stream", "no original: Stream"],
        ),
        Bug::FilesLeftOpen => (10, &["files are open"]),
        Bug::IncarnationReused => (10, &["a new incarnation", "does not start"]),
        Bug::ChunkOffByOne => (50, &UNREADABLE),
    }
}

fn expected_in_the_store(bug: PlantedBug) -> (u64, &'static [&'static str]) {
    match bug {
        PlantedBug::DroppedShown => (500, &["no chunk", "cannot be read", "chunk"]),
        PlantedBug::DropMovesSlots => (500, &["slots", "segments", "must be"]),
        PlantedBug::DroppedBytesCounted => (
            500,
            &["other bytes than were pushed", "cannot be read", "no chunk"],
        ),
        PlantedBug::RemoteDropped => (500, &["slots", "segments", "chunk"]),
        PlantedBug::AckBeforeWrite => (100, &["slots", "segments", "chunk", "is UnknownPartition"]),
        PlantedBug::FailedWriteAcknowledged => (500, &["chunk"]),
        PlantedBug::FailedWriteDropsAll => (2000, &["slots", "segments"]),
        PlantedBug::PartsMixedUp => (100, &UNREADABLE),
        PlantedBug::TailMemoryKept => (10, &["bytes are kept of removed shuffles"]),
        PlantedBug::RegistrationsForgotten => (
            50,
            &["is None, may be", "must be known", "of a known application"],
        ),
        PlantedBug::LedgerUnchecked => (10, &["must be LedgerMismatch", "commit of a whole batch"]),
        PlantedBug::UncommittedShown => (10, &["slots", "segments"]),
        PlantedBug::AbortedKept => (500, &["Aborted"]),
        PlantedBug::BatchTakenTwice => (50, &["code of what is there", "must be"]),
        PlantedBug::HandoverBelievedTwice => {
            (500, &["a new incarnation", "is left of an earlier daemon"])
        }
        PlantedBug::HandoverWithoutMemory => (
            100,
            &["other bytes than were pushed", "cannot be read", "chunk"],
        ),
        PlantedBug::DrainIgnored => (50, &["must be Draining", "codes of a push while it drains"]),
        PlantedBug::RepeatsUncompared => (50, &["OtherContent"]),
        PlantedBug::SegmentForgotten => (50, &["slots", "segments"]),
        PlantedBug::WaitIgnored => (50, &["must not wait asks a disk"]),
        PlantedBug::OldOffsetsUsed => (1000, &["original", "other bytes"]),
        PlantedBug::RemovedOutputRead => (1000, &["original", "other bytes"]),
        PlantedBug::OneDirectoryOnly => (50, &["no original"]),
        PlantedBug::RegisteredAgainRemoved => (2000, &["blocks removed"]),
        PlantedBug::NoDescriptorTakenForBadDisk => (200, &["DiskFailed"]),
        PlantedBug::DroppedWithoutDescriptor => (500, &["slots", "segment"]),
        PlantedBug::MarkerAlwaysRemoved => (2000, &["is left of an earlier daemon"]),
        PlantedBug::NoDescriptorRefused => (200, &["no original"]),
        PlantedBug::BlockMergedTwice => (200, &["one segment per map index", "bytes merged"]),
        PlantedBug::FinalizedWithoutMemory => (50, &["of the merged partition"]),
        PlantedBug::UnknownTakenForFinalized => (200, &["is Some(TooLate), must be Some(Success)"]),
        // Only an order of threads (`store/tests/interleaved`) or connections (`connections`) show
        // the others.
        _ => (0, &[]),
    }
}

#[test]
fn every_planted_bug_is_caught_by_what_it_does_wrong() {
    let mut wrong = Vec::new();
    for bug in Bug::ALL {
        let (seeds, parts) = expected(bug);
        let Some((seed, breach)) = caught(bug, seeds) else {
            wrong.push(format!("{bug:?} was not caught within {seeds} seeds"));
            continue;
        };
        let found = format!("{bug:?}: seed {seed}, {breach}");
        eprintln!("{found}");
        if !parts.iter().any(|part| breach.contains(part)) {
            wrong.push(found);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_bug_is_planted_for_its_own_run_only() {
    let bug = Bug::Store(PlantedBug::UncommittedShown);
    let Some((seed, _)) = caught(bug, expected(bug).0) else {
        panic!("{bug:?} was not caught");
    };
    let healthy = SimSetup {
        seed,
        ..SimSetup::default()
    };
    assert_eq!(run(healthy).breach, None);
}

#[test]
fn the_daemon_that_is_released_asks_for_no_planted_bugs() {
    for manifest in [
        include_str!("../../../server/Cargo.toml"),
        include_str!("../../../store/Cargo.toml"),
    ] {
        assert!(manifest.contains("\nlodestone-planted.workspace = true\n"));
        let mut asks = manifest
            .lines()
            .filter(|line| line.contains("lodestone-planted/on"));
        assert!(
            asks.all(|line| line.starts_with("shuttle = ")),
            "{manifest}"
        );
        assert!(!manifest.contains("\ndefault ="), "{manifest}");
    }
    assert!(
        include_str!("../../../Cargo.toml")
            .contains("\nlodestone-planted = { path = \"planted\" }\n")
    );
    assert!(!include_str!("../../../planted/Cargo.toml").contains("\ndefault ="));
}
