// SPDX-License-Identifier: Apache-2.0
//! Disk trouble: torn and failed writes, full and failing disks.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use lodestone_model::*;
use lodestone_store::fs::fake::{Errno, Fault};

use crate::bad_disk::spawn;
use crate::handover::handed_over;
use crate::stalled::{LONGEST, Mended, await_held};
use crate::world::*;

/// A segment of this size reaches the file at once.
const LARGE: usize = LARGE_BYTES;

#[test]
fn a_short_write_is_continued_until_all_is_written() {
    let world = World::new().registered();
    world.push(0, 0, b"in the tail");
    world.fs.fault_at(0, Fault::Short(5));
    world.fs.fault_at(1, Fault::Short(100));
    world.fs.fault_at(2, Fault::Torn(0, Errno::INTR));
    assert_eq!(world.push(1, 0, &payload(1, 0, LARGE)), Code::Ok);
    world.commit_all();
    assert_eq!(
        world.fetch(0),
        [b"in the tail".to_vec(), payload(1, 0, LARGE)].concat()
    );
}

#[test]
fn torn_bytes_are_overwritten_by_the_next_write() {
    let world = World::new().registered();
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Ok);
    world.fs.fault_at(0, Fault::Torn(1000, Errno::IO));
    assert_eq!(world.push(1, 0, &payload(1, 0, LARGE)), Code::DiskFailed);
    let file = world.data_files(DISK).pop().unwrap();
    assert_eq!(
        world.fs.content(&file).unwrap().len(),
        LARGE,
        "cut back to what is whole"
    );
    world.clock.advance_ms(5_000);
    assert_eq!(
        world.push(1, 0, &payload(1, 0, LARGE)),
        Code::Ok,
        "the map may try again"
    );
    world.commit_all();
    assert_eq!(world.maps(0), [0, 1]);
    assert_eq!(
        world.fetch(0),
        [payload(0, 0, LARGE), payload(1, 0, LARGE)].concat()
    );
}

#[test]
fn torn_bytes_that_cannot_be_cut_back_are_never_visible() {
    let world = World::new().registered();
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Ok);
    world.fs.fault_at(0, Fault::Torn(200_000, Errno::IO));
    world.fs.fault_at(1, Fault::Torn(200_000, Errno::IO));
    assert_eq!(world.push(1, 0, &payload(1, 0, LARGE)), Code::DiskFailed);
    let file = world.data_files(DISK).pop().unwrap();
    let mut torn = world.fs.content(&file).unwrap();
    torn.extend_from_slice(&[0xEE; 200_000]);
    world.fs.add_file(&file, &torn);
    world.commit_all();
    assert_eq!(world.fetch(0), payload(0, 0, LARGE));
}

#[test]
fn a_failed_write_out_drops_exactly_the_segments_of_that_tail() {
    let world = World::new().registered();
    assert_eq!(
        world.push(0, 0, &payload(0, 0, LARGE)),
        Code::Ok,
        "in the file"
    );
    assert_eq!(world.push(1, 0, b"in the tail"), Code::Ok);
    assert_eq!(world.push(2, 0, b"in the tail as well"), Code::Ok);
    assert_eq!(
        world.push(1, 1, b"in the tail of another partition"),
        Code::Ok
    );
    world.fs.fault_at(0, Fault::Torn(10, Errno::IO));
    assert_eq!(world.push(3, 0, &payload(3, 0, LARGE)), Code::DiskFailed);
    world.clock.advance_ms(5_000);
    assert_eq!(world.push(4, 0, b"after"), Code::Ok);
    assert_eq!(
        world.push(1, 0, b"in the tail"),
        Code::Duplicate,
        "it was taken"
    );
    world.commit_all();
    assert_eq!(world.maps(0), [0, 4]);
    assert_eq!(
        world.fetch(0),
        [&payload(0, 0, LARGE)[..], b"after"].concat()
    );
    assert_eq!(world.fetch(1), b"in the tail of another partition");
}

#[test]
fn a_write_that_may_work_in_a_moment_drops_nothing() {
    let world = World::new().registered();
    assert_eq!(world.push(0, 0, b"in the tail"), Code::Ok);
    world.fs.fault_at(0, Fault::Torn(0, Errno::MFILE));
    assert_eq!(world.push(1, 0, &payload(1, 0, LARGE)), Code::Overloaded);
    assert_eq!(world.push(2, 0, b"behind it"), Code::Ok);
    assert_eq!(world.load().state, State::Serving);
    assert_eq!(world.push(1, 0, &payload(1, 0, LARGE)), Code::Ok);
    world.commit_all();
    assert_eq!(world.maps(0), [0, 2, 1]);
    let tail = b"in the tailbehind it".to_vec();
    assert_eq!(world.fetch(0), [tail, payload(1, 0, LARGE)].concat());
}

#[test]
fn a_full_disk_is_reported_as_full_and_used_again_when_there_is_room() {
    let world = World::new().registered();
    world.fs.set_capacity(Path::new(DISK), 600_000);
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Ok);
    assert_eq!(world.push(1, 0, &payload(1, 0, 2 * LARGE)), Code::DiskFull);
    assert_eq!(world.load().state, State::DiskFull);
    assert_eq!(
        world.push(2, 0, b"small"),
        Code::DiskFull,
        "refused without a try"
    );
    assert_eq!(
        world.push(2, 1, b"small"),
        Code::DiskFull,
        "new partitions too"
    );
    world.clock.advance_ms(4_999);
    world.fs.set_capacity(Path::new(DISK), 10_000_000);
    assert_eq!(
        world.push(2, 0, b"small"),
        Code::DiskFull,
        "it is not time to try yet"
    );
    world.clock.advance_ms(1);
    assert_eq!(world.push(2, 0, b"small"), Code::Ok);
    assert_eq!(world.load().state, State::Serving);
    world.commit_all();
    assert_eq!(world.maps(0), [0, 2]);
}

#[test]
fn a_failing_disk_differs_from_a_full_one_and_load_finds_it_well_again() {
    let world = World::new().registered();
    world.fs.break_dir(Path::new(DISK), Errno::IO);
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::DiskFailed);
    assert_eq!(world.load().state, State::DiskFailed);
    world.clock.advance_ms(5_000);
    assert_eq!(world.load().state, State::DiskFailed, "the probe fails");
    world.fs.mend(Path::new(DISK));
    assert_eq!(
        world.load().state,
        State::DiskFailed,
        "not tried before the time"
    );
    world.clock.advance_ms(5_000);
    assert_eq!(world.load().state, State::Serving);
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Ok);
    assert!(
        world
            .fs
            .below(Path::new(DISK))
            .iter()
            .all(|path| !path.ends_with("probe"))
    );
}

#[test]
fn partitions_are_spread_over_disks_and_go_on_elsewhere_when_one_is_bad() {
    let world = World::with(2, LITTLE_MEMORY).registered();
    let push_all = |map| {
        for reduce in 0..10 {
            let bytes = payload(map, reduce, LARGE);
            assert_eq!(world.push(map, reduce, &bytes), Code::Ok);
        }
    };
    push_all(0);
    assert_eq!(world.data_bytes("/disk0"), 5 * LARGE);
    assert_eq!(world.data_bytes("/disk1"), 5 * LARGE);
    world.fs.break_dir(Path::new("/disk0"), Errno::IO);
    push_all(1);
    assert_eq!(world.data_bytes("/disk0"), 5 * LARGE);
    assert_eq!(world.data_bytes("/disk1"), 15 * LARGE);
    assert_eq!(world.load().state, State::Serving);
    world.fs.mend(Path::new("/disk0"));
    world.clock.advance_ms(5_000);
    push_all(2);
    assert_eq!(world.data_bytes("/disk0"), 10 * LARGE);
    world.commit_all();
    for reduce in 0..10 {
        let all = [0, 1, 2].map(|map| payload(map, reduce, LARGE));
        assert_eq!(world.fetch(reduce), all.concat());
    }
}

#[test]
fn a_partition_that_will_be_large_has_a_file_of_its_own_from_the_start() {
    let world = World::new().registered_for(100);
    assert_eq!(world.push(0, 1, b"in memory"), Code::Ok);
    assert_eq!(world.push(0, 2, &payload(0, 2, LARGE_BYTES)), Code::Ok);
    let files = world.data_files(DISK);
    assert_eq!(files.len(), 1);
    assert!(files[0].ends_with("2.data"), "{files:?}");
}

#[test]
fn a_small_partition_that_became_large_continues_in_a_file_of_its_own() {
    let world = World::new().registered_for(12);
    for reduce in 0..3 {
        (0..6).for_each(|map| assert_eq!(world.push(map, reduce, b"small"), Code::Ok));
    }
    for map in 6..12 {
        for reduce in 0..3 {
            let bytes = payload(map, reduce, LARGE);
            assert_eq!(world.push(map, reduce, &bytes), Code::Ok);
        }
    }
    let files = world.data_files(DISK);
    assert_eq!(files.len(), 4, "one for all, and one each: {files:?}");
    world.commit_all();
    for reduce in 0..3 {
        assert_eq!(world.maps(reduce), (0..12).collect::<Vec<_>>());
        let large = (6..12).flat_map(|map| payload(map, reduce, LARGE));
        let all: Vec<_> = b"small".repeat(6).into_iter().chain(large).collect();
        assert_eq!(world.fetch(reduce), all);
    }
    let range = MapRange::new(5, 10).unwrap();
    let some: Vec<_> = (6..10).flat_map(|map| payload(map, 1, LARGE)).collect();
    let some = [b"small", &some[..]].concat();
    assert_eq!(fetch(&world.store, range, 1).concat(), some);
}

#[test]
fn a_large_partition_whose_disk_fails_goes_on_elsewhere_and_comes_back() {
    let world = World::with(2, LITTLE_MEMORY).registered();
    let push = |map| assert_eq!(world.push(map, 0, &payload(map, 0, 5 * LARGE)), Code::Ok);
    push(0);
    world.fs.fault_at(0, Fault::Torn(1000, Errno::NOSPC));
    push(1);
    push(2);
    world.clock.advance_ms(5_000);
    push(3);
    world.commit_all();
    let all: Vec<_> = (0..4).flat_map(|map| payload(map, 0, 5 * LARGE)).collect();
    assert_eq!(world.fetch(0), all);
    let held = [world.data_bytes("/disk0"), world.data_bytes("/disk1")];
    assert_eq!(held, [10 * LARGE, 10 * LARGE]);
}

#[test]
fn tails_that_cannot_be_written_together_are_written_one_by_one_to_another_disk() {
    let world = World::with(2, 2 * MIB).registered_for(1);
    let mut pushed = 0;
    // Even partitions are at home on the first disk, odd ones on the other.
    while world.data_bytes("/disk0") + world.data_bytes("/disk1") == 0 {
        world.fs.forget_faults();
        world.fs.fault_at(0, Fault::Torn(5_000, Errno::IO));
        let bytes = payload(0, pushed, 20_000);
        assert_eq!(world.push(0, pushed, &bytes), Code::Ok);
        pushed += 1;
    }
    assert_eq!(world.data_bytes("/disk0"), 0, "the first write was torn");
    world.commit_all();
    for reduce in 0..pushed {
        assert_eq!(world.fetch(reduce), payload(0, reduce, 20_000));
    }
}

#[test]
fn a_new_file_that_fails_on_one_disk_is_written_to_the_next_at_once() {
    let world = World::with(2, LITTLE_MEMORY).registered();
    world.push(0, 0, b"in the tail");
    world.fs.fault_at(0, Fault::Torn(10, Errno::NOSPC));
    assert_eq!(world.push(1, 0, &payload(1, 0, LARGE)), Code::Ok);
    world.commit_all();
    assert_eq!(world.maps(0), [0, 1]);
    assert_eq!(
        world.fetch(0),
        [b"in the tail".to_vec(), payload(1, 0, LARGE)].concat()
    );
    assert_eq!(
        (
            world.data_files("/disk0").len(),
            world.data_files("/disk1").len()
        ),
        (0, 1)
    );
}

#[test]
fn too_many_open_files_is_overload_and_no_disk_trouble() {
    let world = World::new().registered();
    world.fs.break_dir(Path::new(DISK), Errno::MFILE);
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Overloaded);
    world.fs.mend(Path::new(DISK));
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Ok);
}

#[test]
fn ten_thousand_small_partitions_share_a_file_on_each_disk_and_keep_none_open() {
    let world = World::with(2, 12 * MIB).registered_for(3);
    for map in 0..3 {
        for reduce in 0..10_000 {
            let bytes = payload(map, reduce, 1_500);
            assert_eq!(world.push(map, reduce, &bytes), Code::Ok);
        }
        world.commit_all();
    }
    let (open, most) = world.fs.open_files();
    assert_eq!((open, most), (0, 1));
    assert_eq!(world.data_files("/disk0").len(), 1);
    assert_eq!(world.data_files("/disk1").len(), 1);
    assert!(world.data_bytes("/disk0") > 10_000_000);
    let writes = world.fs.writes();
    assert!(writes < 30_000 / 100, "{writes} writes for 30,000 segments");
    for reduce in 0..10_000 {
        let all = [0, 1, 2].map(|map| payload(map, reduce, 1_500));
        assert_eq!(world.fetch(reduce), all.concat());
    }
}

/// A disk failed and is well again. When the daemon looks at it, for a push, it lacks descriptors
/// or memory. Returns the code of this push.
fn look_without(lack: Errno, world: &World) -> Code {
    world.fs.fault_at(0, Fault::Torn(0, Errno::IO));
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::DiskFailed);
    world.clock.advance_ms(5_000);
    world.fs.break_dir(Path::new(DISK), lack);
    let code = world.push(0, 0, &payload(0, 0, LARGE));
    world.fs.mend(Path::new(DISK));
    code
}

#[test]
fn a_look_without_a_descriptor_or_memory_keeps_no_disk_out_of_use_and_drops_nothing() {
    for lack in [Errno::MFILE, Errno::NOMEM] {
        let world = World::new().registered();
        assert_eq!(world.push(1, 1, b"in memory"), Code::Ok);
        assert_eq!(look_without(lack, &world), Code::Overloaded);
        if lack == Errno::NOMEM {
            world.clock.advance_ms(100);
        }
        assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Ok);
        assert_eq!(world.load().state, State::Serving);
        world.commit_all();
        assert_eq!(world.fetch(0), payload(0, 0, LARGE));
        assert_eq!(world.fetch(1), b"in memory");
    }
}

#[test]
fn what_comes_during_a_look_after_one_without_a_descriptor_is_refused_for_now() {
    let world = World::new().registered();
    assert_eq!(look_without(Errno::MFILE, &world), Code::Overloaded);
    world.fs.hold_writes();
    thread::scope(|scope| {
        let mended = Mended(&world);
        let (sender, receiver) = mpsc::channel();
        let looks = scope.spawn(|| world.push(0, 0, &payload(0, 0, LARGE)));
        await_held(&world, 1);
        spawn(scope, &sender, || world.push(1, 1, &payload(1, 1, LARGE)));
        assert_eq!(receiver.recv_timeout(LONGEST), Ok(Code::Overloaded));
        drop(mended);
        assert_eq!(looks.join().unwrap(), Code::Ok);
    });
}

#[test]
fn a_look_without_a_descriptor_drops_nothing_while_another_disk_rests() {
    let world = World::with(2, LITTLE_MEMORY).registered();
    let reduces = 0..4;
    for reduce in reduces.clone() {
        assert_eq!(world.push(1, reduce, b"in memory"), Code::Ok);
    }
    for disk in ["/disk0", "/disk1"] {
        world.fs.break_dir(Path::new(disk), Errno::IO);
        for reduce in 10..20 {
            world.push(0, reduce, &payload(0, reduce, LARGE));
        }
        world.clock.advance_ms(2_500);
    }
    world.fs.break_dir(Path::new("/disk0"), Errno::MFILE);
    for reduce in reduces.clone() {
        let large = payload(0, reduce, LARGE);
        assert_eq!(world.push(0, reduce, &large), Code::Overloaded, "{reduce}");
    }
    world.commit_all();
    assert!(
        reduces
            .into_iter()
            .all(|reduce| world.fetch(reduce) == b"in memory")
    );
}

#[test]
fn a_full_disk_is_said_to_be_full_after_a_look_without_a_descriptor() {
    let world = World::new().registered();
    world.fs.break_dir(Path::new(DISK), Errno::NOSPC);
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::DiskFull);
    world.clock.advance_ms(5_000);
    world.fs.break_dir(Path::new(DISK), Errno::MFILE);
    assert_eq!(world.push(0, 0, &payload(0, 0, LARGE)), Code::Overloaded);
    assert_eq!(world.load().state, State::DiskFull);
}

#[test]
fn a_stop_after_a_look_without_a_descriptor_loses_no_remote_shuffle() {
    let first = World::new().remote();
    let mut attempt = first.attempt(1, 10);
    attempt.push(&[(3, b"in memory")]);
    attempt.commit().unwrap();
    let _ = look_without(Errno::MFILE, &first);
    let next = handed_over(&first, 1, 2);
    assert_eq!(next.store.incarnation(), first.store.incarnation());
    assert_eq!(next.fetch(3), b"in memory");
}
