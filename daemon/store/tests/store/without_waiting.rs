// SPDX-License-Identifier: Apache-2.0
//! Calls on threads that serve connections, which wait for no lock and no disk.

use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::*;
use lodestone_store::*;

use crate::world::*;

/// A thread that may wait gives a lock up after this time.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Two of them fit into little memory, beside the index.
const SEGMENT: usize = 64 * 1024;

fn push_if(wait: Wait, world: &World, map: u32, bytes: &[u8]) -> Vec<Code> {
    let segments = [header(0, bytes)];
    let batch = batch(map, 100, &segments, bytes);
    world.store.push_batch_if(wait, &key(), &batch).unwrap()
}

#[test]
fn what_must_not_wait_is_refused_while_a_write_hangs_and_is_done_when_it_is_over() {
    let world = World::new().registered();
    assert_eq!(world.push(1, 0, b"small"), Code::Ok);
    world.commit_all();
    let slots = [run(0..1)];
    let find = |wait| {
        let found = world.store.find_segments(wait, &key(), ReduceId(0), &slots);
        found.map(drop).map_err(|refusal| refusal.code)
    };
    let checked = |wait| {
        let checked = world.store.check_slots(wait, &key(), ReduceId(0), &slots);
        checked.map_err(|refusal| refusal.code)
    };
    let layout = |wait| {
        let layout = world
            .store
            .layout_if(wait, &key(), MapRange::ALL, ReduceId(0));
        layout.map(drop).map_err(|refusal| refusal.code)
    };
    assert_eq!((find(Wait::Never), checked(Wait::Never)), (Ok(()), Ok(())));
    assert_eq!(layout(Wait::Never), Ok(()));
    world.fs.hold_writes();
    let large = payload(0, 0, LARGE_BYTES);
    thread::scope(|scope| {
        let hanging = scope.spawn(|| push_if(Wait::InTime, &world, 0, &large));
        while world.fs.held_writes() < 1 {
            thread::yield_now();
        }
        // The partition is locked, and so is the attempt.
        let began = Instant::now();
        let pushed = [2, 0].map(|map| push_if(Wait::Never, &world, map, b"more"));
        let refused = [find(Wait::Never), checked(Wait::Never), layout(Wait::Never)];
        let waited = began.elapsed();
        world.fs.release_writes();
        assert!(waited < LOCK_TIMEOUT, "it waited for {waited:?}");
        assert_eq!(hanging.join().unwrap(), [Code::Ok]);
        assert_eq!(pushed, [[Code::Overloaded], [Code::Overloaded]]);
        assert_eq!(refused, [Err(Code::Overloaded); 3]);
    });
    assert_eq!(push_if(Wait::Never, &world, 2, b"more"), [Code::Ok]);
    assert_eq!((find(Wait::Never), checked(Wait::Never)), (Ok(()), Ok(())));
}

#[test]
fn a_batch_for_which_memory_is_too_small_keeps_what_it_took_and_its_repetition_takes_the_rest() {
    let world = World::new().registered();
    let bodies: Vec<_> = (0..8).map(|reduce| payload(0, reduce, SEGMENT)).collect();
    let headers: Vec<_> = (0..).zip(&bodies).map(|(at, of)| header(at, of)).collect();
    let body = bodies.concat();
    let pushed = batch(0, 100, &headers, &body);
    let push_if = |wait| world.store.push_batch_if(wait, &key(), &pushed).unwrap();
    let before = world.fs.writes();
    let first = push_if(Wait::Never);
    let taken = first.iter().take_while(|code| **code == Code::Ok).count();
    assert!((1..8).contains(&taken), "{first:?}");
    assert!(first[taken..].iter().all(|code| *code == Code::Overloaded));
    assert_eq!(world.fs.writes(), before, "it wrote to the disk");
    let again = push_if(Wait::InTime);
    assert!(again[..taken].iter().all(|code| *code == Code::Duplicate));
    assert!(again[taken..].iter().all(|code| *code == Code::Ok));
    let ledger = headers.iter().map(|header| ledger_of(0, 100, header));
    let ledger = ledger.fold(Ledger::default(), Ledger::and);
    let (map, map_id) = (MapIndex(0), MapId(100));
    world.store.commit_map(&key(), map, map_id, ledger).unwrap();
    for (reduce, body) in (0..).zip(&bodies) {
        assert_eq!(&world.fetch(reduce), body);
    }
}

#[test]
fn blocks_of_sparks_own_push_that_need_a_disk_are_not_taken_without_waiting() {
    let world = crate::spark::world();
    let (map, reduce) = (MapIndex, ReduceId(0));
    let push_if = |wait, at| {
        let merged = world
            .store
            .push_block_if(wait, &key(), map(at), reduce, &[at as u8; 1000]);
        merged.map_err(|refusal| refusal.code)
    };
    // An earlier daemon may have left the partition on disk.
    assert_eq!(push_if(Wait::Never, 0), Err(Code::Overloaded));
    assert_eq!(push_if(Wait::InTime, 0), Ok(Code::Ok));
    let writes = world.fs.writes();
    let taken = (1..1000).take_while(|at| push_if(Wait::Never, *at) == Ok(Code::Ok));
    assert!((100..900).contains(&taken.count()), "memory has limits");
    assert_eq!(world.fs.writes(), writes, "it wrote to the disk");
    assert_eq!(push_if(Wait::Never, 1), Ok(Code::Duplicate));
}

#[test]
fn blocks_come_behind_the_one_that_goes_to_the_disk_until_they_are_as_many_as_it_writes() {
    const AT_ONCE: u32 = 256 * 1024 / 1000;
    let world = crate::spark::with_executor(World::with(1, 64 * MIB));
    let push_if = |wait, at: u32| {
        let (map, reduce) = (MapIndex(at), ReduceId(0));
        let block = vec![at as u8; 1000];
        let merged = world.store.push_block_if(wait, &key(), map, reduce, &block);
        merged.map_err(|refusal| refusal.code)
    };
    assert_eq!(push_if(Wait::InTime, 0), Ok(Code::Ok));
    let mut next = 1;
    // The first one that is not taken.
    let mut fill = || {
        while push_if(Wait::Never, next) == Ok(Code::Ok) {
            next += 1;
        }
        next += 1;
        next - 1
    };
    let [first, second] = [fill(), fill()];
    assert_eq!((first, second), (AT_ONCE, 2 * AT_ONCE + 1));
    let writes = world.fs.writes();
    // Nobody has written what is there, so this one must.
    assert_eq!(push_if(Wait::NeverAgain, first), Err(Code::Overloaded));
    assert_eq!(push_if(Wait::AtItsDisk, first), Ok(Code::Ok));
    assert!(world.fs.writes() > writes, "it writes what is there");
    assert_eq!(push_if(Wait::NeverAgain, second), Ok(Code::Ok));
    let third = fill();
    assert_eq!(
        third,
        second + AT_ONCE,
        "those that come later wait for no other one"
    );
    world.store.merge_statuses(&key(), usize::MAX).unwrap();
}
