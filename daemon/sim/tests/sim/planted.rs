// SPDX-License-Identifier: Apache-2.0
//! Each planted bug is found, within a number of seeds, by what it does wrong.

use lodestone_planted::Bug;
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

/// How a bug is found: within so many seeds, and by a description with one of these parts.
type Found = (Bug, u64, &'static [&'static str]);

/// Bugs of the store.
const OF_STORE: [Found; 42] = [
    (
        Bug::DroppedShown,
        500,
        &["no chunk", "cannot be read", "chunk"],
    ),
    (Bug::DropMovesSlots, 500, &["slots", "segments", "must be"]),
    (
        Bug::DroppedBytesCounted,
        500,
        &["other bytes than were pushed", "cannot be read", "no chunk"],
    ),
    (Bug::RemoteDropped, 500, &["slots", "segments", "chunk"]),
    (
        Bug::AckBeforeWrite,
        100,
        &["slots", "segments", "chunk", "is UnknownPartition"],
    ),
    (Bug::FailedWriteAcknowledged, 500, &["chunk"]),
    (Bug::FailedWriteDropsAll, 2000, &["slots", "segments"]),
    (Bug::PartsMixedUp, 100, &UNREADABLE),
    (
        Bug::TailMemoryKept,
        10,
        &["bytes are kept of removed shuffles"],
    ),
    (
        Bug::RegistrationsForgotten,
        50,
        &["is None, may be", "must be known", "of a known application"],
    ),
    (
        Bug::LedgerUnchecked,
        10,
        &["must be LedgerMismatch", "commit of a whole batch"],
    ),
    (Bug::UncommittedShown, 10, &["slots", "segments"]),
    (Bug::AbortedKept, 500, &["Aborted"]),
    (
        Bug::BatchTakenTwice,
        50,
        &["code of what is there", "must be"],
    ),
    (
        Bug::HandoverBelievedTwice,
        500,
        &["a new incarnation", "is left of an earlier daemon"],
    ),
    (
        Bug::HandoverWithoutMemory,
        100,
        &["other bytes than were pushed", "cannot be read", "chunk"],
    ),
    (
        Bug::DrainIgnored,
        50,
        &["must be Draining", "codes of a push while it drains"],
    ),
    (Bug::RepeatsUncompared, 50, &["OtherContent"]),
    (Bug::SegmentForgotten, 50, &["slots", "segments"]),
    (Bug::WaitIgnored, 50, &["must not wait asks a disk"]),
    (Bug::OldOffsetsUsed, 1000, &["original", "other bytes"]),
    (Bug::RemovedOutputRead, 1000, &["original", "other bytes"]),
    (Bug::OneDirectoryOnly, 50, &["no original"]),
    (Bug::RegisteredAgainRemoved, 2000, &["blocks removed"]),
    (Bug::NoDescriptorTakenForBadDisk, 200, &["DiskFailed"]),
    (Bug::DroppedWithoutDescriptor, 500, &["slots", "segment"]),
    (
        Bug::MarkerAlwaysRemoved,
        2000,
        &["is left of an earlier daemon"],
    ),
    (
        Bug::BlockMergedTwice,
        200,
        &["one segment per map index", "bytes merged"],
    ),
    (
        Bug::FinalizedWithoutMemory,
        50,
        &["of the merged partition"],
    ),
    (
        Bug::UnknownTakenForFinalized,
        200,
        &["is Some(TooLate), must be Some(Success)"],
    ),
    (
        Bug::CommittedOnce,
        10,
        &[
            "Done was refused: LedgerMismatch",
            "commit of a whole batch",
        ],
    ),
    (
        Bug::OtherAttemptRefused,
        10,
        &["Done was refused: LedgerMismatch"],
    ),
    (
        Bug::ChecksumUnchecked,
        10,
        &["must be ChecksumMismatch", "damaged, and answered"],
    ),
    (Bug::StaleGenerationTaken, 50, &NOT_STALE),
    (Bug::TornEndForgotten, 2000, &UNREADABLE),
    (
        Bug::ShortWriteTakenForWhole,
        500,
        &[
            "other bytes than were pushed",
            "cannot be read",
            "is None, may be",
        ],
    ),
    (Bug::MarkerUnchecked, 10, &["is not as it was"]),
    (Bug::LeftoversKept, 10, &["is left of"]),
    (Bug::LeaseIgnored, 50, &["applications without a lease"]),
    (Bug::ChunkOffByOne, 50, &UNREADABLE),
    (Bug::RemovedFilesKept, 10, &["is left of"]),
    (Bug::FilesLeftOpen, 10, &["files are open"]),
];

/// Bugs of the handlers and streams, and of the start.
const OF_SERVER: [Found; 7] = [
    (Bug::NoDescriptorRefused, 200, &["no original"]),
    (Bug::IncarnationIgnored, 10, &["must be StaleIncarnation"]),
    (
        Bug::UnknownShuffleReadAsEmpty,
        10,
        &["must be UnknownShuffle", "refused: UnknownShuffle"],
    ),
    (
        Bug::UnknownPartitionReadAsEmpty,
        10,
        &["must be UnknownPartition"],
    ),
    (
        Bug::OneCodeForAll,
        10,
        &[
            "must be",
            "nothing is wrong",
            "damaged, and answered",
            "LedgerMismatch",
        ],
    ),
    (
        Bug::StreamsShared,
        200,
        &["must be Closed", "no chunk: Stream", "no original: Stream"],
    ),
    (
        Bug::IncarnationReused,
        10,
        &["a new incarnation", "does not start"],
    ),
];

#[test]
fn every_planted_bug_is_caught_by_what_it_does_wrong() {
    let mut wrong = Vec::new();
    for (bug, seeds, parts) in OF_STORE.into_iter().chain(OF_SERVER) {
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
    let bug = Bug::UncommittedShown;
    let Some((seed, _)) = caught(bug, 10) else {
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
