// SPDX-License-Identifier: Apache-2.0
//! Another hand removes files of a shuffle from a disk that is well.

use std::path::Path;
use std::thread;

use lodestone_model::*;

use crate::world::*;

/// A segment of this size reaches the file at once.
const LARGE: usize = LARGE_BYTES;

fn large(map: u32, reduce: u32) -> Vec<u8> {
    payload(map, reduce, LARGE)
}

#[test]
fn a_shuffle_whose_files_were_removed_ends_and_the_disk_stays_in_use() {
    let world = World::with(1, 4 * MIB).registered();
    let other = ShuffleKey {
        shuffle: ShuffleId(8),
        ..key()
    };
    world.store.register_shuffle(&other, spec()).unwrap();
    let push_other = |map: u32| {
        let block = payload(map, 0, MIB as usize);
        let headers = [header(0, &block)];
        world
            .store
            .push_batch(&other, &batch(map, 1, &headers, &block))
            .unwrap()
    };
    (0..8).for_each(|map| assert_eq!(world.push(map, map, &payload(map, 0, LARGE)), Code::Ok));
    world.write_out_as_called();
    (0..8).for_each(|map| assert_eq!(push_other(map), [Code::Ok]));
    let file = world.data_files(DISK).into_iter().find(|path| {
        let dir = path.parent().unwrap().to_string_lossy().into_owned();
        dir.contains("-s8-")
    });
    world.fs.wipe(file.unwrap().parent().unwrap());
    let refused = (8..16).map(push_other).find(|codes| codes != &[Code::Ok]);
    assert_eq!(refused.unwrap(), [Code::DiskFailed]);
    assert_eq!(world.load().state, State::Serving, "its disk takes writes");
    let later = batch(20, 1, &[], &[]);
    let gone = world.store.push_batch(&other, &later).unwrap_err();
    assert_eq!(gone.code, Code::UnknownShuffle);
    (8..16).for_each(|map| assert_eq!(world.push(map, map, &payload(map, 0, LARGE)), Code::Ok));
    world.commit_all();
    (0..16).for_each(|map| assert_eq!(world.fetch(map), payload(map, 0, LARGE)));
}

#[test]
fn pushes_that_find_the_files_removed_at_the_same_time_leave_the_disk_in_use() {
    let world = World::new().registered();
    let large = |map, reduce| payload(map, reduce, LARGE);
    (0..2).for_each(|reduce| assert_eq!(world.push(0, reduce, &large(0, reduce)), Code::Ok));
    let file = world.data_files(DISK).pop().unwrap();
    world.fs.wipe(file.parent().unwrap());
    world.fs.hold_writes_below(Path::new(DISK));
    let codes = thread::scope(|scope| {
        let push = |reduce| {
            let world = &world;
            let map = reduce + 1;
            scope.spawn(move || world.push(map, reduce, &large(map, reduce)))
        };
        let pushes = [push(0), push(1)];
        // Both look whether the disk takes a file.
        while world.fs.held_writes() < 2 {
            thread::yield_now();
        }
        world.fs.release_writes();
        pushes.map(|push| push.join().unwrap())
    });
    assert_eq!(codes, [Code::DiskFailed; 2]);
    assert_eq!(world.load().state, State::Serving, "its disk takes writes");
}

/// A reader takes the originals of this partition, and needs the service for the others.
#[test]
fn a_file_that_is_missing_when_it_is_read_costs_its_partition_and_not_the_others_or_the_disk() {
    let world = World::new().registered();
    for reduce in 0..2 {
        assert_eq!(world.push(0, reduce, &large(0, reduce)), Code::Ok);
    }
    world.commit_all();
    let files = world.data_files(DISK);
    let file = files.iter().find(|path| path.ends_with("1.data"));
    world.fs.wipe(file.unwrap());
    for _ in 0..3 {
        let missing = at(&world.store, 1, 0..1).unwrap_err();
        assert_eq!(missing.code, Code::DiskFailed);
        assert_eq!(world.fetch(0), large(0, 0));
        assert_eq!(world.load().state, State::Serving, "its disk is well");
    }
    for reduce in [0, 2] {
        let bytes = large(1, reduce);
        assert_eq!(world.push(1, reduce, &bytes), Code::Ok, "{reduce}");
    }
    world.commit_all();
    assert_eq!(world.fetch(0), [large(0, 0), large(1, 0)].concat());
    assert_eq!(world.fetch(2), large(1, 2));
}
