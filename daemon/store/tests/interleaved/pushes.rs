// SPDX-License-Identifier: Apache-2.0
//! Attempts push while others push, commit and abort, memory is short, and readers read.

use std::collections::BTreeSet;
use std::sync::Arc;

use lodestone_model::*;
use lodestone_store::fs::fake::{Errno, Fault};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::clients::*;
use crate::explore::explore;
use crate::world::*;

/// The maps of a scene. The middle one is aborted.
const MAPS: u32 = 3;
const ABORTED: u32 = 1;

/// A world with little memory and two disks.
fn world(mode: Mode) -> Arc<World> {
    let world = World::with(2, LITTLE_MEMORY);
    Arc::new(match mode {
        Mode::Merge => world.registered_for(MAPS),
        Mode::Remote => world.remote(),
    })
}

/// Runs all maps, a reader, and a thread that writes out as in a drain. Returns the maps that
/// committed.
fn run(world: &Arc<World>, may_miss: bool) -> BTreeSet<u32> {
    let writers: Vec<_> = (0..MAPS)
        .map(|map| {
            let world = Arc::clone(world);
            thread::spawn(move || {
                let mut attempt = world.attempt(map, map_id(map));
                push_all(&mut attempt, map).unwrap();
                if map == ABORTED {
                    insist(|| abort(&world, map)).unwrap();
                    return None;
                }
                insist(|| attempt.commit()).unwrap();
                Some(map)
            })
        })
        .collect();
    let reader = {
        let world = Arc::clone(world);
        thread::spawn(move || {
            let mut reader = Reader::new(may_miss);
            for _ in 0..3 {
                reader.look(&world).unwrap();
                thread::yield_now();
            }
            reader
        })
    };
    let writes_out = write_out_meanwhile(world);
    let committed: BTreeSet<u32> = writers
        .into_iter()
        .filter_map(|writer| writer.join().unwrap())
        .collect();
    writes_out.join().unwrap();
    let mut reader = reader.join().unwrap();
    reader.look(world).unwrap();
    for reduce in PARTITIONS {
        let seen = reader.maps(reduce);
        assert!(seen.is_subset(&committed), "{seen:?} of {committed:?}");
        assert!(seen == committed || may_miss, "{seen:?} of {committed:?}");
    }
    committed
}

fn abort(world: &World, map: u32) -> Result<(), Code> {
    let id = (MapIndex(map), MapId(map_id(map)));
    let aborted = world.store.abort_map(&key(), id.0, id.1);
    aborted.map_err(|refusal| refusal.code)
}

fn remove_all(world: &World) {
    remove(world);
    assert_nothing_stays(world);
}

#[test]
fn all_of_an_attempt_that_committed_is_read_and_nothing_of_one_that_was_aborted() {
    for mode in [Mode::Merge, Mode::Remote] {
        explore(move || {
            let world = world(mode);
            let committed = run(&world, false);
            assert_eq!(committed.len() as u32, MAPS - 1);
            remove_all(&world);
        });
    }
}

#[test]
fn a_write_that_fails_costs_no_segment_without_an_original() {
    explore(|| {
        let world = world(Mode::Remote);
        fail_a_write(&world);
        let committed = run(&world, false);
        assert_eq!(committed.len() as u32, MAPS - 1);
        remove_all(&world);
    });
}

#[test]
fn after_a_write_that_fails_readers_of_merged_blocks_get_their_bytes_or_a_refusal() {
    explore(|| {
        let world = world(Mode::Merge);
        fail_a_write(&world);
        run(&world, true);
        remove_all(&world);
    });
}

fn fail_a_write(world: &World) {
    let (nth, written) = (
        thread_rng().gen_range(0..4),
        thread_rng().gen_range(0..30_000),
    );
    world.fs.fault_at(nth, Fault::Torn(written, Errno::IO));
}

#[test]
fn a_batch_that_two_connections_bring_at_the_same_time_is_taken_once() {
    explore(|| {
        let world = world(Mode::Remote);
        let pushed: Vec<_> = (0..2)
            .map(|_| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut attempt = world.attempt(0, map_id(0));
                    push_all(&mut attempt, 0).unwrap();
                    attempt.acknowledged
                })
            })
            .collect();
        let acknowledged = pushed
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .fold(Ledger::default(), Ledger::and);
        let attempt = world.attempt(0, map_id(0));
        insist(|| attempt.commit_as(acknowledged)).unwrap();
        let mut reader = Reader::default();
        reader.look(&world).unwrap();
        assert_eq!(reader.maps(0), [0].into());
        remove_all(&world);
    });
}

#[test]
fn an_attempt_that_is_aborted_while_it_commits_is_not_shown() {
    explore(commit_and_abort);
}

/// The driver aborts an attempt whose commit is on its way.
fn commit_and_abort() {
    let world = world(Mode::Merge);
    let ledger = {
        let mut attempt = world.attempt(0, map_id(0));
        push_all(&mut attempt, 0).unwrap();
        attempt.acknowledged
    };
    let commits = {
        let world = Arc::clone(&world);
        thread::spawn(move || {
            let attempt = world.attempt(0, map_id(0));
            let committed = insist(|| attempt.commit_as(ledger));
            assert!(
                matches!(committed, Ok(()) | Err(Code::Aborted)),
                "{committed:?}"
            );
        })
    };
    let aborts = {
        let world = Arc::clone(&world);
        thread::spawn(move || insist(|| abort(&world, 0)).unwrap())
    };
    commits.join().unwrap();
    aborts.join().unwrap();
    for reduce in PARTITIONS {
        assert_eq!(world.segments(reduce), [], "an aborted attempt is shown");
    }
    remove_all(&world);
}
