// SPDX-License-Identifier: Apache-2.0
//! Many threads at once, and random schedules.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lodestone_model::*;
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
    world.store.finalize(&key()).unwrap();
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
fn of_two_attempts_that_push_at_once_exactly_one_is_visible() {
    let world = Arc::new(World::new().registered());
    let threads: Vec<_> = (0..4_i64)
        .map(|attempt| {
            let world = world.clone();
            thread::spawn(move || -> usize {
                let bytes = |map| payload(map, attempt as u32, 100);
                let push = |map| world.push_attempt(map, attempt, 0, &bytes(map));
                (0..300).filter(|map| push(*map) == Code::Ok).count()
            })
        })
        .collect();
    let accepted: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    assert_eq!(accepted, 300);
    world.store.finalize(&key()).unwrap();
    let expected: Vec<_> = world
        .segments(0)
        .iter()
        .flat_map(|s| payload(s.map_index.0, s.map_id.0 as u32, 100))
        .collect();
    assert_eq!(world.fetch(0), expected);
}

#[test]
fn a_push_that_was_acknowledged_before_finalize_is_in_the_layout() {
    let world = Arc::new(World::new().registered());
    let accepted_so_far = Arc::new(AtomicUsize::new(0));
    let pusher = {
        let (world, accepted_so_far) = (world.clone(), accepted_so_far.clone());
        thread::spawn(move || {
            let mut accepted = Vec::new();
            for map in 0.. {
                match world.push(map, map % 16, b"bytes") {
                    Code::Ok => {
                        accepted.push(map);
                        accepted_so_far.store(accepted.len(), SeqCst);
                    }
                    code => {
                        assert_eq!(code, Code::TooLate);
                        return accepted;
                    }
                }
            }
            accepted
        })
    };
    while accepted_so_far.load(SeqCst) < 100 {
        thread::yield_now();
    }
    let summary = world.store.finalize(&key()).unwrap();
    let mut accepted = pusher.join().unwrap();
    assert_eq!(summary.segments, accepted.len() as u64);
    let mut found: Vec<_> = (0..16).flat_map(|reduce| world.maps(reduce)).collect();
    found.sort_unstable();
    accepted.sort_unstable();
    assert_eq!(found, accepted);
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
        assert_eq!(world.store.load().memory_used, 0);
    }
}

/// A finalized shuffle whose tails are just being written out, as long as the disk is held.
fn with_held_relief(then: impl FnOnce(&World)) {
    let world = Arc::new(World::with(1, 4 * MIB).registered_for(2));
    for reduce in 0..8 {
        world.push(0, reduce, &payload(0, reduce, 150_000));
    }
    world.store.finalize(&key()).unwrap();
    world.fs.hold_writes();
    let pusher = {
        let world = world.clone();
        thread::spawn(move || {
            let other = ShuffleKey {
                shuffle: ShuffleId(8),
                ..key()
            };
            world.store.register_shuffle(&other, spec()).unwrap();
            for reduce in 0..50 {
                let bytes = payload(1, reduce, 60_000);
                let segments = [header(reduce, &bytes)];
                let codes = world
                    .store
                    .push_batch(&other, &batch(1, 1, &segments, &bytes));
                assert_eq!(codes.unwrap(), [Code::Ok]);
            }
        })
    };
    while world.fs.held_writes() == 0 {
        thread::yield_now();
    }
    let (done, is_done) = mpsc::channel();
    let releasing = world.clone();
    let watchdog = thread::spawn(move || {
        let in_time = is_done.recv_timeout(Duration::from_secs(20)).is_ok();
        releasing.fs.release_writes();
        in_time
    });
    then(&world);
    let _ = done.send(());
    assert!(watchdog.join().unwrap(), "it waited for the disk");
    pusher.join().unwrap();
    assert_eq!(world.store.load().state, State::Serving);
    let mut files = world.data_files(DISK);
    files.retain(|path| path.to_string_lossy().contains("-s7-"));
    if world.store.finalize(&key()).is_ok() {
        assert_eq!(files.len(), 1, "{files:?}");
        (0..8).for_each(|reduce| assert_eq!(world.fetch(reduce), payload(0, reduce, 150_000)));
    } else {
        assert!(files.is_empty(), "of a removed shuffle: {files:?}");
    }
}

#[test]
fn readers_of_a_finalized_shuffle_do_not_wait_while_it_is_written_out() {
    with_held_relief(|world| {
        (0..8).for_each(|reduce| assert_eq!(world.fetch(reduce), payload(0, reduce, 150_000)));
    });
}

#[test]
fn a_shuffle_that_is_removed_while_it_is_written_out_leaves_no_file() {
    with_held_relief(|world| {
        world
            .store
            .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None)
            .unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// proptest prints the seed and the smallest failing case.
    #[test]
    fn what_is_read_of_any_map_range_is_exactly_the_accepted_segments(
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
        world.store.finalize(&key()).unwrap();
        let layout = world.store.layout(&key(), MapRange::ALL, ReduceId(1));
        let order: Vec<u32> = match &layout {
            Ok(_) => world.maps(1),
            Err(refusal) => {
                prop_assert_eq!(refusal.code, Code::UnknownPartition);
                return Ok(());
            }
        };
        // Without a fault what was acknowledged is there; with one, what is there was acknowledged.
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
