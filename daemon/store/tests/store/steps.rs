// SPDX-License-Identifier: Apache-2.0
//! The data of remote shuffles in memory is written out in steps while the store serves.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use lodestone_model::*;
use lodestone_store::fs::fake::Errno;

use crate::world::*;

/// Pushes this many MiB into a partition.
fn push_mib(world: &World, map: u32, reduce: u32, count: u64) {
    let block = vec![7; MIB as usize];
    let mut attempt = world.attempt(map, 100);
    for _ in 0..count {
        assert_eq!(attempt.push(&[(reduce, &block)]), [Code::Ok]);
    }
}

#[test]
fn a_step_takes_the_largest_tails_and_later_segments_are_not_written_in_crumbs() {
    let world = World::with(1, 256 * MIB).remote();
    world.attempt(0, 100).push(&[(0, b"crumb")]);
    push_mib(&world, 1, 1, 50);
    push_mib(&world, 2, 2, 30);
    push_mib(&world, 3, 3, 2);
    assert_eq!(world.store.unwritten_bytes(), 82 * MIB + 5);
    assert_eq!(world.write_step(), 80 * MIB, "until a step");
    assert_eq!(world.store.unwritten_bytes(), 2 * MIB + 5);
    assert_eq!(world.write_step(), 2 * MIB + 5);
    assert_eq!(world.write_step(), 0, "there is none left");
}

#[test]
fn a_store_that_writes_out_takes_new_shuffles_and_leaves_merged_ones_in_memory() {
    let world = World::with(1, 16 * MIB).remote();
    push_mib(&world, 1, 1, 1);
    let merged = ShuffleKey {
        shuffle: ShuffleId(8),
        ..key()
    };
    world.store.register_shuffle(&merged, spec()).unwrap();
    let headers = [header(0, b"merged")];
    let pushed = batch(0, 1, &headers, b"merged");
    world.store.push_batch(&merged, &pushed).unwrap();
    assert_eq!(world.write_step(), MIB);
    assert_eq!(world.data_bytes(DISK) as u64, MIB, "it has originals");
    assert_eq!(world.load().state, State::Serving);
    let new = ShuffleKey {
        shuffle: ShuffleId(9),
        ..key()
    };
    world.store.register_shuffle(&new, spec()).unwrap();
}

#[test]
fn segments_that_no_disk_takes_stay_in_memory_and_are_read_from_there() {
    let world = World::new().remote();
    let mut attempt = world.attempt(1, 100);
    attempt.push(&[(3, b"kept")]);
    attempt.commit().unwrap();
    world.fs.break_dir(DISK.as_ref(), Errno::NOSPC);
    assert_eq!(world.write_step(), 0);
    assert_eq!(world.store.unwritten_bytes(), 4);
    assert_eq!(world.fetch(3), b"kept");
}

#[test]
fn a_shuffle_that_is_removed_in_the_middle_of_a_step_leaves_no_file() {
    let world = World::new().remote();
    let mut attempt = world.attempt(1, 100);
    for reduce in 0..10 {
        attempt.push(&[(reduce, b"some")]);
    }
    world.fs.hold_writes();
    thread::scope(|scope| {
        let step = scope.spawn(|| world.write_step());
        while world.fs.held_writes() == 0 {
            thread::yield_now();
        }
        let (app, shuffle) = (app(), ShuffleId(7));
        let removed = world
            .store
            .remove_shuffle(&app, AppAttempt::NONE, shuffle, None);
        removed.unwrap();
        // The shuffle is unknown, whether its files are gone or not.
        assert!(world.store.check_readable(&key()).is_err());
        world.fs.release_writes();
        step.join().unwrap();
    });
    assert!(world.data_files(DISK).is_empty());
    assert_eq!(world.store.unwritten_bytes(), 0);
    let left = world.store.load().memory_used;
    assert_eq!(left, world.store.memory_of_names());
}

#[test]
fn segments_written_in_steps_while_memory_is_short_are_read_exactly() {
    const MAPS: u32 = 4;
    const SEGMENTS: u32 = 300;
    // Memory for few of them: pushes write as well.
    let world = World::with(2, MIB).remote();
    let bytes = |map: u32, number: u32| payload(map, number, 500 + (number as usize * 97) % 20_000);
    let pushed = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !pushed.load(SeqCst) {
                world.write_step();
            }
        });
        let pushers: Vec<_> = (0..MAPS)
            .map(|map| {
                let world = &world;
                scope.spawn(move || {
                    let mut attempt = world.attempt(map, 100);
                    for number in 0..SEGMENTS {
                        let codes = attempt.push(&[(number % 5, &bytes(map, number))]);
                        assert_eq!(codes, [Code::Ok]);
                    }
                    attempt.commit().unwrap();
                })
            })
            .collect();
        let outcomes: Vec<_> = pushers.into_iter().map(|pusher| pusher.join()).collect();
        pushed.store(true, SeqCst);
        writer.join().unwrap();
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    let mut found = 0;
    for reduce in 0..5 {
        let segments = world.segments(reduce);
        found += segments.len();
        let expected: Vec<u8> = segments
            .iter()
            .flat_map(|segment| bytes(segment.map_index.0, segment.sequence))
            .collect();
        assert!(world.fetch(reduce) == expected, "partition {reduce}");
    }
    assert_eq!(found, (MAPS * SEGMENTS) as usize);
}
