// SPDX-License-Identifier: Apache-2.0
//! A shuffle is removed, or handed over, while tasks push and read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use lodestone_model::*;
use shuttle::thread;

use crate::clients::*;
use crate::explore::explore;
use crate::world::*;

const MAPS: u32 = 2;

#[test]
fn a_shuffle_that_is_removed_while_others_use_it_leaves_no_memory_and_no_file() {
    explore(remove_while_others_use_it);
}

pub(crate) fn remove_while_others_use_it() {
    let world = Arc::new(World::with(1, LITTLE_MEMORY).registered_for(MAPS));
    let mut users: Vec<_> = (0..MAPS)
        .map(|map| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut attempt = world.attempt(map, map_id(map));
                let pushed = push_all(&mut attempt, map);
                assert!(matches!(pushed, Ok(()) | Err(Code::TooLate)), "{pushed:?}");
                if pushed.is_ok() {
                    let committed = insist(|| attempt.commit());
                    assert!(
                        matches!(committed, Ok(()) | Err(Code::UnknownShuffle)),
                        "{committed:?}"
                    );
                }
            })
        })
        .collect();
    users.push({
        let world = Arc::clone(&world);
        thread::spawn(move || {
            assert_eq!(
                read_to_the_end(&world, Reader::default()),
                Code::UnknownShuffle
            );
        })
    });
    users.push(write_out_meanwhile(&world));
    thread::yield_now();
    remove(&world);
    users.into_iter().for_each(|user| user.join().unwrap());
    assert_nothing_stays(&world);
}

#[test]
fn a_reader_gets_the_segments_of_a_shuffle_or_learns_that_it_was_removed() {
    explore(remove_while_it_is_read);
}

/// Reads until that is refused.
fn read_to_the_end(world: &World, mut reader: Reader) -> Code {
    loop {
        match reader.look(world) {
            Ok(()) => thread::yield_now(),
            Err(code) => return code,
        }
    }
}

pub(crate) fn remove_while_it_is_read() {
    let world = Arc::new(World::with(1, LITTLE_MEMORY).remote());
    let mut attempt = world.attempt(0, map_id(0));
    push_all(&mut attempt, 0).unwrap();
    attempt.commit().unwrap();
    let mut reader = Reader::default();
    reader.look(&world).unwrap();
    let reads = {
        let world = Arc::clone(&world);
        thread::spawn(move || read_to_the_end(&world, reader))
    };
    remove(&world);
    assert_eq!(reads.join().unwrap(), Code::UnknownShuffle);
}

/// What an executor knows about its attempt when the daemon stops.
#[derive(Clone, Copy)]
struct Known {
    map: u32,
    acknowledged: Ledger,
    has_pushed_all: bool,
    has_committed: bool,
}

/// Pushes until the daemon stops, which refuses everything for now.
fn push_until_the_stop(world: &World, map: u32) -> Known {
    let mut attempt = world.attempt(map, map_id(map));
    let has_pushed_all = push_some(&mut attempt, map);
    Known {
        map,
        acknowledged: attempt.acknowledged,
        has_pushed_all,
        has_committed: has_pushed_all && attempt.commit().is_ok(),
    }
}

#[test]
fn the_next_daemon_has_what_was_acknowledged_before_the_handover_or_the_shuffle_is_unknown() {
    let handovers = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handovers);
    explore(move || {
        let world = Arc::new(World::with(1, LITTLE_MEMORY).remote());
        let pushers: Vec<_> = (0..MAPS)
            .map(|map| {
                let world = Arc::clone(&world);
                thread::spawn(move || push_until_the_stop(&world, map))
            })
            .collect();
        let writes_out = write_out_meanwhile(&world);
        thread::yield_now();
        // The daemon ends these threads before, each after the write in work.
        world.store.end_writing();
        world.store.hand_over();
        writes_out.join().unwrap();
        let known: Vec<_> = pushers
            .into_iter()
            .map(|pusher| pusher.join().unwrap())
            .collect();
        let fs = world.fs.clone();
        drop(world);
        let next = World::on(fs, vec![DISK.into()], LITTLE_MEMORY, 2);
        if next.store.check_readable(&key()).is_ok() {
            count.fetch_add(1, Relaxed);
            continue_at(&next, &known);
        }
    });
    assert!(handovers.load(Relaxed) > 0, "no shuffle was handed over");
}

/// Executors go on with their attempts at the next daemon.
fn continue_at(next: &World, known: &[Known]) {
    for one in known.iter().filter(|one| !one.has_committed) {
        let mut attempt = next.attempt(one.map, map_id(one.map));
        attempt.acknowledged = one.acknowledged;
        if !one.has_pushed_all {
            push_all(&mut attempt, one.map).unwrap();
        }
        insist(|| attempt.commit()).unwrap();
    }
    let mut reader = Reader::default();
    reader.look(next).unwrap();
    let all: BTreeSet<u32> = (0..MAPS).collect();
    for reduce in PARTITIONS {
        assert_eq!(reader.maps(reduce), all);
    }
}

#[test]
fn a_drain_writes_everything_out_also_if_another_one_is_cancelled_meanwhile() {
    explore(|| {
        let world = Arc::new(World::with(2, MIB).remote());
        for map in 0..MAPS {
            let mut attempt = world.attempt(map, map_id(map));
            push_all(&mut attempt, map).unwrap();
            attempt.commit().unwrap();
        }
        world.store.begin_writing();
        let threads: Vec<_> = (0..=world.store.disk_count())
            .map(|place| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.store.write_out_when_called(place))
            })
            .collect();
        let cancels = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.store.cancel_drain())
        };
        while world.store.unwritten_bytes() > 0 {
            world.store.drain();
            // No time passes: it returns when the threads have done what they can.
            assert!(world.store.wait_until_written(Duration::MAX));
        }
        cancels.join().unwrap();
        world.store.end_writing();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let mut reader = Reader::default();
        reader.look(&world).unwrap();
        assert_eq!(reader.maps(0), (0..MAPS).collect());
    });
}
