// SPDX-License-Identifier: Apache-2.0
//! The fuzzer (`daemon/fuzz`) begins with files that a daemon takes over. If their format changes,
//! it would only try how they are refused.

use std::fs;
use std::path::Path;

use lodestone_model::Code;
use lodestone_store::fs::fake::FakeFs;

use crate::world::*;

const EARLIER: &str = "0123456789abcdef";

/// Starts a daemon that finds this file of the corpus, under this name.
fn started_with(file: &str, name: &str) -> World {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/decode");
    let content = fs::read(corpus.join(file)).unwrap();
    let disk = FakeFs::with_dirs([DISK, "/local/blockmgr-1"]);
    let root = Path::new(DISK).join(format!("lodestone-{EARLIER}"));
    disk.add_file(&root.join("lock"), b"");
    disk.add_file(&root.join("LODESTONE"), b"lodestone store 1\n");
    disk.add_file(&root.join(name), &content);
    World::on(disk, vec![DISK.into()], LITTLE_MEMORY, 1)
}

#[test]
fn a_daemon_takes_over_the_handovers_with_which_the_fuzzer_begins() {
    for file in [
        "handover.one-attempt",
        "handover.several-attempts",
        "handover.end-far-away",
        "handover.most-files",
    ] {
        let world = started_with(file, "handover");
        assert_eq!(world.store.incarnation().to_string(), EARLIER, "{file}");
        assert_ne!(world.segments(3), [], "{file}");
    }
}

/// A disk that the daemon does not have, and positions that no file has: the paths and sums that
/// come out of them would lead anywhere.
#[test]
fn a_shuffle_whose_data_is_in_no_file_of_the_daemon_is_not_taken_over() {
    for file in [
        "handover.no-such-disk",
        "handover.offset-far-away",
        "handover.length-far-away",
    ] {
        let world = started_with(file, "handover");
        let lost = world.store.check_readable(&key()).map_err(|no| no.code);
        assert_eq!(lost, Err(Code::UnknownApplication), "{file}");
    }
}

/// Otherwise its data would stay for ever when its driver is gone.
#[test]
fn a_lease_in_a_handover_is_at_most_as_long_as_one_that_a_daemon_grants() {
    let world = started_with("handover.longest-lease", "handover");
    assert_ne!(world.segments(3), []);
    world.clock.advance_ms(3_600_000);
    assert_eq!(world.store.expire_leases(world.store.now_ms()), [app()]);
}

#[test]
fn a_daemon_takes_over_the_executors_with_which_the_fuzzer_begins() {
    for file in ["executors.1", "executors.2"] {
        let world = started_with(file, "executors-1");
        let dirs = world.store.local_dirs(&app(), "1").unwrap();
        assert_eq!(dirs, ["/local/blockmgr-1"], "{file}");
    }
}
