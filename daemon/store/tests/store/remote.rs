// SPDX-License-Identifier: Apache-2.0
//! Which segments of a map attempt count, and when: mostly for remote shuffles, and the same for
//! merged ones.

use std::thread;

use crate::world::*;

use lodestone_model::*;
use lodestone_store::fs::fake::{Errno, FakeFs, Fault};
use lodestone_store::{Batch, StoreConfig};

#[test]
fn an_attempt_is_read_when_it_has_committed_and_not_before() {
    let world = World::new().remote();
    let (mut first, mut second) = (world.attempt(0, 10), world.attempt(1, 11));
    assert_eq!(first.push(&[(3, b"one"), (4, b"two")]), [Code::Ok; 2]);
    assert_eq!(second.push(&[(3, b"other")]), [Code::Ok]);
    assert_eq!(first.push(&[(3, b"three")]), [Code::Ok]);
    assert_eq!(world.shown(3), []);
    first.commit().unwrap();
    first.commit().unwrap();
    assert_eq!(world.shown(3), [(0, 10, 0), (0, 10, 2)]);
    assert_eq!(world.fetch(3), b"onethree");
    second.commit().unwrap();
    assert_eq!(world.fetch(3), b"oneotherthree");
    assert_eq!(world.fetch(4), b"two");
    let none = world.store.layout(&key(), MapRange::ALL, ReduceId(5));
    assert_eq!(none.unwrap_err().code, Code::UnknownPartition);
}

#[test]
fn a_batch_that_comes_twice_is_taken_once() {
    let world = World::new().remote();
    let mut attempt = world.attempt(0, 10);
    let batch: [(u32, &[u8]); 2] = [(1, b"aa"), (1, b"bb")];
    assert_eq!(attempt.push_from(0, &batch), [Code::Ok; 2]);
    assert_eq!(attempt.push_from(0, &batch), [Code::Duplicate; 2]);
    attempt.commit().unwrap();
    assert_eq!(attempt.push_from(0, &batch), [Code::Duplicate; 2]);
    assert_eq!(world.fetch(1), b"aabb");
}

#[test]
fn an_incomplete_attempt_does_not_commit() {
    let world = World::new().remote();
    let mut attempt = world.attempt(0, 10);
    attempt.push(&[(1, b"aa"), (2, b"bb")]);
    let held = attempt.acknowledged;
    let more = Ledger {
        segments: held.segments + 1,
        ..held
    };
    let other = Ledger {
        checksum: held.checksum ^ 1,
        ..held
    };
    for wrong in [more, other, Ledger::default()] {
        assert_eq!(attempt.commit_as(wrong), Err(Code::LedgerMismatch));
    }
    assert_eq!(world.shown(1), []);
    attempt.commit().unwrap();
    let unheard = world.attempt(5, 99);
    assert_eq!(unheard.commit_as(held), Err(Code::LedgerMismatch));
    assert_eq!(unheard.commit_as(Ledger::default()), Ok(()));
}

#[test]
fn an_aborted_attempt_leaves_nothing_in_memory_and_nothing_comes_after_it() {
    let world = World::with(1, 8 * MIB).remote();
    let mut kept = world.attempt(0, 10);
    let mut gone = world.attempt(0, 11);
    let bytes = payload(0, 1, 100_000);
    kept.push(&[(1, &bytes), (2, b"kept")]);
    let before = world.store.load().memory_used;
    for _ in 0..20 {
        assert_eq!(gone.push(&[(1, &bytes), (2, b"gone")]), [Code::Ok; 2]);
    }
    kept.push(&[(1, b"behind"), (2, b"behind")]);
    assert!(world.store.load().memory_used > before + 2_000_000);
    gone.abort();
    let left = world.store.load().memory_used - before;
    assert!(left < 10_000, "{left} bytes of an aborted attempt");
    assert_eq!(gone.push(&[(1, b"late")]), [Code::Aborted]);
    assert_eq!(gone.commit(), Err(Code::Aborted));
    gone.abort();
    kept.commit().unwrap();
    assert_eq!(world.fetch(1), [bytes.as_slice(), b"behind"].concat());
    assert_eq!(world.fetch(2), b"keptbehind");
    let unheard = world.attempt(7, 70);
    unheard.abort();
    assert_eq!(world.attempt(7, 70).push(&[(1, b"late")]), [Code::Aborted]);
}

#[test]
fn space_of_an_aborted_attempt_on_disk_is_given_back_and_others_are_read_as_before() {
    let world = World::new().remote();
    world.fs.set_capacity(DISK.as_ref(), 100 * MIB);
    let bytes = |map: u32, n: u32| payload(map, n, LARGE_BYTES);
    let (mut kept, mut gone) = (world.attempt(0, 10), world.attempt(1, 11));
    for n in 0..4 {
        assert_eq!(kept.push(&[(1, &bytes(0, n))]), [Code::Ok]);
        assert_eq!(gone.push(&[(1, &bytes(1, n))]), [Code::Ok]);
    }
    kept.commit().unwrap();
    let before = world.load().disk_free;
    let slots = world
        .store
        .layout(&key(), MapRange::ALL, ReduceId(1))
        .unwrap();
    gone.abort();
    world.store.look_after_all();
    let freed = world.load().disk_free - before;
    assert_eq!(freed, 4 * LARGE_BYTES as u64);
    let now = world
        .store
        .layout(&key(), MapRange::ALL, ReduceId(1))
        .unwrap();
    assert_eq!(now, slots, "slots mean the same for ever");
    let all: Vec<u8> = (0..4).flat_map(|n| bytes(0, n)).collect();
    assert_eq!(world.fetch(1), all);
    let read = at(&world.store, 1, 1..2);
    assert_eq!(read.unwrap_err().code, Code::Aborted);
}

#[test]
fn an_aborted_part_of_the_tail_does_not_hide_the_parts_behind_it() {
    let world = World::with(1, 256 * MIB).remote();
    let piece = |map| payload(map, 0, MIB as usize);
    let mut small = world.attempt(0, 10);
    small.push(&[(0, b"to the shared file"), (1, b"behind it")]);
    small.commit().unwrap();
    world.write_step();
    let (mut gone, mut kept) = (world.attempt(1, 11), world.attempt(2, 12));
    (0..8).for_each(|_| assert_eq!(gone.push(&[(0, &piece(1))]), [Code::Ok]));
    (0..9).for_each(|_| assert_eq!(kept.push(&[(0, &piece(2))]), [Code::Ok]));
    kept.commit().unwrap();
    gone.abort();
    let chunk = || {
        read(
            &world
                .store
                .segments(&key(), ReduceId(0), &[run(0..1), run(9..18)])
                .unwrap(),
        )
    };
    let before = chunk();
    assert_eq!(before.len(), 18 + 9 * MIB as usize);
    world.write_step();
    assert_eq!(chunk(), before);
}

#[test]
fn bytes_that_a_reader_has_stay_when_another_attempt_is_aborted() {
    let world = World::with(1, 8 * MIB).remote();
    let (mut gone, mut kept) = (world.attempt(0, 10), world.attempt(1, 11));
    let bytes = payload(1, 1, 50_000);
    gone.push(&[(1, &payload(0, 1, 50_000))]);
    kept.push(&[(1, &bytes)]);
    kept.commit().unwrap();
    let open = at(&world.store, 1, 1..2).unwrap();
    gone.abort();
    assert_eq!(read(&open), bytes);
    drop(open);
    assert_eq!(world.fetch(1), bytes);
    let mut next = world.attempt(2, 12);
    assert_eq!(next.push(&[(1, b"next")]), [Code::Ok]);
    next.commit().unwrap();
    assert_eq!(world.fetch(1), [bytes.as_slice(), b"next"].concat());
}

#[test]
fn an_abort_that_is_repeated_after_readers_end_leaves_the_others_where_they_are() {
    let world = World::with(1, 8 * MIB).remote();
    let (mut gone, mut kept) = (world.attempt(0, 10), world.attempt(1, 11));
    let bytes = payload(1, 1, 50_000);
    gone.push(&[(1, &payload(0, 1, 50_000))]);
    kept.push(&[(1, &bytes), (1, b"behind")]);
    kept.commit().unwrap();
    let open = at(&world.store, 1, 1..2).unwrap();
    gone.abort();
    drop(open);
    let before = world.store.load().memory_used;
    gone.abort();
    assert!(
        world.store.load().memory_used < before,
        "it is closed up now"
    );
    assert_eq!(world.fetch(1), [bytes.as_slice(), b"behind"].concat());
}

#[test]
fn a_full_disk_refuses_new_segments_and_keeps_the_old_ones() {
    let world = World::new().remote();
    world.fs.set_capacity(DISK.as_ref(), 600_000);
    let mut attempt = world.attempt(0, 10);
    let mut taken = Vec::new();
    let refused = loop {
        let bytes = payload(0, attempt.next, 30_000);
        let codes = attempt.push(&[(1, &bytes)]);
        match codes[0] {
            Code::Ok => taken.extend(bytes),
            code => break code,
        }
        assert!(taken.len() < 2_000_000, "nothing is ever refused");
    };
    assert_eq!(refused, Code::DiskFull);
    assert!(taken.len() > 600_000, "memory is used as well");
    attempt.commit().unwrap();
    assert_eq!(world.fetch(1), taken);
}

#[test]
fn large_segments_have_all_of_the_memory_when_the_disk_is_full() {
    let world = World::with(1, 4 * MIB).remote();
    world.fs.set_capacity(DISK.as_ref(), 0);
    let mut attempt = world.attempt(0, 10);
    let mut taken = Vec::new();
    let refused = loop {
        let bytes = payload(0, attempt.next, 100_000);
        match attempt.push(&[(1, &bytes)])[0] {
            Code::Ok => taken.extend(bytes),
            code => break code,
        }
    };
    assert_eq!(refused, Code::DiskFull);
    assert!(taken.len() > 3_500_000, "{} bytes were taken", taken.len());
    attempt.commit().unwrap();
    assert_eq!(world.fetch(1), taken);
}

#[test]
fn a_batch_of_which_the_rest_was_refused_goes_on_where_it_ended() {
    let world = World::new().remote();
    let mut attempt = world.attempt(0, 10);
    let large = payload(0, 1, LARGE_BYTES);
    let batch: [(u32, &[u8]); 3] = [(1, b"small"), (1, &large), (2, b"last")];
    world.fs.fault_at(0, Fault::Torn(1_000, Errno::IO));
    let codes = attempt.push_from(0, &batch);
    assert_eq!(codes, [Code::Ok, Code::DiskFailed, Code::DiskFailed]);
    world.clock.advance_ms(10_000);
    let codes = attempt.push_from(0, &batch);
    assert_eq!(codes, [Code::Duplicate, Code::Ok, Code::Ok]);
    attempt.commit().unwrap();
    assert_eq!(world.fetch(1), [b"small", large.as_slice()].concat());
    assert_eq!(world.fetch(2), b"last");
}

#[test]
fn a_damaged_segment_ends_its_batch_which_is_repeated() {
    let world = World::new().remote();
    let mut segments = [header(1, b"aa"), header(1, b"bb"), header(2, b"cc")];
    segments[1].crc32c.0 ^= 1;
    let push = |segments: &[Segment]| {
        let pushed = batch(0, 10, segments, b"aabbcc");
        world.store.push_batch(&key(), &pushed).unwrap()
    };
    let damaged = Code::ChecksumMismatch;
    assert_eq!(push(&segments), [Code::Ok, damaged, damaged]);
    segments[1].crc32c.0 ^= 1;
    assert_eq!(push(&segments), [Code::Duplicate, Code::Ok, Code::Ok]);
}

#[test]
fn two_attempts_of_a_map_may_both_commit_and_stay_separate() {
    for world in [World::new().remote(), World::new().registered()] {
        let (mut one, mut two) = (world.attempt(0, 10), world.attempt(0, 11));
        one.push(&[(1, b"one")]);
        two.push(&[(1, b"two")]);
        one.commit().unwrap();
        two.commit().unwrap();
        assert_eq!(world.shown(1), [(0, 10, 0), (0, 11, 0)]);
        one.abort();
        assert_eq!(world.shown(1), [(0, 11, 0)]);
        assert_eq!(world.fetch(1), b"two");
        let outside = world.attempt(100_000, 1);
        assert_eq!(outside.commit(), Err(Code::Malformed), "of fewer maps");
    }
}

#[test]
fn memory_is_at_its_floor_when_a_remote_shuffle_is_removed() {
    let world = World::with(1, 8 * MIB);
    let floor = world.store.load().memory_used;
    let world = world.remote();
    for map in 0..10 {
        let mut attempt = world.attempt(map, i64::from(map));
        for n in 0..30 {
            attempt.push(&[(n, &payload(map, n, 1_000)), (n + 1, b"x")]);
        }
        match map % 3 {
            0 => attempt.commit().unwrap(),
            1 => attempt.abort(),
            _ => {}
        }
    }
    let removed = world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None);
    removed.unwrap();
    let (used, names) = (
        world.store.load().memory_used,
        world.store.memory_of_names(),
    );
    assert_eq!(used, floor + names);
    let late = world.attempt(0, 0).push(&[(1, b"late")]);
    assert_eq!(late, [Code::TooLate]);
}

/// An attempt that has pushed some of a block before, and finds that there is no more of it.
#[test]
fn a_segment_without_bytes_ends_a_block_and_stays_where_its_attempt_does() {
    let end = |reduce, sequence| Segment {
        sequence,
        records: 0,
        ..header(reduce, b"")
    };
    let world = World::with(2, LITTLE_MEMORY).remote();
    let push = |segments: &[Segment], body: &[u8]| {
        let pushed = batch(0, 10, segments, body);
        let outcome = world.store.push_batch(&key(), &pushed);
        outcome.map_err(|refusal| refusal.code)
    };
    for (sequence, records) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        let wrong = Segment {
            records,
            ..end(1, sequence)
        };
        assert_eq!(push(&[wrong], b""), Err(Code::Malformed), "{wrong:?}");
    }
    let segments = [header(1, b"one"), end(1, 3), end(2, 5), header(1, b"more")];
    assert_eq!(push(&segments, b"onemore"), Ok(vec![Code::Ok; 4]));
    let mut other = world.attempt(1, 11);
    other.push(&[(1, b"other")]);
    other.commit().unwrap();
    let ledger = segments.iter().map(|header| ledger_of(0, 10, header));
    let attempt = world.attempt(0, 10);
    attempt
        .commit_as(ledger.fold(Ledger::default(), Ledger::and))
        .unwrap();
    let check = |world: &World| {
        assert_eq!(world.shown(2), [(0, 10, 5)]);
        assert_eq!(world.fetch(2), b"");
        assert_eq!(
            world.shown(1),
            [(0, 10, 0), (0, 10, 3), (0, 10, 0), (1, 11, 0)]
        );
        assert_eq!(world.fetch(1), b"onemoreother");
    };
    check(&world);
    let next = crate::handover::handed_over(&world, 2, 2);
    check(&next);
    next.attempt(0, 10).abort();
    assert_eq!(next.fetch(1), b"other");
    assert_eq!(next.shown(2), []);
}

#[test]
fn an_aborted_block_leaves_nothing_in_memory_when_it_has_an_end_without_bytes() {
    let world = World::new().remote();
    let end = Segment {
        sequence: 3,
        records: 0,
        ..header(1, b"")
    };
    let mut kept = world.attempt(1, 11);
    let segments = [header(1, b"gone"), end];
    let pushed = batch(0, 10, &segments, b"gone");
    world.store.push_batch(&key(), &pushed).unwrap();
    kept.push(&[(1, b"kept")]);
    kept.commit().unwrap();
    world.attempt(0, 10).abort();
    assert_eq!(world.fetch(1), b"kept");
    assert_eq!(world.store.held_data().unwritten_bytes, 4);
    world.store.drain();
    world.write_out_as_called();
    assert_eq!(world.store.held_data().unwritten_bytes, 0);
    assert_eq!(world.fetch(1), b"kept");
}

/// The first ends come when there is no memory, and the tail is written out part by part later.
#[test]
fn an_abort_costs_other_attempts_no_bytes_of_a_tail_that_began_with_ends_without_bytes() {
    const BLOCK: usize = 40 << 10;
    const ENOUGH: u64 = 8 * MIB;
    let dirs = vec![DISK.into()];
    let config = StoreConfig {
        // Two blocks.
        tail_part_bytes: 64 << 10,
        ..StoreConfig::of(dirs.clone(), ENOUGH)
    };
    let world = World::configured(FakeFs::with_dirs(dirs), config, 1).remote();
    let mut next = 0;
    let mut push = |(map, map_id), reduce, bytes: &[u8]| {
        let segment = Segment {
            sequence: 2 * next + u32::from(bytes.is_empty()),
            records: i32::from(!bytes.is_empty()),
            ..header(reduce, bytes)
        };
        let batch = Batch {
            first_segment: next,
            ..batch(map, map_id, std::slice::from_ref(&segment), bytes)
        };
        next += 1;
        assert_eq!(world.store.push_batch(&key(), &batch).unwrap(), [Code::Ok]);
        ledger_of(map, map_id, &segment)
    };
    let (kept, aborted) = ((0, 100), (1, 200));
    let mut ledger = push(kept, 2, &vec![2; 5 * BLOCK]);
    ledger = ledger.and(push(kept, 1, b""));
    world.store.limit_memory(128 << 10);
    ledger = ledger.and(push(kept, 1, b""));
    world.store.limit_memory(ENOUGH);
    let blocks: Vec<_> = (0..7).map(|n| payload(n, 1, BLOCK)).collect();
    for (n, block) in blocks.iter().enumerate() {
        if n == 6 {
            // Room for one more when a part has left.
            world.store.limit_memory(700 << 10);
        }
        if n % 2 == 0 {
            ledger = ledger.and(push(kept, 1, block));
        } else {
            push(aborted, 1, block);
        }
    }
    assert_eq!(world.data_bytes(DISK), 2 * BLOCK, "one part has left");
    world.attempt(aborted.0, aborted.1).abort();
    world.attempt(kept.0, kept.1).commit_as(ledger).unwrap();
    let whole: Vec<_> = blocks.into_iter().step_by(2).flatten().collect();
    assert!(world.fetch(1) == whole, "other bytes");
}

/// Without its attempts it would look as if a reader's map had written nothing.
#[test]
fn a_layout_that_waits_while_its_shuffle_is_removed_is_refused_and_not_empty() {
    let world = World::new().remote();
    let mut attempt = world.attempt(1, 100);
    assert_eq!(attempt.push(&[(3, b"shown")]), [Code::Ok]);
    attempt.commit().unwrap();
    world.fs.hold_writes();
    let large = vec![7; LARGE_BYTES];
    let range = MapRange::new(0, i32::MAX as u32).unwrap();
    thread::scope(|scope| {
        let writes = scope.spawn(|| world.attempt(2, 200).push(&[(3, &large)]));
        while world.fs.held_writes() == 0 {
            thread::yield_now();
        }
        let layout = scope.spawn(|| world.store.layout(&key(), range, ReduceId(3)));
        let ShuffleKey { app, shuffle, .. } = key();
        world
            .store
            .remove_shuffle(&app, AppAttempt::NONE, shuffle, None)
            .unwrap();
        world.fs.release_writes();
        writes.join().unwrap();
        let refused = layout.join().unwrap().unwrap_err();
        assert_eq!(refused.code, Code::UnknownShuffle);
    });
}
