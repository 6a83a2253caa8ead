// SPDX-License-Identifier: Apache-2.0
//! A disk that neither completes a write nor reports an error.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::*;
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::*;

use crate::world::*;

/// After this time without progress a disk is not used.
pub(crate) const STALL_MS: u64 = 10_000;

/// Much longer than anything takes that waits for no disk.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);

/// However a test ends: nothing hangs any more.
pub(crate) struct Mended<'a>(pub(crate) &'a World);

impl Drop for Mended<'_> {
    fn drop(&mut self) {
        self.0.fs.release_writes();
    }
}

fn large(map: u32, reduce: u32) -> Vec<u8> {
    payload(map, reduce, LARGE_BYTES)
}

/// Waits until this many writes hang.
pub(crate) fn await_held(world: &World, writes: usize) {
    let began = Instant::now();
    while world.fs.held_writes() < writes {
        assert!(began.elapsed() < LONGEST, "not so many hang");
        thread::yield_now();
    }
}

/// Pushes a large segment, whose write hangs until `then` has returned. Returns the push's code.
fn while_a_push_hangs(world: &World, then: impl FnOnce()) -> Code {
    thread::scope(|scope| {
        let _mended = Mended(world);
        let hanging = scope.spawn(|| world.push(0, 0, &large(0, 0)));
        await_held(world, 1);
        then();
        world.fs.release_writes();
        hanging.join().unwrap()
    })
}

/// Pushes two large segments of a shuffle, one to each of two disks. The write to this one hangs
/// until `then`, which finds the disk stalled, has returned.
fn while_a_push_to_two_hangs(world: &World, disk: &str, shuffle: &ShuffleKey, then: impl FnOnce()) {
    world.fs.hold_writes_below(Path::new(disk));
    thread::scope(|scope| {
        let _mended = Mended(world);
        let bytes = large(0, 0);
        let segments = [header(0, &bytes), header(1, &bytes)];
        let bytes = bytes.repeat(2);
        let pushed = scope.spawn(move || {
            let batch = batch(0, 100, &segments, &bytes);
            world.store.push_batch(shuffle, &batch)
        });
        await_held(world, 1);
        world.clock.advance_ms(STALL_MS);
        then();
        world.fs.release_writes();
        let _ = pushed.join().unwrap();
    });
}

/// Does this work, which must end while writes hang. If it does not, they no longer hang.
fn assert_ends(world: &World, work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            work();
            sender.send(()).unwrap();
        });
        let ended = receiver.recv_timeout(Duration::from_secs(60));
        let _mended = Mended(world);
        assert_eq!(ended, Ok(()), "it waits for the write");
    });
}

#[test]
fn pushes_go_to_another_disk_while_one_hangs_and_its_bytes_are_there_in_the_end() {
    let world = World::with(2, LITTLE_MEMORY).registered();
    world.fs.hold_writes_below(Path::new(DISK));
    let code = while_a_push_hangs(&world, || {
        world.clock.advance_ms(STALL_MS);
        for reduce in 1..10 {
            assert_eq!(world.push(reduce, reduce, &large(0, reduce)), Code::Ok);
        }
        assert_eq!(
            world.fs.held_writes(),
            1,
            "the hanging disk was tried again"
        );
        assert_eq!(world.store.load().state, State::Serving);
    });
    assert_eq!(code, Code::Ok);
    world.commit_all();
    for reduce in 0..10 {
        assert_eq!(world.fetch(reduce), large(0, reduce));
    }
}

#[test]
fn a_store_whose_only_disk_hangs_says_so_and_is_well_as_soon_as_the_disk_is() {
    let world = World::new().registered();
    world.fs.hold_writes();
    let code = while_a_push_hangs(&world, || {
        world.clock.advance_ms(STALL_MS - 1);
        assert_eq!(world.store.load().state, State::Serving);
        for _ in 0..3 {
            world.clock.advance_ms(STALL_MS);
            assert_eq!(world.store.load().state, State::DiskFailed);
            assert_eq!(world.push(1, 1, &large(0, 1)), Code::DiskFailed);
        }
        assert_eq!(
            world.fs.held_writes(),
            1,
            "the hanging disk was tried again"
        );
    });
    assert_eq!(code, Code::Ok);
    assert_eq!(world.store.load().state, State::Serving);
    assert_eq!(world.push(1, 1, &large(0, 1)), Code::Ok);
    world.commit_all();
    assert_eq!(world.fetch(0), large(0, 0));
    assert_eq!(world.fetch(1), large(0, 1));
}

#[test]
fn memory_that_is_written_to_a_disk_that_hangs_holds_up_nothing_that_goes_to_another() {
    let world = World::with(2, MIB).remote();
    world.fs.hold_writes_below(Path::new(DISK));
    let bytes = payload(1, 1, 12_000);
    thread::scope(|scope| {
        let world = &world;
        let _mended = Mended(world);
        let mut attempt = world.attempt(0, 100);
        scope.spawn(move || (0..80).for_each(|reduce| drop(attempt.push(&[(reduce, &bytes)]))));
        await_held(world, 1);
        // Partitions take turns on disks.
        for of_the_other in (1..80).step_by(2) {
            let layout = world
                .store
                .layout(&key(), MapRange::ALL, ReduceId(of_the_other));
            let code = layout.err().map(|refusal| refusal.code);
            assert_ne!(code, Some(Code::Overloaded), "partition {of_the_other}");
        }
    });
}

#[test]
fn attempts_are_aborted_while_a_disk_hangs_and_their_space_is_free_when_it_works_again() {
    const ATTEMPTS: u32 = 40;
    let world = World::new().remote();
    world.fs.set_capacity(DISK.as_ref(), 100 * MIB);
    let attempt = |n: u32| world.attempt(n % 10, n.into());
    let mut attempts: Vec<_> = (0..ATTEMPTS).map(attempt).collect();
    for attempt in &mut attempts {
        assert_eq!(attempt.push(&[(0, &large(0, 0))]), [Code::Ok]);
    }
    let before = world.load().disk_free;
    world.fs.hold_writes();
    thread::scope(|scope| {
        let world = &world;
        let mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        for attempt in attempts {
            let sender = sender.clone();
            scope.spawn(move || {
                attempt.abort();
                sender.send(()).unwrap();
            });
        }
        for n in 0..ATTEMPTS {
            let ended = receiver.recv_timeout(LONGEST);
            assert!(ended.is_ok(), "{n} of {ATTEMPTS} are aborted");
        }
        scope.spawn(|| world.store.look_after_all());
        await_held(world, 1);
        drop(mended);
    });
    world.store.look_after_all();
    let freed = world.load().disk_free - before;
    assert_eq!(freed, u64::from(ATTEMPTS) * LARGE_BYTES as u64);
}

#[test]
fn a_stop_while_a_disk_hangs_ends_and_loses_only_the_shuffles_whose_writes_hang() {
    let world = World::with(2, LITTLE_MEMORY).remote();
    let mut whole = world.attempt(0, 100);
    whole.push(&[
        (0, &large(0, 0)),
        (1, b"in memory, and going to the disk that hangs"),
    ]);
    whole.commit().unwrap();
    let other = world.remote_shuffle(8);
    while_a_push_to_two_hangs(&world, "/disk1", &other, || world.store.hand_over());
    let dirs = vec![DISK.into(), "/disk1".into()];
    let next = World::on(world.fs.clone(), dirs, LITTLE_MEMORY, 2);
    assert_eq!(next.fetch(0), large(0, 0));
    assert_eq!(
        next.fetch(1),
        b"in memory, and going to the disk that hangs"
    );
    let lost = next.store.check_readable(&other).unwrap_err();
    assert_eq!(lost.code, Code::UnknownShuffle);
}

/// Its data has originals: the next daemon does not need it.
#[test]
fn a_stop_while_a_write_of_a_merged_shuffle_hangs_ends_and_hands_over_the_remote_ones() {
    let world = World::with(2, LITTLE_MEMORY).remote();
    let mut whole = world.attempt(0, 100);
    whole.push(&[(0, &large(0, 0)), (1, b"in memory")]);
    whole.commit().unwrap();
    let merged = ShuffleKey {
        shuffle: ShuffleId(8),
        ..key()
    };
    world.store.register_shuffle(&merged, spec()).unwrap();
    while_a_push_to_two_hangs(&world, "/disk1", &merged, || {
        assert_ends(&world, || world.store.hand_over());
        let dirs = vec![DISK.into(), "/disk1".into()];
        let next = World::on(world.fs.clone(), dirs, LITTLE_MEMORY, 2);
        assert_eq!(next.store.incarnation(), world.store.incarnation());
        assert_eq!(next.fetch(0), large(0, 0));
        assert_eq!(next.fetch(1), b"in memory");
        let gone = next.store.check_readable(&merged).unwrap_err();
        assert_eq!(gone.code, Code::UnknownShuffle);
    });
}

#[test]
fn a_stop_without_anything_to_hand_over_ends_while_a_write_of_a_merged_shuffle_hangs() {
    let world = World::with(2, LITTLE_MEMORY).registered();
    while_a_push_to_two_hangs(&world, "/disk1", &key(), || {
        assert_ends(&world, || world.store.hand_over());
        let dirs = vec![DISK.into(), "/disk1".into()];
        let next = World::on(world.fs.clone(), dirs, LITTLE_MEMORY, 2).registered();
        assert_ne!(next.store.incarnation(), world.store.incarnation());
    });
}

/// A daemon that stops is given up when no disk makes progress.
#[test]
fn each_file_that_a_stop_removes_is_progress() {
    for is_handed_over in [false, true] {
        let world = World::new().registered();
        for reduce in 0..5 {
            assert_eq!(world.push(0, reduce, &large(0, reduce)), Code::Ok);
        }
        let files = world.data_files(DISK).len() as u64;
        assert!(files > 1, "{files} files");
        if is_handed_over {
            let other = world.remote_shuffle(8);
            assert!(world.store.check_readable(&other).is_ok());
        }
        let before = world.store.write_steps();
        world.store.hand_over();
        let steps = world.store.write_steps() - before;
        assert!(steps >= files, "{steps} steps for {files} files");
        let left = world.fs.below(Path::new(DISK));
        let is_data = |path: &Path| path.extension().is_some_and(|end| end == "data");
        assert!(!left.iter().any(|path| is_data(path)), "{left:?}");
    }
}

#[test]
fn a_handover_goes_to_a_disk_with_little_room_before_one_that_hangs() {
    let dirs = vec![DISK.into(), "/disk1".into()];
    let fs = FakeFs::with_dirs(dirs.clone());
    let world = World::keeping(Reserve::Bytes(MIB), fs, dirs.clone(), LITTLE_MEMORY, 1).remote();
    let mut whole = world.attempt(0, 100);
    whole.push(&[(0, b"in memory")]);
    whole.commit().unwrap();
    let other = world.remote_shuffle(8);
    while_a_push_to_two_hangs(&world, DISK, &other, || {
        for dir in &dirs {
            world.fs.set_capacity(dir, MIB);
        }
        world.look_after();
        world.store.hand_over();
    });
    let next = World::on(world.fs.clone(), dirs, LITTLE_MEMORY, 2);
    assert_eq!(next.store.incarnation(), world.store.incarnation());
    assert_eq!(next.fetch(0), b"in memory");
}

#[test]
fn executors_register_while_the_disk_on_which_they_are_written_down_hangs() {
    let world = World::new();
    world.fs.add_dir(Path::new("/local"));
    let register = |world: &World, exec: &str| {
        let info = ExecutorInfo {
            local_dirs: vec!["/local".into()],
            sub_dirs: 64,
            merge_dir: None,
        };
        let store = &world.store;
        store.register_executor(&app(), exec, AppAttempt::NONE, info)
    };
    world.fs.hold_writes();
    thread::scope(|scope| {
        let world = &world;
        let _mended = Mended(world);
        let hanging = scope.spawn(move || register(world, "0"));
        await_held(world, 1);
        for exec in ["1", "2", "3"] {
            register(world, exec).unwrap();
            world.store.local_dirs(&app(), exec).unwrap();
        }
        world.fs.release_writes();
        hanging.join().unwrap().unwrap();
    });
    // The next one records all of them.
    register(&world, "4").unwrap();
    world.store.hand_over();
    let next = World::on(world.fs.clone(), vec![DISK.into()], LITTLE_MEMORY, 2);
    for exec in ["0", "1", "2", "3", "4"] {
        next.store.local_dirs(&app(), exec).unwrap();
    }
}

#[test]
fn an_application_is_forgotten_while_one_of_its_writes_hangs_and_all_of_it_goes_in_the_end() {
    let world = World::new().registered();
    world.fs.hold_writes();
    while_a_push_hangs(&world, || {
        world.clock.advance_ms(120_001);
        assert_eq!(world.store.expire_leases(world.store.now_ms()), [app()]);
        world.store.finish_removals();
    });
    assert_eq!(world.load().memory_used, 0);
    assert!(world.data_files(DISK).is_empty());
}

#[test]
fn a_hanging_disk_blocks_only_some_threads_and_the_others_get_an_error() {
    const PUSHERS: u32 = 40;
    const HANGING: usize = 16;
    let world = World::new().registered();
    world.fs.hold_writes();
    thread::scope(|scope| {
        let world = &world;
        let _mended = Mended(world);
        let (sender, receiver) = mpsc::channel();
        for reduce in 0..PUSHERS {
            let sender = sender.clone();
            scope.spawn(move || {
                let code = world.push(reduce, reduce, &large(0, reduce));
                sender.send((reduce, code)).unwrap();
            });
        }
        await_held(world, HANGING);
        for _ in 2 * HANGING..PUSHERS as usize {
            assert_eq!(receiver.recv().unwrap().1, Code::Overloaded);
        }
        // As many as hang wait for a turn, as long as the disk may be only slow.
        world.clock.advance_ms(STALL_MS);
        for _ in 0..HANGING {
            assert_eq!(receiver.recv().unwrap().1, Code::DiskFailed);
        }
        assert_eq!(world.fs.held_writes(), HANGING);
        world.fs.release_writes();
        for _ in 0..HANGING {
            let (reduce, code) = receiver.recv().unwrap();
            assert_eq!(code, Code::Ok);
            assert_eq!(world.push(PUSHERS + reduce, reduce, b"more"), Code::Ok);
        }
    });
}

#[test]
fn a_request_for_a_hanging_partition_or_attempt_fails_in_time() {
    let world = World::new().remote();
    world.fs.hold_writes();
    thread::scope(|scope| {
        let world = &world;
        let _mended = Mended(world);
        let hanging = scope.spawn(move || {
            let mut attempt = world.attempt(0, 100);
            assert_eq!(attempt.push(&[(0, &large(0, 0))]), [Code::Ok]);
            attempt.acknowledged
        });
        await_held(world, 1);
        let began = Instant::now();
        let layout = || {
            let layout = world.store.layout(&key(), MapRange::ALL, ReduceId(0));
            layout.unwrap_err().code
        };
        let commit = || {
            let commit = world
                .store
                .commit_map(&key(), MapIndex(0), MapId(100), Ledger::default());
            commit.unwrap_err().code
        };
        assert_eq!(layout(), Code::Overloaded);
        assert_eq!(commit(), Code::Overloaded);
        let first = began.elapsed();
        assert!(first < Duration::from_secs(30), "it waited for {first:?}");
        // Others do not wait behind it.
        let mut other = world.attempt(1, 101);
        assert_eq!(other.push(&[(1, b"in memory")]), [Code::Ok]);
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!((layout(), commit()), (Code::Overloaded, Code::Overloaded));
        }
        let next = began.elapsed();
        assert!(next < first, "it waited again, for {next:?}");
        world.fs.release_writes();
        let pushed = hanging.join().unwrap();
        world
            .store
            .commit_map(&key(), MapIndex(0), MapId(100), pushed)
            .unwrap();
    });
    assert_eq!(world.fetch(0), large(0, 0));
}

#[test]
fn an_abort_waits_once_for_a_write_that_holds_up_many_partitions_and_frees_the_others() {
    // So many make the memory short, and fit into it.
    const PARTITIONS: u32 = 70;
    const SEGMENT: usize = 10_000;
    let world = World::with(1, MIB).remote();
    let bytes = payload(0, 0, SEGMENT);
    let headers: Vec<_> = (0..PARTITIONS).map(|n| header(n, &bytes)).collect();
    let body = bytes.repeat(headers.len());
    let pushed = world
        .store
        .push_batch(&key(), &batch(0, 100, &headers, &body));
    assert_eq!(pushed.unwrap(), vec![Code::Ok; headers.len()]);
    let unwritten = || world.store.unwritten_bytes();
    let abort = || world.store.abort_map(&key(), MapIndex(0), MapId(100));
    world.fs.hold_writes();
    thread::scope(|scope| {
        let world = &world;
        let mended = Mended(world);
        scope.spawn(|| world.store.write_out_as_called(0));
        await_held(world, 1);
        let began = Instant::now();
        let aborted = abort();
        let took = began.elapsed();
        let left = unwritten() / SEGMENT as u64;
        drop(mended);
        assert_eq!(aborted.unwrap_err().code, Code::Overloaded);
        assert!(
            (20..50).contains(&left),
            "the write holds {left} partitions up, and no other one is left"
        );
        assert!(took < LONGEST, "it waited for {took:?}");
    });
    abort().unwrap();
    assert_eq!(unwritten(), 0);
}
