// SPDX-License-Identifier: Apache-2.0
//! Memory: which data stays in it, which leaves it when it is short, and that its limit is kept.

use std::path::{Path, PathBuf};

use lodestone_model::*;
use lodestone_store::Batch;
use lodestone_store::fs::fake::Errno;

use crate::world::*;

/// Another shuffle, of the same application or of another one.
struct Other<'a> {
    world: &'a World,
    key: ShuffleKey,
}

impl<'a> Other<'a> {
    fn registered(world: &'a World, num_maps: u32) -> Self {
        Self::of(world, app(), num_maps)
    }

    fn of(world: &'a World, app: AppId, num_maps: u32) -> Self {
        let key = ShuffleKey {
            app,
            shuffle: ShuffleId(8),
            ..key()
        };
        let spec = ShuffleSpec { num_maps, ..spec() };
        world.store.register_shuffle(&key, spec).unwrap();
        Self { world, key }
    }

    fn remote(world: &'a World, app: AppId) -> Self {
        let other = Self {
            world,
            key: ShuffleKey { app, ..key() },
        };
        let mode = Mode::Remote;
        let registered = world
            .store
            .register_shuffle(&other.key, ShuffleSpec { mode, ..spec() });
        registered.unwrap();
        other
    }

    fn push(&self, map: u32, reduce: u32, bytes: &[u8]) -> Code {
        let headers = [header(reduce, bytes)];
        let batch = Batch {
            first_segment: reduce,
            ..batch(map, i64::from(map), &headers, bytes)
        };
        let codes = self.world.store.push_batch(&self.key, &batch).unwrap();
        self.world.write_out_as_called();
        codes[0]
    }
}

#[test]
fn data_that_fits_into_memory_never_touches_the_disk() {
    let world = World::with(1, 8 * MIB).registered();
    let before = world.fs.writes();
    for map in 0..5 {
        for reduce in 0..3 {
            let bytes = payload(map, reduce, LARGE_BYTES + 1000 * map as usize);
            assert_eq!(world.push(map, reduce, &bytes), Code::Ok);
        }
    }
    world.commit_all();
    assert_eq!(world.fs.writes(), before);
    assert!(world.data_files(DISK).is_empty());
    for reduce in 0..3 {
        let all: Vec<_> = (0..5)
            .flat_map(|map| payload(map, reduce, LARGE_BYTES + 1000 * map as usize))
            .collect();
        assert_eq!(world.fetch(reduce), all);
    }
    let range = MapRange::new(1, 3).unwrap();
    let some: Vec<_> = (1..3)
        .flat_map(|map| payload(map, 2, LARGE_BYTES + 1000 * map as usize))
        .collect();
    assert_eq!(fetch(&world.store, range, 2).concat(), some);
}

#[test]
fn memory_that_the_host_needs_back_goes_to_disk_and_nothing_is_lost() {
    const LENGTH: usize = 60_000;
    let world = World::with(1, 8 * MIB).registered();
    for reduce in 0..30 {
        assert_eq!(world.push(0, reduce, &payload(0, reduce, LENGTH)), Code::Ok);
    }
    assert_eq!(world.data_bytes(DISK), 0);
    world.store.limit_memory(MIB);
    world.write_out_as_called();
    assert!(world.store.load().memory_used <= MIB);
    assert!(world.store.memory_held() <= MIB);
    for reduce in 30..60 {
        assert_eq!(world.push(0, reduce, &payload(0, reduce, LENGTH)), Code::Ok);
        assert!(world.store.load().memory_used <= MIB);
    }
    let on_disk = world.data_bytes(DISK);
    world.store.limit_memory(8 * MIB);
    for reduce in 60..90 {
        assert_eq!(world.push(0, reduce, &payload(0, reduce, LENGTH)), Code::Ok);
    }
    assert_eq!(world.data_bytes(DISK), on_disk);
    world.commit_all();
    for reduce in 0..90 {
        assert_eq!(world.fetch(reduce), payload(0, reduce, LENGTH));
    }
}

#[test]
fn memory_stays_under_the_budget_while_ten_times_as_much_is_pushed() {
    const BUDGET: u64 = 4 * MIB;
    let world = World::with(2, BUDGET).registered();
    let (maps, reduces, length) = (128, 32, 10_240);
    for map in 0..maps {
        for reduce in 0..reduces {
            assert_eq!(
                world.push(map, reduce, &payload(map, reduce, length)),
                Code::Ok
            );
            let used = world.store.load().memory_used;
            assert!(used <= BUDGET, "{used} of {BUDGET}");
        }
    }
    assert!(u64::from(maps * reduces) * length as u64 >= 10 * BUDGET);
    assert_eq!(world.commit_all(), u64::from(maps * reduces));
    for reduce in 0..reduces {
        let all: Vec<_> = (0..maps)
            .flat_map(|map| payload(map, reduce, length))
            .collect();
        assert_eq!(world.fetch(reduce), all);
    }
}

#[test]
fn pressure_writes_out_the_largest_tails_first() {
    let world = World::with(1, 4 * MIB).registered();
    for reduce in 1..=20 {
        assert_eq!(world.push(0, reduce, &payload(0, reduce, 10_000)), Code::Ok);
    }
    let mut reduce = 100;
    while world.data_files(DISK).is_empty() {
        assert_eq!(world.push(0, reduce, &payload(0, reduce, 50_000)), Code::Ok);
        reduce += 1;
    }
    assert_eq!(world.data_bytes(DISK) % 50_000, 0, "small tails could stay");
}

#[test]
fn tails_of_attempts_that_committed_are_written_out_under_pressure_and_their_layout_stays() {
    let world = World::with(1, 4 * MIB).registered_for(2);
    for reduce in 0..8 {
        world.push(0, reduce, &payload(0, reduce, 160_000));
    }
    world.commit_all();
    let layout = |reduce| {
        world
            .store
            .layout(&key(), MapRange::ALL, ReduceId(reduce))
            .unwrap()
    };
    let before: Vec<_> = (0..8).map(layout).collect();
    let other = Other::registered(&world, 2);
    for reduce in 0..50 {
        assert_eq!(other.push(1, reduce, &payload(1, reduce, 60_000)), Code::Ok);
    }
    let files = world.data_files(DISK);
    assert_eq!(files.len(), 2, "of both shuffles: {files:?}");
    assert_eq!((0..8).map(layout).collect::<Vec<_>>(), before);
    (0..8).for_each(|reduce| assert_eq!(world.fetch(reduce), payload(0, reduce, 160_000)));
}

#[test]
fn tails_without_originals_survive_a_disk_that_fails_under_pressure_and_others_may_be_dropped() {
    let push_all = |world: &World| {
        for reduce in 0..8 {
            world.push(reduce, reduce, &payload(0, reduce, 150_000));
        }
        world.commit_all();
        world.fs.break_dir(Path::new(DISK), Errno::NOSPC);
        let other = Other::registered(world, 100_000);
        let mut refused = false;
        for reduce in 0..50 {
            refused |= other.push(1, reduce, &payload(1, reduce, 60_000)) == Code::DiskFull;
            assert!(world.store.load().memory_used <= 4 * MIB);
        }
        assert!(refused);
    };
    let remote = World::with(1, 4 * MIB).remote();
    push_all(&remote);
    (0..8).for_each(|reduce| assert_eq!(remote.fetch(reduce), payload(0, reduce, 150_000)));
    let merged = World::with(1, 4 * MIB).registered();
    push_all(&merged);
    let is_dropped = |reduce: &u32| merged.segments(*reduce).is_empty();
    let (dropped, kept): (Vec<u32>, Vec<u32>) = (0..8).partition(is_dropped);
    assert!(!dropped.is_empty(), "the disk was never tried");
    for reduce in dropped {
        let read = at(&merged.store, reduce, 0..1);
        assert_eq!(read.unwrap_err().code, Code::Aborted);
    }
    for reduce in kept {
        assert_eq!(merged.fetch(reduce), payload(0, reduce, 150_000));
    }
}

#[test]
fn an_application_with_very_many_segments_leaves_memory_to_another_one() {
    const BUDGET: u64 = 256 * 1024;
    let world = World::with(1, BUDGET).registered();
    let greedy: Vec<_> = (0..2_000)
        .map(|reduce| world.push(0, reduce, b"x"))
        .collect();
    let had_room = greedy.iter().filter(|code| **code == Code::Ok).count();
    assert!(greedy[..had_room].iter().all(|code| *code == Code::Ok));
    assert!(greedy[had_room..].iter().all(|code| *code == Code::Quota));
    let more = ShuffleKey {
        shuffle: ShuffleId(9),
        ..key()
    };
    let refusal = world.store.register_shuffle(&more, spec()).unwrap_err();
    assert_eq!(refusal.code, Code::Quota);
    let other = Other::of(&world, AppId::new("another").unwrap(), 1);
    let codes: Vec<_> = (0..2_000)
        .map(|reduce| other.push(0, reduce, b"x"))
        .collect();
    let others = codes.iter().filter(|code| **code == Code::Ok).count();
    assert!(
        others >= had_room / 4,
        "{others} of another application, after {had_room}"
    );
    assert!(codes[others..].iter().all(|code| *code == Code::Overloaded));
    let used = world.store.load().memory_used;
    assert!(used <= BUDGET, "{used}");
    let removed = world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None);
    assert!(removed.is_ok());
    assert_eq!(
        world.store.register_shuffle(&more, spec()),
        Ok(()),
        "its share is free again"
    );
}

/// Pushes twice as much as the memory has, until a segment is refused. Returns the number of
/// segments that are there, and the error.
fn push_all(app: &Other<'_>, length: usize) -> (u32, Option<Code>) {
    let count = u32::try_from(8 * MIB as usize / length).unwrap();
    let push = |reduce| app.push(reduce, reduce, &payload(0, reduce, length));
    let refused = (0..count).find_map(|reduce| {
        let code = push(reduce);
        (!matches!(code, Code::Ok | Code::Duplicate)).then_some((reduce, Some(code)))
    });
    refused.unwrap_or((count, None))
}

#[test]
fn an_application_whose_data_no_disk_takes_leaves_memory_to_another_one() {
    // Pages hold more than the data: nearly nothing more, and nearly twice as much.
    for length in [20_000, 5_000, 66_000] {
        let world = World::with(1, 4 * MIB);
        let names = ["greedy", "another"].map(|name| AppId::new(name).unwrap());
        let [greedy, other] = names.map(|app| Other::remote(&world, app));
        world.fs.break_dir(Path::new(DISK), Errno::NOSPC);
        let (of_greedy, refused) = push_all(&greedy, length);
        assert_eq!(refused, Some(Code::Quota), "{length}: after {of_greedy}");
        let (of_other, refused) = push_all(&other, length);
        assert_eq!(refused, Some(Code::DiskFull), "{length}: after {of_other}");
        assert!(
            of_other >= of_greedy / 10,
            "{length}: {of_other} of another one, after {of_greedy}"
        );
        assert!(world.store.load().memory_used <= 4 * MIB);
        world.fs.mend(Path::new(DISK));
        world.clock.advance_ms(5_000);
        world.look_after();
        let (_, refused) = push_all(&greedy, length);
        assert_eq!(refused, None, "a disk takes data again");
    }
}

#[test]
fn an_application_leaves_memory_to_another_one_before_the_disk_breaks_too() {
    let world = World::with(1, 4 * MIB);
    let names = ["greedy", "another"].map(|name| AppId::new(name).unwrap());
    let [greedy, other] = names.map(|app| Other::remote(&world, app));
    let (of_greedy, refused) = push_all(&greedy, 20_000);
    assert_eq!(refused, None, "after {of_greedy}");
    world.fs.break_dir(Path::new(DISK), Errno::NOSPC);
    let (of_other, refused) = push_all(&other, 20_000);
    assert_eq!(refused, Some(Code::DiskFull));
    assert!(of_other >= 15, "{of_other}");
}

/// Segments that are worth a write of their own.
const SEGMENT: usize = 100_000;

/// An attempt and its segment, without its bytes.
const ATTEMPT: u64 = 300;

#[test]
fn large_segments_follow_their_partition_to_disk_and_leave_the_memory_to_others() {
    let world = World::with(1, 4 * MIB).registered_for(200);
    let push = |map: u32, reduce: u32| {
        let bytes = payload(map, reduce, SEGMENT);
        assert_eq!(world.push(map, reduce, &bytes), Code::Ok);
    };
    let others = 1..=10;
    others.clone().for_each(|reduce| push(0, reduce));
    let mut maps = 0;
    while world.data_files(DISK).is_empty() {
        push(maps, 0);
        maps += 1;
    }
    let left_memory = world.data_bytes(DISK);
    assert_eq!(
        left_memory,
        maps as usize * SEGMENT,
        "all of it, and of no other"
    );
    let used = world.store.load().memory_used;
    (maps..maps + 20).for_each(|map| push(map, 0));
    assert_eq!(world.data_bytes(DISK), left_memory + 20 * SEGMENT);
    assert!(
        world.store.load().memory_used < used + 20 * ATTEMPT,
        "none was copied"
    );
    world.commit_all();
    let all: Vec<_> = (0..maps + 20)
        .flat_map(|map| payload(map, 0, SEGMENT))
        .collect();
    assert_eq!(world.fetch(0), all);
    others.for_each(|reduce| assert_eq!(world.fetch(reduce), payload(0, reduce, SEGMENT)));
}

#[test]
fn a_partition_on_disk_gets_memory_again_when_there_is_plenty() {
    let world = World::with(1, 4 * MIB).registered_for(200);
    let other = Other::registered(&world, 100_000);
    for reduce in 0..20 {
        assert_eq!(
            other.push(0, reduce, &payload(0, reduce, SEGMENT)),
            Code::Ok
        );
    }
    let mut maps = 0;
    let mut reaches_disk = || {
        let before = world.data_bytes(DISK);
        let bytes = payload(maps, 0, SEGMENT);
        assert_eq!(world.push(maps, 0, &bytes), Code::Ok);
        maps += 1;
        world.data_bytes(DISK) > before
    };
    while !reaches_disk() {}
    assert!(reaches_disk(), "the memory is another shuffle's");
    world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(8), None)
        .unwrap();
    assert!(!reaches_disk());
    world.commit_all();
    let all: Vec<_> = (0..maps).flat_map(|map| payload(map, 0, SEGMENT)).collect();
    assert_eq!(world.fetch(0), all);
}

#[test]
fn tails_that_readers_have_taken_leave_memory_before_unread_ones() {
    let world = World::with(1, 4 * MIB).registered_for(1);
    let (taken, still_wanted) = (0..10, 10..20);
    for reduce in taken.clone() {
        world.push(0, reduce, &payload(0, reduce, 20_000));
    }
    for reduce in still_wanted.clone() {
        world.push(0, reduce, &payload(0, reduce, 30_000));
    }
    world.commit_all();
    for reduce in taken.clone() {
        world.fetch(reduce);
    }
    let other = Other::registered(&world, 100_000);
    let mut reduce = 0;
    while world.data_files(DISK).is_empty() {
        assert_eq!(other.push(0, reduce, &payload(0, reduce, 20_001)), Code::Ok);
        reduce += 1;
    }
    let spilled = |file: &PathBuf| world.fs.content(file).unwrap();
    let of_this = |file: &&PathBuf| file.to_str().unwrap().contains("-s7-");
    let files = world.data_files(DISK);
    let all: Vec<u8> = files.iter().filter(of_this).flat_map(spilled).collect();
    let expected: Vec<u8> = taken
        .clone()
        .flat_map(|reduce| payload(0, reduce, 20_000))
        .collect();
    assert!(all.starts_with(&expected), "what was read went first");
    taken.for_each(|reduce| assert_eq!(world.fetch(reduce), payload(0, reduce, 20_000)));
    still_wanted.for_each(|reduce| assert_eq!(world.fetch(reduce), payload(0, reduce, 30_000)));
}

#[test]
fn large_segments_get_the_memory_of_a_shuffle_that_was_read() {
    let world = World::with(1, 4 * MIB).registered_for(2);
    let mut partitions = 0;
    while world.store.load().memory_used < 5 * MIB / 2 {
        world.push(0, partitions, &payload(0, partitions, SEGMENT));
        partitions += 1;
    }
    world.commit_all();
    let (read, unread) = (0..partitions - 5, partitions - 5..partitions);
    for reduce in read.clone() {
        world.fetch(reduce);
    }
    let other = Other::registered(&world, 2);
    for reduce in 0..9 {
        assert_eq!(
            other.push(0, reduce, &payload(0, reduce, SEGMENT)),
            Code::Ok
        );
    }
    let files = world.data_files(DISK);
    let of_other = |file: &PathBuf| file.to_str().unwrap().contains("-s8-");
    assert!(
        !files.is_empty() && !files.iter().any(of_other),
        "{files:?}"
    );
    for reduce in read.chain(unread) {
        assert_eq!(world.fetch(reduce), payload(0, reduce, SEGMENT));
    }
}
