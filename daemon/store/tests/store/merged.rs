// SPDX-License-Identifier: Apache-2.0
//! Merged shuffles: attempts commit like those of remote ones, and segments that cannot be written
//! are dropped, because executors have them too.

use crate::world::*;

use lodestone_model::*;
use lodestone_store::Batch;
use lodestone_store::fs::fake::{Errno, Fault};

/// Makes the next write to the disk fail, and pushes a segment that must be written. It is refused,
/// and the segments of the partition that are in memory are dropped.
fn drop_tail(world: &World, map: u32, reduce: u32) {
    world.fs.fault_at(0, Fault::Torn(10, Errno::NOSPC));
    let large = payload(map, reduce, LARGE_BYTES);
    assert_eq!(world.push(map, reduce, &large), Code::DiskFull);
    world.clock.advance_ms(5_000);
}

fn refused_at(world: &World, reduce: u32, slots: std::ops::Range<u32>) -> Option<Code> {
    at(&world.store, reduce, slots)
        .err()
        .map(|refusal| refusal.code)
}

#[test]
fn an_attempt_with_a_lost_answer_does_not_commit_and_costs_no_other() {
    let world = World::new().registered();
    let (mut heard, mut unheard) = (world.attempt(0, 10), world.attempt(1, 11));
    heard.push(&[(1, b"first")]);
    unheard.push(&[(1, b"second")]);
    let known = unheard.acknowledged;
    // The service takes it, and the answer is lost.
    let lost: [(u32, &[u8]); 1] = [(1, b"unheard")];
    assert_eq!(unheard.push_from(1, &lost), [Code::Ok]);
    heard.commit().unwrap();
    assert_eq!(unheard.commit_as(known), Err(Code::LedgerMismatch));
    assert_eq!(world.fetch(1), b"first");
    let both = unheard.acknowledged;
    assert_eq!(
        unheard.push_from(1, &lost),
        [Code::Duplicate],
        "asked again it says so"
    );
    assert_eq!(unheard.commit_as(both), Ok(()));
    assert_eq!(world.fetch(1), b"firstsecondunheard");
}

#[test]
fn attempts_without_a_commit_are_not_shown_and_leave_nothing_when_they_are_aborted() {
    let world = World::new().registered();
    let kept: [(u32, i64, &[u8]); 2] = [(0, 10, b"first"), (2, 12, b"third")];
    world.push_attempt(0, 10, 1, b"first");
    let mut doubtful = world.attempt(1, 11);
    doubtful.push(&[(1, b"second"), (2, b"alone")]);
    world.push_attempt(2, 12, 1, b"third");
    world.commit_all();
    let shown = || world.shown(1);
    let expected: Vec<_> = kept.iter().map(|(map, id, _)| (*map, *id, ONLY)).collect();
    assert_eq!(shown(), expected);
    assert_eq!(world.fetch(1), b"firstthird");
    assert_eq!(world.segments(2), []);
    doubtful.abort();
    assert_eq!(shown(), expected);
    assert_eq!(world.fetch(1), b"firstthird");
    assert_eq!(refused_at(&world, 1, 1..2), Some(Code::Aborted));
    assert_eq!(doubtful.commit(), Err(Code::Aborted));
}

#[test]
fn acknowledged_segments_that_were_dropped_count_in_the_ledger_and_are_not_shown() {
    let world = World::new().registered();
    let mut attempt = world.attempt(0, 10);
    attempt.push(&[(0, b"in the tail"), (1, b"elsewhere")]);
    world.push(1, 0, b"behind it");
    drop_tail(&world, 2, 0);
    assert_eq!(world.commit_all(), 1);
    attempt.commit().unwrap();
    assert_eq!(world.segments(0), []);
    assert_eq!(world.fetch(1), b"elsewhere");
    let too_few = Ledger::of(ReduceId(1), world.segments(1));
    assert_eq!(attempt.commit_as(too_few), Err(Code::LedgerMismatch));
}

#[test]
fn a_dropped_segment_leaves_its_slot_and_a_reader_that_knows_it_is_refused_that_chunk_only() {
    let world = World::new().registered();
    world.push(0, 0, &payload(0, 0, LARGE_BYTES));
    world.push(1, 0, b"in the tail");
    world.push(2, 0, b"as well");
    world.commit_all();
    let known = world.store.layout(&key(), MapRange::ALL, ReduceId(0));
    assert_eq!(known.unwrap()[0].segments.len(), 3);
    let open = at(&world.store, 0, 1..3).unwrap();
    drop_tail(&world, 3, 0);
    assert_eq!(read(&open), b"in the tailas well", "who has it keeps it");
    assert_eq!(world.push(4, 0, b"after"), Code::Ok);
    world.commit_all();
    let layout = world.store.layout(&key(), MapRange::ALL, ReduceId(0));
    let runs: Vec<_> = layout
        .unwrap()
        .iter()
        .map(|run| (run.first, run.segments[0].map_index.0))
        .collect();
    assert_eq!(runs, [(0, 0), (3, 4)]);
    for gone in [1..2, 2..3, 0..3] {
        assert_eq!(refused_at(&world, 0, gone), Some(Code::Aborted));
    }
    assert_eq!(refused_at(&world, 0, 4..5), Some(Code::Malformed));
    let chunk = |slots| read(&at(&world.store, 0, slots).unwrap());
    assert_eq!(chunk(0..1), payload(0, 0, LARGE_BYTES));
    assert_eq!(chunk(3..4), b"after");
}

/// Segments behind empty slots are found after a part of them was written, after an abort has
/// closed the gaps of the rest, and after all of it was written.
#[test]
fn segments_after_a_drop_are_found_wherever_they_go() {
    let world = World::new().registered();
    let segment = |map, length: u64| payload(map, 0, length as usize);
    world.push(0, 0, b"dropped");
    world.push(1, 0, b"dropped too");
    drop_tail(&world, 2, 0);
    // One part of the tail, and an attempt behind it that does not count.
    world.store.limit_memory(14 * MIB);
    (10..18).for_each(|map| assert_eq!(world.push(map, 0, &segment(map, MIB)), Code::Ok));
    let mut gone = world.attempt(18, 1);
    assert_eq!(gone.push(&[(0, &segment(18, MIB))]), [Code::Ok]);
    assert_eq!(world.data_bytes(DISK), 0);
    // The part has to make room.
    assert_eq!(world.push(19, 0, &segment(19, 5 * MIB)), Code::Ok);
    assert_eq!(world.data_bytes(DISK) as u64, 8 * MIB);
    world.commit_all();
    let mut expected: Vec<u8> = (10..18).flat_map(|map| segment(map, MIB)).collect();
    expected.extend(segment(19, 5 * MIB));
    let check = || assert!(world.fetch(0) == expected);
    check();
    gone.abort();
    check();
    world.store.limit_memory(LITTLE_MEMORY);
    world.write_out_as_called();
    assert_eq!(world.data_bytes(DISK) as u64, 13 * MIB);
    check();
    // A second drop takes only segments that came later.
    world.push(20, 0, b"dropped as well");
    drop_tail(&world, 21, 0);
    world.commit_all();
    check();
    assert_eq!(refused_at(&world, 0, 0..1), Some(Code::Aborted));
}

#[test]
fn the_memory_of_dropped_segments_is_free_and_all_of_it_after_the_shuffle_is_removed() {
    let world = World::with(1, MIB);
    let floor = world.store.load().memory_used;
    let world = world.registered();
    for map in 0..20 {
        world.push(map, 0, &payload(map, 0, 10_000));
    }
    let before = world.store.load().memory_used;
    world.fs.break_dir(DISK.as_ref(), Errno::NOSPC);
    assert_eq!(
        world.push(20, 0, &payload(20, 0, 1_000_000)),
        Code::DiskFull
    );
    let freed = before - world.store.load().memory_used;
    assert!(freed >= 190_000, "{freed} bytes were freed");
    let removed = world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None);
    removed.unwrap();
    let (used, names) = (
        world.store.load().memory_used,
        world.store.memory_of_names(),
    );
    assert_eq!(used, floor + names);
}

#[test]
fn a_drained_store_takes_no_new_segments_of_merged_attempts_and_lets_them_commit() {
    let world = World::new().registered();
    let mut attempt = world.attempt(0, 10);
    let batch: [(u32, &[u8]); 2] = [(1, b"one"), (2, b"two")];
    attempt.push_from(0, &batch);
    world.store.drain();
    assert_eq!(attempt.push_from(0, &batch), [Code::Duplicate; 2]);
    assert_eq!(attempt.push_from(2, &batch), [Code::Draining; 2]);
    assert_eq!(world.attempt(1, 11).push(&batch), [Code::Draining; 2]);
    attempt.commit().unwrap();
    assert_eq!(world.fetch(1), b"one");
    let held = world.store.held_data();
    assert_eq!((held.shuffles, held.bytes, held.unwritten_bytes), (0, 0, 0));
}

#[test]
fn a_block_of_several_segments_may_have_an_end_without_bytes_too() {
    let world = World::new().registered();
    let end = Segment {
        sequence: 3,
        records: 0,
        ..header(1, b"")
    };
    let segments = [header(1, b"one"), end];
    let pushed = Batch {
        first_segment: 5,
        ..batch(0, 10, &segments, b"one")
    };
    let codes = world.store.push_batch(&key(), &pushed).unwrap();
    assert_eq!(codes, [Code::Ok; 2]);
    let all = segments.iter().map(|header| ledger_of(0, 10, header));
    let attempt = world.attempt(0, 10);
    attempt
        .commit_as(all.fold(Ledger::default(), Ledger::and))
        .unwrap();
    assert_eq!(world.shown(1), [(0, 10, 0), (0, 10, 3)]);
    assert_eq!(world.fetch(1), b"one");
}
