// SPDX-License-Identifier: Apache-2.0
//! One of the disks with directories of executors hangs in everything. Work that does not need it
//! goes on.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lodestone_model::*;
use lodestone_store::LOCAL_DIRS_MAX;

use crate::spark::spark_path;
use crate::stalled::{LONGEST, Mended, STALL_MS, await_held};
use crate::world::*;

/// The disk that hangs, and the other one.
pub(crate) const BAD: &str = "/data0";
const WELL: &str = "/data1";

/// Calls that may hang on one disk.
const HANGING: usize = 16;

/// Pushes that may wait to write there.
const WAITING: usize = 32;

/// More than may hang there, or wait to.
const CALLS: usize = 66;

/// Much longer than a call takes that is refused.
pub(crate) const MOMENT: Duration = Duration::from_millis(300);

/// The directories of the executor, on three disks. With two of them, `.data` and `.meta` of a
/// partition would never be on the same one.
const LOCAL_DIRS: [&str; 3] = [
    "/data0/blockmgr-a",
    "/data1/blockmgr-b",
    "/data2/blockmgr-c",
];

pub(crate) fn world() -> World {
    let world = World::new();
    for dir in LOCAL_DIRS {
        world.fs.add_dir(Path::new(dir));
    }
    let info = lodestone_store::ExecutorInfo {
        local_dirs: LOCAL_DIRS.map(String::from).to_vec(),
        sub_dirs: 64,
        merge_dir: Some("merge_manager".into()),
    };
    let registered = world
        .store
        .register_executor(&app(), "1", AppAttempt::NONE, info);
    registered.unwrap();
    world
}

/// Returns true if this file of a merged partition is on the disk that hangs.
fn is_bad(shuffle: i32, reduce: u32, kind: &str) -> bool {
    let dirs = LOCAL_DIRS.map(|dir| &dir[..BAD.len()]);
    let name = format!("shuffleMerged_app-1_{shuffle}_0_{reduce}.{kind}");
    spark_path(dirs, &name).starts_with(BAD)
}

/// Returns so many partitions with this file on the disk that hangs.
pub(crate) fn bad_partitions(kind: &'static str, count: usize) -> impl Iterator<Item = u32> {
    (0..)
        .filter(move |reduce| is_bad(7, *reduce, kind))
        .take(count)
}

/// Returns so many partitions without a file on that disk.
pub(crate) fn well_partitions(count: usize) -> impl Iterator<Item = u32> {
    let is_well = |reduce: &u32| {
        let mut kinds = ["data", "index", "meta"].into_iter();
        !kinds.any(|kind| is_bad(7, *reduce, kind))
    };
    (0..).filter(is_well).take(count)
}

fn of_shuffle(shuffle: i32) -> ShuffleKey {
    ShuffleKey {
        shuffle: ShuffleId(shuffle),
        ..key()
    }
}

fn push(world: &World, key: &ShuffleKey, reduce: u32, length: usize) -> Result<Code, Code> {
    let block = payload(0, reduce, length);
    let pushed = world
        .store
        .push_block(key, MapIndex(0), ReduceId(reduce), &block);
    pushed.map_err(|refusal| refusal.code)
}

/// Reports answers to a channel of a test.
pub(crate) fn spawn<'s, T: Send + 's>(
    scope: &'s thread::Scope<'s, '_>,
    answers: &mpsc::Sender<T>,
    call: impl FnOnce() -> T + Send + 's,
) {
    let answers = answers.clone();
    scope.spawn(move || {
        // Nobody waits for those that hang until the end.
        let _ = answers.send(call());
    });
}

/// Pushes large blocks to the disk that hangs, until no more may wait there. Returns their answers.
fn write_to_bad_disk<'s>(
    world: &'s World,
    scope: &'s thread::Scope<'s, '_>,
) -> mpsc::Receiver<Result<Code, Code>> {
    let (sender, receiver) = mpsc::channel();
    for reduce in bad_partitions("data", CALLS) {
        spawn(scope, &sender, move || {
            push(world, &key(), reduce, LARGE_BYTES)
        });
    }
    for _ in HANGING + WAITING..CALLS {
        let refused = receiver.recv_timeout(LONGEST);
        assert_eq!(refused, Ok(Err(Code::Overloaded)));
    }
    receiver
}

#[test]
fn first_blocks_of_partitions_take_only_some_threads_of_a_disk_that_hangs_in_a_look() {
    let world = world();
    let world = &world;
    world.fs.hold_calls_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        for reduce in bad_partitions("index", CALLS) {
            spawn(scope, &sender, move || push(world, &key(), reduce, 10));
        }
        await_held(world, HANGING);
        for _ in 2 * HANGING..CALLS {
            let refused = receiver.recv_timeout(LONGEST).unwrap();
            assert_eq!(refused, Err(Code::Overloaded));
        }
        for reduce in well_partitions(CALLS) {
            spawn(scope, &sender, move || {
                push(world, &key(), reduce, LARGE_BYTES)
            });
            let pushed = receiver.recv_timeout(LONGEST);
            assert_eq!(pushed, Ok(Ok(Code::Ok)), "to the other disk");
        }
    });
}

#[test]
fn blocks_are_merged_on_one_disk_of_executors_while_another_one_is_stalled() {
    let world = world();
    let world = &world;
    world.fs.hold_writes_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        for reduce in bad_partitions("data", CALLS) {
            spawn(scope, &sender, move || {
                push(world, &key(), reduce, LARGE_BYTES)
            });
        }
        await_held(world, HANGING);
        world.clock.advance_ms(STALL_MS);
        for _ in HANGING..CALLS {
            let refused = receiver.recv_timeout(LONGEST).unwrap();
            assert!(refused.is_err(), "{refused:?}");
        }
        for reduce in well_partitions(CALLS) {
            assert_eq!(push(world, &key(), reduce, LARGE_BYTES), Ok(Code::Ok));
        }
    });
}

#[test]
fn a_finalize_leaves_out_what_a_disk_holds_up_and_answers() {
    let world = world();
    let world = &world;
    let healthy: Vec<_> = well_partitions(3).collect();
    for reduce in &healthy {
        assert_eq!(push(world, &key(), *reduce, 10), Ok(Code::Ok));
    }
    world.fs.hold_writes_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, _pushed) = mpsc::channel();
        for reduce in bad_partitions("data", HANGING / 2) {
            spawn(scope, &sender, move || {
                push(world, &key(), reduce, LARGE_BYTES)
            });
        }
        await_held(world, HANGING / 2);
        let (sender, receiver) = mpsc::channel();
        spawn(scope, &sender, || {
            world.store.merge_statuses(&key(), usize::MAX)
        });
        let merged = receiver.recv_timeout(LONGEST).unwrap();
        let merged: Vec<_> = merged.unwrap().iter().map(|one| one.reduce_id.0).collect();
        assert_eq!(merged, healthy);
    });
    let late = world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(late.len(), healthy.len(), "it answers the same afterwards");
}

#[test]
fn finalizes_take_only_some_threads_of_a_disk_that_hangs_in_their_index_files() {
    let world = world();
    let world = &world;
    let shuffles = 100..100 + CALLS as i32;
    for shuffle in shuffles.clone() {
        let is_wanted =
            |reduce: &u32| !is_bad(shuffle, *reduce, "data") && is_bad(shuffle, *reduce, "index");
        let reduce = (0..).find(is_wanted);
        let pushed = push(world, &of_shuffle(shuffle), reduce.unwrap(), 10);
        assert_eq!(pushed, Ok(Code::Ok));
    }
    world.fs.hold_writes_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        for shuffle in shuffles {
            spawn(scope, &sender, move || {
                world.store.merge_statuses(&of_shuffle(shuffle), usize::MAX)
            });
        }
        await_held(world, HANGING);
        world.clock.advance_ms(STALL_MS);
        for _ in HANGING..CALLS {
            let merged = receiver.recv_timeout(LONGEST).unwrap();
            assert_eq!(merged, Ok(Vec::new()), "its partition is left out");
        }
        assert_eq!(world.fs.held_writes(), HANGING);
    });
}

#[test]
fn first_blocks_are_taken_at_a_disk_that_is_busy_with_writes() {
    let world = world();
    let world = &world;
    world.fs.hold_writes_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let _writing = write_to_bad_disk(world, scope);
        let small = bad_partitions("index", 2 * CALLS).filter(|reduce| !is_bad(7, *reduce, "data"));
        for reduce in small {
            assert_eq!(push(world, &key(), reduce, 10), Ok(Code::Ok));
        }
    });
}

#[test]
fn a_finalize_waits_for_its_turn_at_a_disk_that_is_busy_with_writes() {
    let world = world();
    let world = &world;
    let other = of_shuffle(100);
    let reduce =
        (0..).find(|reduce| !is_bad(100, *reduce, "data") && is_bad(100, *reduce, "index"));
    let reduce = reduce.unwrap();
    assert_eq!(push(world, &other, reduce, 10), Ok(Code::Ok));
    world.fs.hold_writes_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let _writing = write_to_bad_disk(world, scope);
        let (sender, receiver) = mpsc::channel();
        spawn(scope, &sender, || {
            world.store.merge_statuses(&other, usize::MAX)
        });
        assert!(receiver.recv_timeout(MOMENT).is_err(), "it waits");
        world.fs.release_writes();
        let merged = receiver.recv_timeout(LONGEST).unwrap().unwrap();
        assert_eq!(merged.len(), 1, "its partition is not left out");
    });
}

#[test]
fn a_finalize_waits_with_the_data_of_its_partitions_for_a_disk_that_is_busy() {
    let world = world();
    let world = &world;
    let other = of_shuffle(100);
    let reduce = (0..).find(|reduce| is_bad(100, *reduce, "data")).unwrap();
    assert_eq!(push(world, &other, reduce, 10), Ok(Code::Ok));
    world.fs.hold_writes_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let _writing = write_to_bad_disk(world, scope);
        let (sender, receiver) = mpsc::channel();
        spawn(scope, &sender, || {
            world.store.merge_statuses(&other, usize::MAX)
        });
        let answer = receiver.recv_timeout(MOMENT);
        assert!(answer.is_err(), "it waits: {answer:?}");
        world.fs.release_writes();
        let merged = receiver.recv_timeout(LONGEST).unwrap().unwrap();
        assert_eq!(merged.len(), 1, "its partition is not left out");
    });
}

#[test]
fn executors_are_not_forgotten_while_a_look_at_their_disk_hangs() {
    let world = World::new();
    let dir = Path::new("/data0/blockmgr-a");
    world.fs.add_dir(dir);
    let info = lodestone_store::ExecutorInfo {
        local_dirs: vec!["/data0/blockmgr-a".into(), "/data1/blockmgr-b".into()],
        sub_dirs: 64,
        merge_dir: None,
    };
    world.fs.add_dir(Path::new("/data1/blockmgr-b"));
    let registered = world
        .store
        .register_executor(&app(), "1", AppAttempt::NONE, info);
    registered.unwrap();
    let place = |dir: &str| world.store.places_of_dirs(&[format!("{dir}/blockmgr")])[0];
    let [bad, well] = [BAD, WELL].map(place);
    world.fs.wipe(Path::new(BAD));
    let look = |place| {
        world.clock.advance_ms(1_000);
        world.store.forget_gone_at(place)
    };
    (0..100).for_each(|_| assert_eq!(look(bad), []));
    // The disk is back, and hangs before the next look at it ends.
    world.fs.add_dir(dir);
    world.fs.wipe(Path::new(WELL));
    (0..100).for_each(|_| assert_eq!(look(well), []));
    assert_eq!(look(bad), []);
    world.fs.wipe(Path::new(BAD));
    let forgotten = (0..100).find_map(|_| {
        let found = look(bad);
        found.into_iter().chain(look(well)).next()
    });
    assert_eq!(forgotten, Some(app()));
}

#[test]
fn a_finalize_that_waited_for_one_disk_in_vain_waits_for_a_push_to_another_one() {
    // A lock is waited for this long.
    const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
    let world = world();
    let world = &world;
    let bad = bad_partitions("data", 1).next().unwrap();
    let well = well_partitions(100).find(|reduce| *reduce > bad).unwrap();
    for reduce in [bad, well] {
        assert_eq!(push(world, &key(), reduce, 10), Ok(Code::Ok));
    }
    world.fs.hold_writes();
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, _pushed) = mpsc::channel();
        for reduce in [bad, well] {
            let block = payload(1, reduce, LARGE_BYTES);
            spawn(scope, &sender, move || {
                let (map, reduce) = (MapIndex(1), ReduceId(reduce));
                world.store.push_block(&key(), map, reduce, &block)
            });
        }
        await_held(world, 2);
        let (sender, receiver) = mpsc::channel();
        spawn(scope, &sender, || {
            world.store.merge_statuses(&key(), usize::MAX)
        });
        let answer = receiver.recv_timeout(LOCK_TIMEOUT + LOCK_TIMEOUT / 2);
        assert!(answer.is_err(), "it waits for the second disk: {answer:?}");
        world.fs.release_writes();
        let merged = receiver.recv_timeout(LONGEST).unwrap().unwrap();
        let merged: Vec<_> = merged.iter().map(|one| one.reduce_id.0).collect();
        assert_eq!(merged, [well]);
    });
}

#[test]
fn a_handover_does_not_wait_for_the_files_of_executors_on_a_disk_that_hangs() {
    let world = world();
    let world = &world;
    let reduce = bad_partitions("data", 1).next().unwrap();
    assert_eq!(push(world, &key(), reduce, LARGE_BYTES), Ok(Code::Ok));
    let removed = world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, key().shuffle, None);
    removed.unwrap();
    let remote = of_shuffle(1_000);
    let spec = ShuffleSpec {
        mode: Mode::Remote,
        ..spec()
    };
    world.store.register_shuffle(&remote, spec).unwrap();
    world.fs.hold_calls_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        spawn(scope, &sender, || world.store.hand_over());
        receiver.recv_timeout(LONGEST).unwrap();
    });
    let next = World::on(world.fs.clone(), vec![DISK.into()], MIB, 2);
    next.store.check_readable(&remote).unwrap();
}

#[test]
fn a_registration_that_is_not_accepted_uses_no_place_up() {
    let world = world();
    let before = world.store.places_in_use();
    let dirs: Vec<_> = (10..100).map(|n| format!("/data{n}/blockmgr-x")).collect();
    for dir in &dirs {
        world.fs.add_dir(Path::new(dir));
    }
    let rest = world.store.places_of_dirs(&dirs);
    assert!(rest.len() < 10, "they share some");
    let register = |app: &AppId, local_dirs, sub_dirs| {
        let info = lodestone_store::ExecutorInfo {
            local_dirs,
            sub_dirs,
            merge_dir: Some("merge_manager".into()),
        };
        let attempt = AppAttempt::NONE;
        world.store.register_executor(app, "2", attempt, info)
    };
    assert!(register(&app(), dirs.clone(), 0).is_err());
    // There is nothing beside the root: this is known last.
    let with_root = [dirs.clone(), vec!["/".into()]].concat();
    assert!(register(&app(), with_root, 64).is_err());
    assert_eq!(world.store.places_in_use(), before);
    // A disk gets none for the name of a directory that is not there.
    let missing = dirs.iter().map(|dir| format!("{dir}/is/missing"));
    for dir in missing {
        assert_eq!(register(&app(), vec![dir], 64), Ok(()));
    }
    assert_eq!(world.store.places_in_use(), before);
    // One application leaves some to others.
    for app in [app(), AppId::new("other").unwrap()] {
        assert_eq!(register(&app, dirs.clone(), 64), Ok(()));
    }
    assert_eq!(world.store.places_in_use(), before + 29);
    // It is refused anyway: no thread looks at all of a million.
    let mut many = vec![LOCAL_DIRS[0].to_owned(); LOCAL_DIRS_MAX];
    many.push(LOCAL_DIRS[1].to_owned());
    assert_eq!(world.store.places_of_dirs(&many).len(), 1);
}

#[test]
fn what_a_drain_would_lose_is_known_while_a_disk_of_executors_hangs() {
    let world = world();
    let world = &world;
    world.fs.hold_calls_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        spawn(scope, &sender, || world.store.held_data().executors);
        assert_eq!(receiver.recv_timeout(LONGEST), Ok(1));
    });
}

#[test]
fn executors_of_a_well_disk_are_forgotten_while_another_disk_hangs() {
    let world = World::new();
    let app = |name: &str| AppId::new(name).unwrap();
    for (name, dir) in [("bad", "/data0/blockmgr-a"), ("well", "/data1/blockmgr-b")] {
        world.fs.add_dir(Path::new(dir));
        let info = lodestone_store::ExecutorInfo {
            local_dirs: vec![dir.into()],
            sub_dirs: 64,
            merge_dir: None,
        };
        let registered = world
            .store
            .register_executor(&app(name), "1", AppAttempt::NONE, info);
        registered.unwrap();
    }
    let place = world.store.places_of_dirs(&["/data1/blockmgr-b".into()])[0];
    world.fs.wipe(Path::new(WELL));
    world.fs.hold_calls_below(Path::new(BAD));
    let world = &world;
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        // The daemon's thread of the healthy disk.
        spawn(scope, &sender, move || {
            (0..100).find_map(|_| {
                world.clock.advance_ms(1_000);
                world.store.forget_gone_at(place).pop()
            })
        });
        let forgotten = receiver.recv_timeout(LONGEST).unwrap();
        assert_eq!(forgotten, Some(app("well")));
    });
    assert!(world.store.local_dirs(&app("bad"), "1").is_ok());
}

#[test]
fn a_disk_that_tells_its_room_while_its_writes_hang_takes_no_more_blocks() {
    let world = world();
    let world = &world;
    let reduces: Vec<_> = bad_partitions("data", 3).collect();
    let push = move |reduce| push(world, &key(), reduce, LARGE_BYTES);
    world.fs.hold_writes_below(Path::new(BAD));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        let reduce = reduces[0];
        spawn(scope, &sender, move || push(reduce));
        await_held(world, 1);
        world.clock.advance_ms(STALL_MS - 1);
        // This one asks for the room before it hangs.
        let reduce = reduces[1];
        spawn(scope, &sender, move || push(reduce));
        await_held(world, 2);
        world.clock.advance_ms(1);
        let reduce = reduces[2];
        spawn(scope, &sender, move || push(reduce));
        let refused = receiver.recv_timeout(LONGEST);
        assert_eq!(
            refused,
            Ok(Err(Code::DiskFailed)),
            "its thread would hang, too"
        );
    });
}
