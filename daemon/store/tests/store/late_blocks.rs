// SPDX-License-Identifier: Apache-2.0
//! Blocks of Spark's own push that come when their shuffle is finalized: Spark stops pushing when
//! one is too late, and goes on when one is refused.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use lodestone_model::*;
use lodestone_store::Wait;
use lodestone_store::fs::fake::Errno;

use crate::bad_disk::{BAD, MOMENT, bad_partitions, spawn, well_partitions, world};
use crate::stalled::{LONGEST, Mended, await_held};
use crate::world::*;

/// Pushes a block of a map, on a thread of the disk.
fn push(world: &World, map: u32, reduce: u32, length: usize) -> Result<Code, Code> {
    let block = payload(map, reduce, length);
    let (map, reduce) = (MapIndex(map), ReduceId(reduce));
    let pushed = world
        .store
        .push_block_if(Wait::AtItsDisk, &key(), map, reduce, &block);
    pushed.map_err(|refusal| refusal.code)
}

#[test]
fn a_late_first_block_of_a_partition_asks_no_disk() {
    let world = world();
    let world = &world;
    let [well, bad] = [well_partitions(1).next(), bad_partitions("index", 1).next()];
    assert_eq!(push(world, 0, well.unwrap(), 10), Ok(Code::Ok));
    let merged = world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(merged.len(), 1);
    world.fs.hold_calls_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        spawn(scope, &sender, move || push(world, 0, bad.unwrap(), 10));
        assert_eq!(receiver.recv_timeout(LONGEST), Ok(Ok(Code::TooLate)));
    });
}

/// Spark would push no block of this map to any service any more.
#[test]
fn a_first_block_is_refused_and_not_too_late_if_the_disk_cannot_be_looked_at() {
    let world = crate::spark::world();
    let name = format!("shuffleMerged_{}_7_0_3.index", app());
    let dirs = ["/data0/merge_manager", "/data1/merge_manager"];
    let index = crate::spark::spark_path(dirs, &name);
    for (error, code) in [
        (Errno::MFILE, Code::Overloaded),
        (Errno::IO, Code::DiskFailed),
    ] {
        world.fs.break_reads(&index, error);
        assert_eq!(push(&world, 0, 3, 10), Err(code));
    }
    world.fs.mend(&index);
    assert_eq!(push(&world, 0, 3, 10), Ok(Code::Ok));
}

#[test]
fn a_finalize_does_not_stand_behind_the_blocks_that_wait_for_a_partition() {
    let world = world();
    let world = &world;
    let reduce = well_partitions(1).next().unwrap();
    assert_eq!(push(world, 0, reduce, 10), Ok(Code::Ok));
    world.fs.hold_writes();
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (first, writes) = mpsc::channel();
        spawn(scope, &first, || push(world, 1, reduce, LARGE_BYTES));
        await_held(world, 1);
        let (others, wait) = mpsc::channel();
        for map in 2..10 {
            spawn(scope, &others, move || {
                push(world, map, reduce, LARGE_BYTES)
            });
        }
        assert!(
            wait.recv_timeout(MOMENT).is_err(),
            "they wait for the first"
        );
        let (finalize, finalized) = mpsc::channel();
        spawn(scope, &finalize, || {
            world.store.merge_statuses(&key(), usize::MAX)
        });
        while world
            .store
            .places_of_push(&key(), ReduceId(reduce))
            .is_some()
        {
            thread::yield_now();
        }
        world.fs.release_writes();
        assert_eq!(writes.recv_timeout(LONGEST), Ok(Ok(Code::Ok)));
        for _ in 2..10 {
            assert_eq!(wait.recv_timeout(LONGEST), Ok(Ok(Code::TooLate)));
        }
        let merged = finalized.recv_timeout(LONGEST).unwrap().unwrap();
        assert_eq!(merged[0].maps.iter().collect::<Vec<_>>(), [0, 1]);
    });
}
