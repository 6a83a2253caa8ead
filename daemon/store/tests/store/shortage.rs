// SPDX-License-Identifier: Apache-2.0
//! Memory is short: who writes data out, and for how long a push may take.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::*;
use lodestone_store::fs::fake::{Errno, FakeFs, Fault};
use lodestone_store::*;

use crate::world::*;

const SEGMENT: usize = 10_000;

/// So many of them make the memory of the tests short, and fit into it.
const SEGMENTS: u32 = 76;

/// A clock on which each look takes this long.
#[derive(Debug, Default)]
struct SlowClock {
    look_ms: u64,
    now_ms: AtomicU64,
}

impl Clock for SlowClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.fetch_add(self.look_ms, SeqCst)
    }

    fn unix_ms(&self) -> u64 {
        self.now_ms()
    }
}

fn push(store: &Store, map: u32, reduce: u32) -> Code {
    let bytes = payload(map, reduce, SEGMENT);
    let headers = [header(reduce, &bytes)];
    let batch = Batch {
        first_segment: reduce,
        ..batch(map, i64::from(map) + 1000, &headers, &bytes)
    };
    store.push_batch(&key(), &batch).unwrap()[0]
}

#[test]
fn a_push_into_little_room_writes_nothing_and_the_place_writes_until_half_is_free() {
    let world = World::with(1, MIB).registered();
    let before = world.fs.writes();
    for reduce in 0..SEGMENTS {
        assert_eq!(push(&world.store, 0, reduce), Code::Ok);
    }
    assert_eq!(world.fs.writes(), before, "a push wrote data of others out");
    let freed = world.store.write_out_as_called(0);
    assert!(freed > 200_000, "{freed} bytes left memory");
    let used = world.store.load().memory_used;
    assert!(
        (MIB / 3..MIB * 2 / 3).contains(&used),
        "{used} bytes are in use"
    );
    assert_eq!(
        world.store.write_out_as_called(0),
        0,
        "it was not called again"
    );
    assert_eq!(
        world.store.write_out_as_called(1),
        0,
        "executors have no data here"
    );
    world.commit_all();
}

#[test]
fn while_one_disk_hangs_the_threads_of_the_others_free_memory() {
    let world = World::with(2, MIB).registered();
    world.fs.hold_writes_below(Path::new("/disk0"));
    thread::scope(|scope| {
        let store = &world.store;
        for reduce in 0..SEGMENTS {
            assert_eq!(push(store, 0, reduce), Code::Ok);
        }
        let start = |place| scope.spawn(move || store.write_out_when_called(place));
        // It comes first: else it might find that the others have freed enough.
        let mut threads = vec![start(0)];
        while world.fs.held_writes() == 0 {
            thread::yield_now();
        }
        threads.extend((1..=store.disk_count()).map(start));
        while world.data_bytes("/disk1") == 0 {
            thread::yield_now();
        }
        world.fs.release_writes();
        store.end_writing();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    assert!(world.data_bytes("/disk0") > 0);
    for reduce in 0..SEGMENTS {
        assert_eq!(push(&world.store, 0, reduce), Code::Duplicate);
    }
}

#[test]
fn a_push_that_takes_too_long_ends_and_its_repetition_goes_on_behind_it() {
    let clock = SlowClock {
        look_ms: 50,
        ..SlowClock::default()
    };
    let environment = Environment {
        fs: Arc::new(FakeFs::with_dirs([DISK])),
        clock: Arc::new(clock),
        random: Arc::new(SeededRandom::new(1)),
        ..Environment::os()
    };
    let config = StoreConfig::of(vec![PathBuf::from(DISK)], LITTLE_MEMORY);
    let store = Store::open(config, environment).unwrap();
    store.register_shuffle(&key(), spec()).unwrap();
    let blocks: Vec<_> = (0..100).map(|reduce| payload(0, reduce, SEGMENT)).collect();
    let headers: Vec<_> = (0..100)
        .map(|reduce| header(reduce, &blocks[reduce as usize]))
        .collect();
    let body = blocks.concat();
    let batch = batch(0, 1000, &headers, &body);
    let mut taken = 0;
    let mut pushes = 0;
    while taken < 100 {
        pushes += 1;
        let codes = store.push_batch(&key(), &batch).unwrap();
        let count = |code| codes.iter().filter(|one| **one == code).count();
        assert_eq!(count(Code::Duplicate), taken);
        assert!(count(Code::Ok) > 0, "a push took nothing");
        taken += count(Code::Ok);
        assert_eq!(count(Code::Overloaded), 100 - taken);
    }
    assert!((3..=100).contains(&pushes), "{pushes} pushes");
    let all = headers.iter().map(|header| ledger_of(0, 1000, header));
    let ledger = all.fold(Ledger::default(), Ledger::and);
    store
        .commit_map(&key(), MapIndex(0), MapId(1000), ledger)
        .unwrap();
}

/// Ends the threads that write out, also if an assertion fails before.
struct End<'a>(&'a World);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fs.release_writes();
        self.0.store.end_writing();
    }
}

/// Runs `check` while the threads that write out drain the store.
fn while_it_drains(world: &World, check: impl FnOnce(&Store)) {
    thread::scope(|scope| {
        let _end = End(world);
        let store: &Store = &world.store;
        store.begin_writing();
        for place in 0..=store.disk_count() {
            scope.spawn(move || store.write_out_when_called(place));
        }
        store.drain();
        check(store);
    });
}

/// Each push calls it again. Without a rest it would look through all partitions, and write to the
/// log, as fast as the processor can.
#[test]
fn a_thread_that_can_free_nothing_rests_however_often_pushes_call_it() {
    const REST: Duration = Duration::from_millis(100);
    const PARTITIONS: u32 = 4;
    /// Each partition in a write of several, and alone.
    const TRIES_OF_A_PASS: u64 = 2 * PARTITIONS as u64;
    let world = World::with(1, MIB).registered();
    for segment in 0..SEGMENTS {
        let code = push(&world.store, segment / PARTITIONS, segment % PARTITIONS);
        assert_eq!(code, Code::Ok);
    }
    let before = world.fs.writes();
    // No descriptor is left. The disk is not at fault, and is tried again.
    for nth in 0..100 * TRIES_OF_A_PASS {
        world.fs.fault_at(nth, Fault::Torn(0, Errno::MFILE));
    }
    let bytes = payload(0, 0, SEGMENT);
    let headers = [header(0, &bytes)];
    let repeated = batch(0, 1000, &headers, &bytes);
    let began = Instant::now();
    let again_until = |reached: &dyn Fn() -> bool| {
        while !reached() {
            let codes = world.store.push_batch(&key(), &repeated).unwrap();
            assert_eq!(codes, [Code::Duplicate]);
            assert!(began.elapsed() < Duration::from_secs(60), "it never tries");
        }
    };
    thread::scope(|scope| {
        let _end = End(&world);
        scope.spawn(|| world.store.write_out_when_called(0));
        again_until(&|| world.fs.writes() >= before + 4 * TRIES_OF_A_PASS);
        let took = began.elapsed();
        assert!(took >= 3 * REST, "four passes took only {took:?}");
        world.fs.forget_faults();
        again_until(&|| world.store.load().memory_used < MIB * 2 / 3);
    });
}

/// Calls the threads that write out until this is so.
fn write_until(world: &World, reached: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if reached() {
            return;
        }
        world.store.call_to_write_out();
        world.store.wait_until_written(Duration::from_millis(10));
    }
    panic!("{} bytes are left", world.store.unwritten_bytes());
}

/// The partition that is being written to the disk that hangs keeps its data. After a while the
/// rest of the data of that disk goes to the other one.
#[test]
fn while_one_disk_hangs_a_drain_writes_out_the_data_of_the_others() {
    const PARTITIONS: u32 = 8;
    const EACH: u64 = 6;
    let world = World::with(2, MIB).remote();
    let mut attempt = world.attempt(0, 1000);
    for reduce in 0..PARTITIONS {
        attempt.push(&[(reduce, b"remote")]);
    }
    attempt.commit().unwrap();
    let left = || world.store.unwritten_bytes();
    world.fs.hold_writes_below(Path::new("/disk0"));
    while_it_drains(&world, |store| {
        let half = EACH * u64::from(PARTITIONS / 2);
        write_until(&world, || world.fs.held_writes() == 1 && left() == half);
        assert!(!store.wait_until_written(Duration::ZERO));
        world.clock.advance_ms(10_000);
        write_until(&world, || left() == EACH);
        assert_eq!(store.held_data().unwritten_bytes, EACH);
        assert_eq!(store.held_data().bytes, EACH * u64::from(PARTITIONS));
        world.fs.release_writes();
        write_until(&world, || left() == 0);
    });
    for reduce in 0..PARTITIONS {
        assert_eq!(world.fetch(reduce), b"remote");
    }
}

/// More than a step, which nobody can write now.
#[test]
fn a_large_partition_on_a_disk_that_hangs_does_not_keep_the_others_in_memory() {
    let world = World::with(2, 256 * MIB).remote();
    let block = vec![7; MIB as usize];
    let mut attempt = world.attempt(0, 1000);
    let large = (STEP_BYTES / MIB) as u32 + 1;
    for _ in 0..large {
        attempt.push(&[(0, &block)]);
    }
    for reduce in 1..8 {
        attempt.push(&[(reduce, b"remote")]);
    }
    world.fs.hold_writes_below(Path::new("/disk0"));
    while_it_drains(&world, |store| {
        write_until(&world, || world.fs.held_writes() == 1);
        world.clock.advance_ms(10_000);
        write_until(&world, || store.unwritten_bytes() == u64::from(large) * MIB);
    });
}

/// The threads that look at disks do that, each at its own.
#[test]
fn a_thread_that_writes_out_does_not_probe_another_disk_that_may_hang() {
    let world = World::with(2, MIB).remote();
    let mut attempt = world.attempt(0, 1000);
    world.fs.break_dir(Path::new("/disk0"), Errno::IO);
    let large = payload(0, 0, 2 * MIB as usize);
    assert_eq!(attempt.push(&[(0, &large)]), [Code::Ok], "on the other one");
    for reduce in 0..8 {
        attempt.push(&[(reduce, b"remote")]);
    }
    world.fs.mend(Path::new("/disk0"));
    world.fs.hold_writes_below(Path::new("/disk0"));
    world.clock.advance_ms(5_000);
    while_it_drains(&world, |store| {
        write_until(&world, || store.unwritten_bytes() == 0);
        assert_eq!(world.fs.held_writes(), 0);
    });
    attempt.commit().unwrap();
    assert_eq!(world.fetch(0), [large.as_slice(), b"remote"].concat());
}
