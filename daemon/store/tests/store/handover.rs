// SPDX-License-Identifier: Apache-2.0
//! A daemon that is stopped hands its remote shuffles over to the next one, once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread;

use lodestone_model::*;
use lodestone_store::Reserve;
use lodestone_store::fs::Fs;
use lodestone_store::fs::fake::{Errno, FakeFs, Fault};

use crate::world::*;

const ENTRIES: &str = "handover";

fn dirs(disks: usize) -> Vec<PathBuf> {
    (0..disks)
        .map(|n| PathBuf::from(format!("/disk{n}")))
        .collect()
}

/// Starts the next daemon, on the same disks.
fn next_start(before: &World, disks: usize, seed: u64) -> World {
    World::on(before.fs.clone(), dirs(disks), LITTLE_MEMORY, seed)
}

pub(crate) fn handed_over(before: &World, disks: usize, seed: u64) -> World {
    before.store.hand_over();
    next_start(before, disks, seed)
}

fn handover_file(fs: &FakeFs) -> Option<PathBuf> {
    let files = fs.below(DISK.as_ref());
    files.into_iter().find(|path| path.ends_with(ENTRIES))
}

#[test]
fn committed_attempts_keep_their_slots_over_a_handover() {
    for disks in [1, 3] {
        let first = World::with(disks, LITTLE_MEMORY).remote();
        let large = payload(1, 3, LARGE_BYTES);
        let mut one = first.attempt(1, 100);
        one.push(&[(3, &large), (3, b"small"), (4, b"other")]);
        one.commit().unwrap();
        let mut two = first.attempt(2, 200);
        two.push(&[(3, b"of the second map")]);
        two.commit().unwrap();
        let before = (first.segments(3), first.fetch(3), first.fetch(4));
        let next = handed_over(&first, disks, 2);
        assert_eq!(next.store.incarnation(), first.store.incarnation());
        assert_eq!((next.segments(3), next.fetch(3), next.fetch(4)), before);
        assert_eq!(
            handover_file(&next.fs),
            None,
            "they could be believed again"
        );
    }
}

#[test]
fn an_attempt_that_was_pushing_goes_on_where_it_was() {
    let first = World::new().remote();
    let mut before = first.attempt(1, 100);
    assert_eq!(before.push(&[(3, b"a"), (3, b"b")]), [Code::Ok; 2]);
    let (sent, acknowledged) = (before.next, before.acknowledged);
    let next = handed_over(&first, 1, 2);
    assert_eq!(next.shown(3), [], "it has not committed");
    let mut after = next.attempt(1, 100);
    assert_eq!(
        after.push(&[(3, b"a"), (3, b"b")]),
        [Code::Duplicate; 2],
        "a batch whose answer was lost"
    );
    after.next = sent;
    after.acknowledged = acknowledged;
    assert_eq!(after.push(&[(3, b"c")]), [Code::Ok]);
    after.commit().unwrap();
    assert_eq!(next.fetch(3), b"abc");
}

/// Runs `then` while a write for the handover hangs below `dir`.
fn during_the_handover(world: &World, dir: &str, then: impl FnOnce()) {
    world.fs.hold_writes_below(dir.as_ref());
    thread::scope(|scope| {
        let stopping = scope.spawn(|| world.store.hand_over());
        while world.fs.held_writes() == 0 {
            thread::yield_now();
        }
        let outcome = catch_unwind(AssertUnwindSafe(then));
        world.fs.release_writes();
        stopping.join().unwrap();
        outcome.unwrap();
    });
}

#[test]
fn a_push_that_the_stop_did_not_wait_for_is_not_in_the_data_without_being_known() {
    let first = World::new().remote();
    let mut known = first.attempt(1, 100);
    assert_eq!(known.push(&[(3, b"a"), (4, b"b")]), [Code::Ok; 2]);
    let acknowledged = known.acknowledged;
    during_the_handover(&first, "/", || {
        // A segment that is appended now would be appended again when the client repeats it.
        assert_eq!(known.push(&[(4, b"c")]), [Code::Overloaded]);
        assert_eq!(known.commit(), Err(Code::Overloaded));
        assert_eq!(first.attempt(2, 200).push(&[(4, b"d")]), [Code::Overloaded]);
    });
    let next = next_start(&first, 1, 2);
    let mut again = next.attempt(1, 100);
    (again.next, again.acknowledged) = (2, acknowledged);
    assert_eq!(again.push(&[(4, b"c")]), [Code::Ok]);
    again.commit().unwrap();
    let mut new = next.attempt(2, 200);
    assert_eq!(new.push(&[(4, b"d")]), [Code::Ok]);
    new.commit().unwrap();
    assert_eq!(
        (next.fetch(3), next.fetch(4)),
        (b"a".to_vec(), b"bcd".to_vec())
    );
}

#[test]
fn an_attempt_that_was_aborted_stays_so() {
    let first = World::new().remote();
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, b"gone")]);
    let (map, map_id) = (MapIndex(1), MapId(100));
    first.store.abort_map(&key(), map, map_id).unwrap();
    first.attempt(2, 200).abort();
    let next = handed_over(&first, 1, 2);
    assert_eq!(next.attempt(1, 100).push(&[(3, b"late")]), [Code::Aborted]);
    assert_eq!(next.attempt(2, 200).push(&[(3, b"late")]), [Code::Aborted]);
    // Said again: the first daemon could have been unable to drop all of it.
    next.attempt(1, 100).abort();
    let committed = next.attempt(2, 200).commit();
    assert_eq!(committed, Err(Code::Aborted));
    next.store
        .end_application(&app(), AppAttempt::NONE)
        .unwrap();
    assert_eq!(next.load().memory_used, 0);
}

#[test]
fn a_handover_is_taken_over_once() {
    let first = World::new().remote();
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, b"a")]);
    attempt.commit().unwrap();
    let second = handed_over(&first, 1, 2);
    second.fs.crash();
    let third = next_start(&second, 1, 3);
    assert_ne!(third.store.incarnation(), first.store.incarnation());
    assert_eq!(third.data_files(DISK), Vec::<PathBuf>::new());
    let layout = third.store.layout(&key(), MapRange::ALL, ReduceId(3));
    assert_eq!(layout.unwrap_err().code, Code::UnknownApplication);
}

#[test]
fn shuffles_survive_many_handovers() {
    let mut world = World::new().remote();
    for map in 0..4 {
        let mut attempt = world.attempt(map, 100);
        attempt.push(&[(3, format!("<{map}>").as_bytes())]);
        attempt.commit().unwrap();
        world = handed_over(&world, 1, u64::from(map) + 2);
    }
    assert_eq!(world.fetch(3), b"<0><1><2><3>");
    world
        .store
        .end_application(&app(), AppAttempt::NONE)
        .unwrap();
    world.store.hand_over();
    assert_eq!(world.fs.below(DISK.as_ref()), Vec::<PathBuf>::new());
}

/// A store that was stopped with one committed attempt, and the path of its handover file.
fn stopped() -> (World, PathBuf) {
    let first = World::new().remote();
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, b"a")]);
    attempt.commit().unwrap();
    first.store.hand_over();
    let entries = handover_file(&first.fs).unwrap();
    (first, entries)
}

/// Length, checksum, and a byte that says what it is.
const END_ENTRY_BYTES: usize = 9;

#[test]
fn damaged_entries_are_refused_and_cut_ones_count_as_far_as_they_go() {
    let (first, entries) = stopped();
    let whole = first.fs.content(&entries).unwrap();
    let end_at = whole.len() - END_ENTRY_BYTES;
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        for (wrong, is_cut) in [(flipped, false), (whole[..at].to_vec(), true)] {
            let (before, entries) = stopped();
            before.fs.remove_file(&entries).unwrap();
            before.fs.add_file(&entries, &wrong);
            let next = next_start(&before, 1, 2);
            if next.store.incarnation() == before.store.incarnation() {
                // The length of the last entry is greater than before, so it looks cut.
                assert!(at >= end_at, "byte {at}, cut: {is_cut}");
                assert_eq!(next.fetch(3), b"a");
            } else {
                assert!(at < end_at || !is_cut, "byte {at}, cut: {is_cut}");
                assert_eq!(next.data_files(DISK), Vec::<PathBuf>::new());
            }
        }
    }
}

/// What a daemon finds if the one before never came back from a write.
fn copy(fs: &FakeFs) -> FakeFs {
    let copy = FakeFs::default();
    for path in fs.below("/".as_ref()) {
        match fs.content(&path) {
            Some(content) => copy.add_file(&path, &content),
            None => copy.add_dir(&path),
        }
    }
    copy
}

#[test]
fn a_write_that_hangs_in_the_handover_costs_no_shuffle_whose_data_is_on_disk() {
    let first = World::with(2, LITTLE_MEMORY).remote();
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, b"on disk")]);
    attempt.commit().unwrap();
    first.write_step();
    // It comes first in the order of the shuffles. One partition goes to each disk.
    let in_memory = first.remote_shuffle(1);
    let segments = [header(3, b"in "), header(4, b"memory")];
    let pushed = batch(1, 100, &segments, b"in memory");
    first.store.push_batch(&in_memory, &pushed).unwrap();
    during_the_handover(&first, "/disk1", || {
        let next = World::on(copy(&first.fs), dirs(2), LITTLE_MEMORY, 2);
        assert_eq!(next.store.incarnation(), first.store.incarnation());
        assert_eq!(next.fetch(3), b"on disk");
        let lost = next.store.check_readable(&in_memory).unwrap_err();
        assert_eq!(lost.code, Code::UnknownShuffle);
    });
    let next = next_start(&first, 2, 3);
    assert_eq!(next.fetch(3), b"on disk");
    next.store.check_readable(&in_memory).unwrap();
}

/// Another program fills the first disk. The daemon sees it at its next look.
#[test]
fn a_full_disk_costs_no_remote_shuffle_if_another_has_room() {
    let on_both = FakeFs::with_dirs(dirs(2));
    let first = World::keeping(Reserve::Bytes(MIB), on_both, dirs(2), LITTLE_MEMORY, 1).remote();
    first.fs.set_capacity("/disk0".as_ref(), 64);
    first.look_after();
    let bytes = payload(1, 3, LARGE_BYTES);
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, &bytes), (4, b"in memory"), (5, b"as well")]);
    attempt.commit().unwrap();
    first.store.hand_over();
    let on_both = first.fs.clone();
    let next = World::keeping(Reserve::Bytes(MIB), on_both, dirs(2), LITTLE_MEMORY, 2);
    assert_eq!(next.store.incarnation(), first.store.incarnation());
    assert_eq!(next.fetch(3), bytes);
    assert_eq!(
        (next.fetch(4), next.fetch(5)),
        (b"in memory".to_vec(), b"as well".to_vec())
    );
}

#[test]
fn a_write_that_fails_in_the_handover_costs_no_remote_shuffle_if_another_disk_is_well() {
    for nth in 0..6 {
        let first = World::with(2, LITTLE_MEMORY).remote();
        let mut attempt = first.attempt(1, 100);
        attempt.push(&[(3, b"on disk")]);
        attempt.commit().unwrap();
        first.write_step();
        let others = [1, 2, 3].map(|number| first.remote_shuffle(number));
        first.fs.fault_at(nth, Fault::Torn(7, Errno::IO));
        first.store.hand_over();
        let next = next_start(&first, 2, 2);
        assert_eq!(
            next.store.incarnation(),
            first.store.incarnation(),
            "write {nth}"
        );
        assert_eq!(next.fetch(3), b"on disk", "write {nth}");
        for other in &others {
            next.store.check_readable(other).unwrap();
        }
        assert_eq!(handover_file(&next.fs), None);
    }
}

/// Its data could not be written, and then neither could the file that says so.
#[test]
fn a_shuffle_that_is_lost_in_the_handover_does_not_come_back_without_its_data() {
    let first = World::with(2, LITTLE_MEMORY).remote();
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, b"in memory")]);
    attempt.commit().unwrap();
    let other = first.remote_shuffle(1);
    for nth in [1, 2] {
        first.fs.fault_at(nth, Fault::Torn(3, Errno::IO));
    }
    first.store.hand_over();
    let next = next_start(&first, 2, 2);
    assert_eq!(next.store.incarnation(), first.store.incarnation());
    next.store.check_readable(&other).unwrap();
    let lost = next.store.check_readable(&key()).unwrap_err();
    assert_eq!(lost.code, Code::UnknownShuffle);
}

/// A daemon could not look at a disk, and so did not find the first one.
#[test]
fn the_newer_one_of_two_handovers_counts() {
    for seed in 2..10 {
        let first = World::with(2, LITTLE_MEMORY).remote();
        let mut attempt = first.attempt(1, 100);
        attempt.push(&[(3, b"old")]);
        attempt.commit().unwrap();
        first.store.hand_over();
        let marker = format!("{DISK}/lodestone-{}/LODESTONE", first.store.incarnation());
        first.fs.break_reads(marker.as_ref(), Errno::IO);
        let second = next_start(&first, 2, seed).remote();
        let mut attempt = second.attempt(1, 200);
        attempt.push(&[(3, b"new")]);
        attempt.commit().unwrap();
        second.clock.advance_ms(1);
        second.store.hand_over();
        first.fs.mend(marker.as_ref());
        let next = next_start(&first, 2, 77);
        assert_eq!(
            next.store.incarnation(),
            second.store.incarnation(),
            "seed {seed}"
        );
        assert_eq!(next.fetch(3), b"new", "seed {seed}");
    }
}

#[test]
fn a_handover_of_another_version_is_refused() {
    let (before, entries) = stopped();
    let mut other = before.fs.content(&entries).unwrap();
    let version = &mut other[7];
    *version += 1;
    before.fs.remove_file(&entries).unwrap();
    before.fs.add_file(&entries, &other);
    let next = next_start(&before, 1, 2);
    assert_ne!(next.store.incarnation(), before.store.incarnation());
    assert_eq!(next.data_files(DISK), Vec::<PathBuf>::new());
}

/// The data may have been in memory of the system only.
#[test]
fn after_another_start_of_the_machine_a_handover_is_refused() {
    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
    for (boot, counts) in [("one start", true), ("another", false)] {
        let first = World::new().remote();
        first.fs.add_file(BOOT_ID.as_ref(), b"one start");
        let mut attempt = first.attempt(1, 100);
        attempt.push(&[(3, b"a")]);
        attempt.commit().unwrap();
        first.store.hand_over();
        first.fs.remove_file(BOOT_ID.as_ref()).unwrap();
        first.fs.add_file(BOOT_ID.as_ref(), boot.as_bytes());
        let next = next_start(&first, 1, 2);
        let is_taken_over = next.store.incarnation() == first.store.incarnation();
        assert_eq!(is_taken_over, counts, "{boot}");
        if !counts {
            assert_eq!(next.data_files(DISK), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn a_version_of_the_handover_file_is_one_sequence_of_bytes() {
    let first = World::with(2, LITTLE_MEMORY).remote();
    let mut one = first.attempt(1, 100);
    let large = payload(1, 3, LARGE_BYTES);
    one.push(&[(3, &large), (3, b"small"), (4, b"other")]);
    one.commit().unwrap();
    first.attempt(2, 200).push(&[(4, b"open")]);
    first.store.hand_over();
    let entries = first
        .fs
        .content(&handover_file(&first.fs).unwrap())
        .unwrap();
    let found = (entries[7], entries.len(), crc32c::crc32c(&entries));
    let advice = "if entries changed on purpose, raise the version in handover/entries.rs";
    assert_eq!(found, (5, 245, 555_018_825), "{advice}");
}

#[test]
fn a_lease_is_as_long_in_the_next_start_as_it_was_granted() {
    let mut world = World::new().remote();
    let mut one = world.attempt(1, 100);
    one.push(&[(3, b"a")]);
    one.commit().unwrap();
    let renewed = world.store.renew_lease(&app(), AppAttempt::NONE, 600_000);
    assert_eq!(renewed, Ok(600_000));
    for start in 2..4 {
        world = handed_over(&world, 1, start);
        world.clock.advance_ms(599_999);
        assert_eq!(world.store.expire_leases(world.store.now_ms()), []);
        assert_eq!(world.fetch(3), b"a");
    }
    world.clock.advance_ms(1);
    assert_eq!(world.store.expire_leases(world.store.now_ms()), [app()]);
}

#[test]
fn on_other_disks_nothing_is_taken_over() {
    let first = World::with(2, LITTLE_MEMORY).remote();
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, b"a")]);
    attempt.commit().unwrap();
    first.store.hand_over();
    let next = next_start(&first, 1, 2);
    assert_ne!(next.store.incarnation(), first.store.incarnation());
}

#[test]
fn a_shuffle_that_cannot_be_written_out_is_lost_and_leaves_nothing() {
    let first = World::new().remote();
    let mut attempt = first.attempt(1, 100);
    attempt.push(&[(3, b"in memory")]);
    attempt.commit().unwrap();
    first.fs.break_dir(DISK.as_ref(), Errno::NOSPC);
    first.store.hand_over();
    first.fs.mend(DISK.as_ref());
    let next = next_start(&first, 1, 2);
    assert_ne!(next.store.incarnation(), first.store.incarnation());
    assert_eq!(next.data_files(DISK), Vec::<PathBuf>::new());
}

/// The data is on both disks, and the handover file on the first one.
#[test]
fn a_start_that_cannot_look_at_all_disks_removes_nothing_that_a_later_one_may_go_on_with() {
    let first = World::with(2, LITTLE_MEMORY).remote();
    let mut attempt = first.attempt(1, 100);
    let bytes = payload(1, 0, LARGE_BYTES);
    attempt.push(&[(3, &bytes), (4, &bytes)]);
    attempt.commit().unwrap();
    first.store.hand_over();
    let marker = format!("{DISK}/lodestone-{}/LODESTONE", first.store.incarnation());
    first.fs.break_reads(marker.as_ref(), Errno::IO);
    let blind = next_start(&first, 2, 2);
    assert_ne!(blind.store.incarnation(), first.store.incarnation());
    first.fs.crash();
    first.fs.mend(marker.as_ref());
    let next = next_start(&first, 2, 3);
    assert_eq!(next.store.incarnation(), first.store.incarnation());
    assert_eq!((next.fetch(3), next.fetch(4)), (bytes.clone(), bytes));
}

#[test]
fn merged_shuffles_are_not_left_to_the_next_start() {
    let first = World::new().remote();
    let merged = ShuffleKey {
        shuffle: ShuffleId(8),
        ..key()
    };
    first.store.register_shuffle(&merged, spec()).unwrap();
    let bytes = payload(0, 0, LARGE_BYTES);
    let headers = [header(0, &bytes)];
    let pushed = batch(0, 1, &headers, &bytes);
    first.store.push_batch(&merged, &pushed).unwrap();
    assert_eq!(first.data_files(DISK).len(), 1);
    let next = handed_over(&first, 1, 2);
    assert_eq!(next.data_files(DISK), Vec::<PathBuf>::new());
    let refused = next.store.check_readable(&merged).unwrap_err();
    assert_eq!(refused.code, Code::UnknownShuffle);
}

#[test]
fn on_a_disk_that_gives_directories_to_a_group_the_stop_writes_no_handover_in_vain() {
    let fs = FakeFs::with_dirs(dirs(1));
    for (mode, is_kept) in [(0o770, false), (0o700, true)] {
        fs.force_mode(mode);
        let first = World::on(fs.clone(), dirs(1), LITTLE_MEMORY, u64::from(mode)).remote();
        let mut attempt = first.attempt(1, 100);
        attempt.push(&[(3, b"small")]);
        attempt.commit().unwrap();
        let writes = fs.writes();
        first.store.hand_over();
        assert_eq!(handover_file(&fs).is_some(), is_kept, "{mode:o}");
        assert_eq!(
            fs.writes() > writes,
            is_kept,
            "{mode:o}: the next daemon would drop it"
        );
        assert_eq!(first.store.hands_over(), is_kept, "{mode:o}");
    }
}
