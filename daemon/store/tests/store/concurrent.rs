// SPDX-License-Identifier: Apache-2.0
//! Many threads at once, and random schedules.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use lodestone_model::*;
use lodestone_store::Batch;
use lodestone_store::fs::fake::{Errno, Fault};
use proptest::prelude::*;

use crate::world::*;

#[test]
fn colliding_pushers_queue_and_every_segment_is_there_once() {
    const THREADS: u32 = 8;
    const MAPS: u32 = 200;
    let world = Arc::new(World::with(2, 2 * MIB).registered());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let world = world.clone();
            thread::spawn(move || {
                for map in (0..MAPS).filter(|map| map % THREADS == thread) {
                    for reduce in 0..4 {
                        assert_eq!(
                            world.push(map, reduce, &payload(map, reduce, 5_000)),
                            Code::Ok
                        );
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(world.store.load().memory_used <= 2 * MIB);
    world.commit_all();
    for reduce in 0..4 {
        let maps = world.maps(reduce);
        let expected: Vec<_> = maps
            .iter()
            .flat_map(|map| payload(*map, reduce, 5_000))
            .collect();
        assert_eq!(world.fetch(reduce), expected);
        let mut sorted = maps;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..MAPS).collect::<Vec<_>>());
    }
}

#[test]
fn attempts_that_push_at_once_are_all_visible_when_they_have_committed() {
    let world = Arc::new(World::new().registered());
    let threads: Vec<_> = (0..4_i64)
        .map(|attempt| {
            let world = world.clone();
            thread::spawn(move || {
                for map in 0..100 {
                    let bytes = payload(map, attempt as u32, 100);
                    assert_eq!(world.push_attempt(map, attempt, 0, &bytes), Code::Ok);
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(world.segments(0).is_empty(), "none has committed");
    assert_eq!(world.commit_all(), 400);
    let shown = world.segments(0);
    assert_eq!(shown.len(), 400);
    let expected: Vec<_> = shown
        .iter()
        .flat_map(|s| payload(s.map_index.0, s.map_id.0 as u32, 100))
        .collect();
    assert_eq!(world.fetch(0), expected);
}

/// A reader meets commits, drops and pushes at any moment. A slot that it has seen has the same
/// segment, or is refused.
#[test]
fn segments_shown_while_others_push_and_the_disk_fails_are_complete_or_refused() {
    const PUSHERS: u32 = 3;
    const LENGTH: usize = 40_000;
    let world = Arc::new(World::with(1, LITTLE_MEMORY).registered());
    let is_over = Arc::new(AtomicBool::new(false));
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|thread| {
            let world = world.clone();
            thread::spawn(move || {
                for n in 0..100 {
                    let map = n * PUSHERS + thread;
                    let mut attempt = world.attempt(map, 1);
                    attempt.push(&[(0, &payload(map, 0, LENGTH))]);
                    attempt.commit().unwrap();
                    if n % 10 == thread {
                        world.fs.fault_at(0, Fault::Torn(1_000, Errno::IO));
                    }
                    world.clock.advance_ms(5_000);
                }
            })
        })
        .collect();
    let reader = {
        let (world, is_over) = (world.clone(), is_over.clone());
        thread::spawn(move || {
            let (mut read_once, mut refused_once) = (0, 0);
            let mut slots: BTreeMap<u32, u32> = BTreeMap::new();
            while !is_over.load(SeqCst) || read_once == 0 {
                let layout = world.store.layout(&key(), MapRange::ALL, ReduceId(0));
                for run in layout.unwrap_or_default() {
                    let maps = run.segments.iter().map(|segment| segment.map_index.0);
                    for (slot, map) in (run.first..).zip(maps) {
                        let known = *slots.entry(slot).or_insert(map);
                        assert_eq!(known, map, "slot {slot} has another segment");
                    }
                }
                for (&slot, &map) in &slots {
                    match at(&world.store, 0, slot..slot + 1) {
                        Ok(data) => {
                            assert!(read(&data) == payload(map, 0, LENGTH), "slot {slot}");
                            read_once += 1;
                        }
                        Err(refusal) => {
                            assert_eq!(refusal.code, Code::Aborted);
                            refused_once += 1;
                        }
                    }
                }
            }
            (read_once, refused_once)
        })
    };
    pushers
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    is_over.store(true, SeqCst);
    let (read_once, _) = reader.join().unwrap();
    assert!(read_once > 0);
}

#[test]
fn removing_while_others_push_and_fetch_leaves_no_file_and_no_memory() {
    for _ in 0..20 {
        let world = Arc::new(World::with(1, MIB).registered());
        let pushers: Vec<_> = (0..3)
            .map(|thread| {
                let world = world.clone();
                thread::spawn(move || {
                    for map in 0.. {
                        let map = map * 3 + thread;
                        let code = world.push(map, map % 5, &payload(map, 0, 60_000));
                        if code != Code::Ok {
                            return code;
                        }
                    }
                    Code::Internal
                })
            })
            .collect();
        while world.data_files(DISK).is_empty() {
            thread::yield_now();
        }
        world
            .store
            .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None)
            .unwrap();
        for pusher in pushers {
            assert_eq!(pusher.join().unwrap(), Code::TooLate);
        }
        assert_eq!(world.data_files(DISK).len(), 0);
        let left = world.store.load().memory_used;
        assert_eq!(left, world.store.memory_of_names());
    }
}

/// The removal of the shuffle does not wait for the disk, and no file of it is created again.
#[test]
fn a_shuffle_that_is_removed_while_it_is_written_out_leaves_no_file() {
    let world = World::with(1, 4 * MIB).registered_for(2);
    for reduce in 0..8 {
        world.push(0, reduce, &payload(0, reduce, 150_000));
    }
    world.commit_all();
    let other = ShuffleKey {
        shuffle: ShuffleId(8),
        ..key()
    };
    world.store.register_shuffle(&other, spec()).unwrap();
    world.fs.hold_writes();
    thread::scope(|scope| {
        let world = &world;
        let pusher = scope.spawn(|| {
            for reduce in 0..50 {
                let bytes = payload(1, reduce, 60_000);
                let segments = [header(reduce, &bytes)];
                let pushed = Batch {
                    first_segment: reduce,
                    ..batch(1, 1, &segments, &bytes)
                };
                let codes = world.store.push_batch(&other, &pushed);
                assert_eq!(codes.unwrap(), [Code::Ok]);
            }
        });
        while world.fs.held_writes() == 0 {
            thread::yield_now();
        }
        let (attempt, shuffle) = (AppAttempt::NONE, ShuffleId(7));
        let removed = world.store.remove_shuffle(&app(), attempt, shuffle, None);
        removed.unwrap();
        world.store.finish_removals();
        assert!(world.store.check_readable(&key()).is_err());
        world.fs.release_writes();
        pusher.join().unwrap();
    });
    assert_eq!(world.load().state, State::Serving);
    let mut files = world.data_files(DISK);
    files.retain(|path| path.to_string_lossy().contains("-s7-"));
    assert!(files.is_empty(), "of a removed shuffle: {files:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// proptest prints the seed and the smallest failing case.
    #[test]
    fn readers_of_any_map_range_get_exactly_the_accepted_segments(
        lengths in prop::collection::vec(1_usize..600_000, 1..24),
        memory_kib in 128_u64..4_096,
        start in 0_u32..24,
        count in 0_u32..24,
        fault in prop::option::of((0_u64..12, 0_usize..300_000)),
    ) {
        let world = World::with(2, memory_kib * 1024).registered();
        if let Some((nth, written)) = fault {
            world.fs.fault_at(nth, Fault::Torn(written, Errno::IO));
        }
        let mut accepted = HashMap::new();
        for (map, length) in (0_u32..).zip(&lengths) {
            let bytes = payload(map, 1, *length);
            if world.push(map, 1, &bytes) == Code::Ok {
                accepted.insert(map, bytes);
            }
        }
        world.commit_all();
        let layout = world.store.layout(&key(), MapRange::ALL, ReduceId(1));
        let order: Vec<u32> = match &layout {
            Ok(_) => world.maps(1),
            Err(refusal) => {
                prop_assert_eq!(refusal.code, Code::UnknownPartition);
                return Ok(());
            }
        };
        // Without a fault every acknowledged segment is there; with one, every segment that is
        // there was acknowledged.
        prop_assert!(order.iter().all(|map| accepted.contains_key(map)));
        prop_assert!(fault.is_some() || order.len() == accepted.len());
        let range = MapRange::new(start, start + count).unwrap();
        let expected: Vec<u8> = order
            .iter()
            .filter(|map| range.contains(MapIndex(**map)))
            .flat_map(|map| accepted[map].clone())
            .collect();
        prop_assert_eq!(fetch(&world.store, range, 1).concat(), expected);
    }
}
