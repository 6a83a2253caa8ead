// SPDX-License-Identifier: Apache-2.0
//! A daemon with several directories knows the executors of the one before, whichever disk fails.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::*;
use lodestone_store::fs::fake::{Errno, FakeFs, Fault};
use lodestone_store::*;

use crate::stalled::{LONGEST, Mended, STALL_MS, await_held};
use crate::world::*;

const FIRST: &str = "/disk0";
const SECOND: &str = "/disk1";
const THIRD: &str = "/disk2";

/// A disk that failed is tried again after this time.
const RETRY_MS: u64 = 5_000;

/// How long a registration waits for disks.
const WAIT: Duration = Duration::from_secs(3);

/// Spark repeats a registration after this time.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The first write to each disk of a new daemon is its marker.
const MARKERS: u64 = 2;

/// Two disks of the daemon, and one of executors.
fn disks() -> FakeFs {
    FakeFs::with_dirs([FIRST, SECOND, "/local"])
}

/// Starts a daemon on both. The one before must have ended.
fn start(fs: &FakeFs, seed: u64) -> World {
    start_on(fs, seed, &[FIRST, SECOND])
}

fn start_on(fs: &FakeFs, seed: u64, dirs: &[&str]) -> World {
    let dirs = dirs.iter().map(PathBuf::from).collect();
    World::on(fs.clone(), dirs, LITTLE_MEMORY, seed)
}

fn start_large(fs: &FakeFs, seed: u64) -> World {
    World::on(
        fs.clone(),
        vec![FIRST.into(), SECOND.into()],
        256 * MIB,
        seed,
    )
}

fn info(dir: &str, times: usize) -> ExecutorInfo {
    ExecutorInfo {
        local_dirs: vec![dir.into(); times],
        sub_dirs: 64,
        merge_dir: None,
    }
}

fn register(world: &World, exec: &str) {
    register_at(world, exec, &dir_of(exec));
}

fn register_at(world: &World, exec: &str, dir: &str) {
    world.fs.add_dir(Path::new(dir));
    let store = &world.store;
    let registered = store.register_executor(&app(), exec, AppAttempt::NONE, info(dir, 1));
    registered.unwrap();
}

fn dir_of(exec: &str) -> String {
    format!("/local/blockmgr-{exec}")
}

/// Does this while a disk hangs. It must end.
fn assert_ends(work: impl FnOnce() + Send + 'static) {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        work();
        // The test may have failed by now.
        let _ = sender.send(());
    });
    assert_eq!(ended.recv_timeout(LONGEST), Ok(()), "it waits for the disk");
}

fn register_in_time(world: &World, exec: &'static str) {
    world.fs.add_dir(Path::new(&dir_of(exec)));
    let store = Arc::clone(&world.store);
    assert_ends(move || {
        let info = info(&dir_of(exec), 1);
        let registered = store.register_executor(&app(), exec, AppAttempt::NONE, info);
        registered.unwrap();
    });
}

fn knows(world: &World, exec: &str) -> bool {
    let dirs = world.store.local_dirs(&app(), exec);
    dirs.is_ok_and(|dirs| dirs == [dir_of(exec)])
}

fn knows_all(world: &World, execs: &[&str]) -> bool {
    execs.iter().all(|exec| knows(world, exec))
}

/// The files of registrations on a disk.
fn written(fs: &FakeFs, dir: &str) -> Vec<PathBuf> {
    let mut files = fs.below(Path::new(dir));
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("executors-")
    });
    files
}

/// The directory of the daemon on a disk.
fn root_on(fs: &FakeFs, dir: &str) -> PathBuf {
    fs.below(Path::new(dir)).swap_remove(0)
}

/// Everything on a disk, to be put there again.
fn saved(fs: &FakeFs, dir: &str) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let paths = fs.below(Path::new(dir)).into_iter();
    paths
        .map(|path| (path.clone(), fs.content(&path)))
        .collect()
}

fn put_back(fs: &FakeFs, saved: Vec<(PathBuf, Option<Vec<u8>>)>) {
    for (path, content) in saved {
        match content {
            Some(content) => fs.add_file(&path, &content),
            None => fs.add_dir(&path),
        }
    }
}

/// Replaces the disk by an empty one.
fn replace_disk(fs: &FakeFs, dir: &str) {
    fs.mend(Path::new(dir));
    fs.wipe(Path::new(dir));
    fs.add_dir(Path::new(dir));
}

/// Ends a daemon as a crash does, or a stop, or a stop with a remote shuffle, whose directories the
/// next one takes over.
const ENDS: [fn(&World); 3] = [
    |world| world.fs.crash(),
    |world| world.store.close(),
    |world| {
        let remote = ShuffleSpec {
            mode: Mode::Remote,
            ..spec()
        };
        world.store.register_shuffle(&key(), remote).unwrap();
        world.store.hand_over();
    },
];

#[test]
fn a_restart_knows_all_executors_when_one_disk_is_lost_without_a_sign() {
    for end in ENDS {
        for lost in [FIRST, SECOND] {
            let fs = disks();
            let first = start(&fs, 1);
            register(&first, "1");
            end(&first);
            replace_disk(&fs, lost);
            let second = start(&fs, 2);
            assert!(knows(&second, "1"), "{lost} is lost");
        }
    }
}

#[test]
fn a_restart_knows_all_executors_after_one_disk_failed_at_a_registration() {
    for failed in [FIRST, SECOND] {
        for is_replaced in [false, true] {
            let fs = disks();
            let first = start(&fs, 1);
            register(&first, "1");
            fs.break_dir(Path::new(failed), Errno::IO);
            register(&first, "2");
            register(&first, "3");
            fs.crash();
            fs.mend(Path::new(failed));
            if is_replaced {
                replace_disk(&fs, failed);
            }
            let second = start(&fs, 2);
            assert!(knows_all(&second, &["1", "2", "3"]), "{failed}");
            for disk in [FIRST, SECOND] {
                assert_eq!(written(&fs, disk).len(), 1, "old files are removed");
            }
        }
    }
}

#[test]
fn a_disk_that_is_back_gets_the_registrations_that_it_lacks_though_none_follows() {
    let fs = disks();
    let first = start(&fs, 1);
    register(&first, "1");
    fs.break_dir(Path::new(FIRST), Errno::NOSPC);
    register(&first, "2");
    first.look_after();
    fs.mend(Path::new(FIRST));
    first.clock.advance_ms(RETRY_MS);
    first.look_after();
    assert_eq!(written(&fs, FIRST).len(), 1, "old files are removed");
    fs.crash();
    replace_disk(&fs, SECOND);
    assert!(knows_all(&start(&fs, 2), &["1", "2"]));
}

#[test]
fn executors_that_registered_without_a_descriptor_are_written_down_as_soon_as_there_is_one() {
    let fs = disks();
    let first = start(&fs, 1);
    for disk in [FIRST, SECOND] {
        fs.break_dir(Path::new(disk), Errno::MFILE);
    }
    register(&first, "1");
    first.look_after();
    for disk in [FIRST, SECOND] {
        fs.mend(Path::new(disk));
    }
    first.look_after();
    fs.crash();
    assert!(knows(&start(&fs, 2), "1"));
}

#[test]
fn a_daemon_without_executors_leaves_no_files() {
    let fs = disks();
    let world = start(&fs, 1);
    world.look_after();
    assert_eq!(written(&fs, "/"), [] as [PathBuf; 0]);
    world.store.close();
    assert_eq!(
        [FIRST, SECOND].map(|disk| fs.below(Path::new(disk)).len()),
        [0, 0]
    );
}

#[test]
fn the_last_registration_counts_when_a_disk_is_back_with_an_old_file() {
    for end in ENDS {
        let fs = disks();
        let first = start(&fs, 1);
        register_at(&first, "1", "/local/before");
        fs.break_dir(Path::new(FIRST), Errno::IO);
        register(&first, "1");
        end(&first);
        fs.mend(Path::new(FIRST));
        let second = start(&fs, 2);
        assert!(knows(&second, "1"), "its last registration counts");
    }
}

/// The number of the older file is the higher one, and so are the numbers of its registrations that
/// are no times.
#[test]
fn the_last_registration_counts_when_a_disk_is_back_two_daemons_later() {
    let fs = disks();
    let first = start(&fs, 1);
    (0..50).for_each(|n| register_at(&first, "2", &format!("/local/{n}")));
    fs.crash();
    let second = start(&fs, 2);
    register_at(&second, "1", "/local/before");
    let old = saved(&fs, FIRST);
    fs.crash();
    replace_disk(&fs, FIRST);
    replace_disk(&fs, SECOND);
    let third = start_on(&fs, 3, &[SECOND]);
    third.clock.advance_ms(60_000);
    register(&third, "1");
    fs.crash();
    put_back(&fs, old);
    let fourth = start(&fs, 4);
    assert!(knows(&fourth, "1"));
    assert!(fourth.store.local_dirs(&app(), "2").is_ok());
}

/// It knew an old registration only, and wrote it into the newest file.
#[test]
fn the_last_registration_counts_after_a_daemon_that_could_not_read_it() {
    let fs = disks();
    let first = start(&fs, 1);
    register_at(&first, "1", "/local/before");
    fs.break_dir(Path::new(FIRST), Errno::IO);
    register(&first, "1");
    fs.crash();
    fs.mend(Path::new(FIRST));
    let last = saved(&fs, SECOND);
    replace_disk(&fs, SECOND);
    let second = start_on(&fs, 2, &[FIRST]);
    second.clock.advance_ms(60_000);
    register(&second, "2");
    fs.crash();
    put_back(&fs, last);
    assert!(knows_all(&start(&fs, 3), &["1", "2"]));
}

#[test]
fn a_file_that_could_not_be_read_stays_for_the_next_daemon() {
    let fs = FakeFs::with_dirs([FIRST, "/local"]);
    let first = start_on(&fs, 1, &[FIRST]);
    register(&first, "1");
    ENDS[2](&first);
    let unreadable = written(&fs, FIRST).swap_remove(0);
    fs.break_reads(&unreadable, Errno::IO);
    let second = start_on(&fs, 2, &[FIRST]);
    assert!(!knows(&second, "1"));
    register(&second, "2");
    fs.crash();
    fs.mend(&unreadable);
    assert!(knows_all(&start_on(&fs, 3, &[FIRST]), &["1", "2"]));
}

#[test]
fn a_file_that_cannot_be_read_keeps_only_its_own_directory() {
    let fs = disks();
    let first = start(&fs, 1);
    register(&first, "1");
    fs.crash();
    let unreadable = written(&fs, FIRST).swap_remove(0);
    fs.break_reads(&unreadable, Errno::IO);
    for seed in 2..5 {
        let next = start(&fs, seed);
        assert!(knows(&next, "1"));
        assert!(fs.content(&unreadable).is_some());
        assert_eq!(written(&fs, FIRST).len(), 2);
        assert_eq!(written(&fs, SECOND).len(), 1, "old files are removed");
        fs.crash();
    }
    fs.mend(&unreadable);
    start(&fs, 5);
    assert_eq!(written(&fs, FIRST).len(), 1);
}

#[test]
fn an_old_file_beside_its_successor_changes_nothing() {
    let fs = disks();
    let first = start(&fs, 1);
    register_at(&first, "1", "/local/before");
    let old = saved(&fs, FIRST);
    [FIRST, SECOND]
        .iter()
        .for_each(|disk| fs.break_dir(Path::new(disk), Errno::IO));
    register_at(&first, "1", "/local/lost");
    [FIRST, SECOND]
        .iter()
        .for_each(|disk| fs.mend(Path::new(disk)));
    // To a new file.
    register(&first, "1");
    fs.crash();
    assert_eq!(written(&fs, FIRST).len(), 1);
    put_back(&fs, old);
    assert_eq!(written(&fs, FIRST).len(), 2);
    assert!(knows(&start(&fs, 2), "1"));
}

#[test]
fn a_cut_file_costs_no_executor_that_another_disk_has_and_only_those_behind_the_cut_otherwise() {
    for is_alone in [false, true] {
        let fs = disks();
        let first = start(&fs, 1);
        register(&first, "1");
        let file = written(&fs, FIRST).swap_remove(0);
        let whole = fs.content(&file).unwrap();
        register(&first, "2");
        fs.crash();
        for cut in [0, 1, whole.len() / 2, whole.len(), whole.len() + 20] {
            let fs = FakeFs::with_dirs([FIRST, SECOND, "/local"]);
            put_back(&fs, saved(&first.fs, "/"));
            let content = fs.content(&file).unwrap();
            fs.add_file(&file, &content[..cut]);
            if is_alone {
                replace_disk(&fs, SECOND);
            }
            let next = start(&fs, 2);
            assert_eq!(knows(&next, "1"), !is_alone || cut >= whole.len());
            assert_eq!(knows(&next, "2"), !is_alone);
        }
    }
}

/// Theirs have no serials, and are on the first disk only.
#[test]
fn files_of_older_versions_are_read() {
    let fs = disks();
    let first = start(&fs, 1);
    register_at(&first, "1", "/local/before");
    register(&first, "2");
    register(&first, "1");
    fs.crash();
    let file = written(&fs, FIRST).swap_remove(0);
    let content = String::from_utf8(fs.content(&file).unwrap()).unwrap();
    let old: Vec<_> = content
        .lines()
        .map(|line| format!("{{{}\n", line.split_once(',').unwrap().1))
        .collect();
    assert!(content.contains("serial") && !old.concat().contains("serial"));
    fs.add_file(&file, old.concat().as_bytes());
    // A higher number, and one that is no text in order.
    let newer = file.with_file_name("executors-10");
    fs.add_file(&newer, old[1].as_bytes());
    replace_disk(&fs, SECOND);
    let second = start(&fs, 2);
    assert!(knows_all(&second, &["1", "2"]));
    register_at(&second, "2", "/local/after");
    fs.crash();
    replace_disk(&fs, FIRST);
    let third = start(&fs, 3);
    assert_eq!(
        third.store.local_dirs(&app(), "2").unwrap(),
        ["/local/after"]
    );
    assert!(knows(&third, "1"));
}

#[test]
fn a_line_that_is_torn_on_one_disk_is_on_the_other() {
    for torn_at in [0, 1, 50] {
        for nth in [0, 1] {
            let fs = disks();
            let first = start(&fs, 1);
            register(&first, "1");
            fs.fault_at(nth, Fault::Torn(torn_at, Errno::IO));
            register(&first, "2");
            fs.crash();
            let second = start(&fs, 2);
            assert!(knows_all(&second, &["1", "2"]), "torn after {torn_at}");
        }
    }
}

#[test]
fn lines_that_are_torn_on_all_disks_cost_no_other_executor() {
    for end in ENDS {
        let fs = disks();
        let first = start(&fs, 1);
        register(&first, "1");
        (0..2).for_each(|nth| fs.fault_at(nth, Fault::Torn(20, Errno::IO)));
        register(&first, "2");
        assert!(knows(&first, "2"), "it is only not written down");
        end(&first);
        assert!(knows(&start(&fs, 2), "1"));
    }
}

/// Its writes make no progress, but that says nothing of the next one.
#[test]
fn an_executor_is_written_down_while_other_writes_to_the_only_disk_stand_still() {
    let fs = FakeFs::with_dirs([FIRST, "/local"]);
    let world = start_on(&fs, 1, &[FIRST]).registered();
    let data = root_on(&fs, FIRST).join("app-1-s7-m0-0");
    fs.hold_writes_below(&data);
    thread::scope(|scope| {
        let _mended = Mended(&world);
        scope.spawn(|| world.push(0, 0, &payload(0, 0, LARGE_BYTES)));
        await_held(&world, 1);
        world.clock.advance_ms(STALL_MS);
        assert_eq!(world.store.load().state, State::DiskFailed);
        register(&world, "1");
    });
    fs.crash();
    assert!(knows(&start_on(&fs, 2, &[FIRST]), "1"));
}

#[test]
fn executors_register_and_are_written_down_while_one_of_two_disks_hangs() {
    let fs = disks();
    let world = start(&fs, 1);
    register(&world, "1");
    fs.hold_calls_below(Path::new(FIRST));
    {
        let _mended = Mended(&world);
        ["2", "3"]
            .iter()
            .for_each(|exec| register_in_time(&world, exec));
    }
    fs.crash();
    replace_disk(&fs, FIRST);
    assert!(knows_all(&start(&fs, 2), &["1", "2", "3"]));
}

#[test]
fn a_disk_that_is_gone_is_not_asked_at_each_registration() {
    let fs = disks();
    let world = start(&fs, 1);
    fs.break_dir(Path::new(FIRST), Errno::IO);
    register(&world, "0");
    fs.mend(Path::new(FIRST));
    (1..10).for_each(|n| register(&world, &n.to_string()));
    assert_eq!(written(&fs, FIRST), [] as [PathBuf; 0]);
    world.clock.advance_ms(RETRY_MS);
    register(&world, "10");
    fs.crash();
    replace_disk(&fs, SECOND);
    let next = start(&fs, 2);
    assert!((0..=10).all(|n| knows(&next, &n.to_string())));
}

/// An old file is removed together with the next write, which may hang with its disk.
#[test]
fn an_executor_registers_while_a_disk_hangs_on_which_an_old_file_is_to_be_removed() {
    let fs = disks();
    let world = start(&fs, 1).registered();
    register(&world, "1");
    fs.break_dir(Path::new(FIRST), Errno::IO);
    register(&world, "2");
    fs.mend(Path::new(FIRST));
    world.clock.advance_ms(RETRY_MS);
    // The disk is known to be well again.
    (0..2).for_each(|reduce| {
        world.push(0, reduce, &payload(0, reduce, LARGE_BYTES));
    });
    fs.hold_calls_below(Path::new(FIRST));
    {
        let _mended = Mended(&world);
        register_in_time(&world, "3");
    }
    fs.crash();
    replace_disk(&fs, FIRST);
    assert!(knows_all(&start(&fs, 2), &["1", "2", "3"]));
}

#[test]
fn a_look_at_a_disk_asks_no_other_disk() {
    let fs = FakeFs::with_dirs([FIRST, SECOND, THIRD, "/local"]);
    let world = start_on(&fs, 1, &[FIRST, SECOND, THIRD]);
    let failed = [SECOND, THIRD].map(Path::new);
    failed.iter().for_each(|dir| fs.break_dir(dir, Errno::IO));
    register(&world, "1");
    failed.iter().for_each(|dir| fs.mend(dir));
    world.clock.advance_ms(RETRY_MS);
    fs.hold_calls_below(Path::new(SECOND));
    let _mended = Mended(&world);
    let store = Arc::clone(&world.store);
    assert_ends(move || store.look_after(2));
    assert_eq!(
        written(&fs, THIRD).len(),
        1,
        "the look writes what it lacks"
    );
}

#[test]
fn a_registration_begins_on_all_disks_before_it_waits_for_one() {
    let dirs = ["/slow/0", "/slow/1", FIRST];
    let fs = FakeFs::with_dirs(dirs.into_iter().chain(["/local"]));
    let world = start_on(&fs, 1, &dirs);
    register(&world, "1");
    fs.hold_calls_below(Path::new("/slow"));
    thread::scope(|scope| {
        let _mended = Mended(&world);
        let began = Instant::now();
        let registers = scope.spawn(|| register(&world, "2"));
        await_held(&world, 2);
        assert!(began.elapsed() < WAIT, "one disk waits for the other");
        fs.release_writes();
        registers.join().unwrap();
    });
    fs.crash();
    replace_disk(&fs, FIRST);
    replace_disk(&fs, "/slow/0");
    assert!(knows_all(&start_on(&fs, 2, &dirs), &["1", "2"]));
}

#[test]
fn executors_register_and_the_daemon_stops_in_time_while_all_disks_but_one_hang() {
    let hanging = (0..8).map(|n| format!("/slow/{n}"));
    let dirs: Vec<_> = hanging.chain([FIRST.to_owned()]).collect();
    let dirs: Vec<_> = dirs.iter().map(String::as_str).collect();
    let fs = FakeFs::with_dirs(dirs.iter().copied().chain(["/local"]));
    let world = start_on(&fs, 1, &dirs);
    register(&world, "1");
    fs.hold_writes_below(Path::new("/slow"));
    {
        let _mended = Mended(&world);
        let began = Instant::now();
        register(&world, "2");
        assert!(began.elapsed() < REGISTRATION_TIMEOUT, "the waits add up");
        let began = Instant::now();
        register(&world, "3");
        assert!(began.elapsed() < WAIT, "it waits again");
        let began = Instant::now();
        world.store.hand_over();
        assert!(began.elapsed() < 2 * WAIT, "it waits more than once");
    }
    assert!(knows_all(&start_on(&fs, 2, &[FIRST]), &["1", "2", "3"]));
}

#[test]
fn a_request_or_a_look_that_is_late_at_the_end_removes_no_executor() {
    for end in [ENDS[1], ENDS[2]] {
        let fs = FakeFs::with_dirs([FIRST, "/local"]);
        let first = start_on(&fs, 1, &[FIRST]);
        register(&first, "1");
        fs.break_dir(Path::new(FIRST), Errno::NOSPC);
        register(&first, "2");
        fs.mend(Path::new(FIRST));
        end(&first);
        first.store.look_after_all();
        register(&first, "3");
        let second = start_on(&fs, 2, &[FIRST]);
        assert!(knows_all(&second, &["1", "2"]), "the end writes the rest");
    }
}

#[test]
fn a_stop_ends_while_a_disk_hangs_in_its_registrations() {
    let fs = disks();
    let world = start(&fs, 1);
    register(&world, "1");
    fs.hold_writes_below(Path::new(FIRST));
    {
        let _mended = Mended(&world);
        register_in_time(&world, "2");
        let store = Arc::clone(&world.store);
        assert_ends(move || store.close());
    }
    assert!(knows_all(&start(&fs, 2), &["1", "2"]));
}

#[test]
fn executors_without_room_stay_written_down_on_the_disk_that_works() {
    for end in ENDS {
        let fs = disks();
        let large_dir = format!("/local/{}", "a".repeat(4_000));
        fs.add_dir(Path::new(&large_dir));
        let first = start_large(&fs, 1);
        let large = info(&large_dir, 100);
        let registered = first
            .store
            .register_executor(&app(), "a", AppAttempt::NONE, large);
        registered.unwrap();
        end(&first);
        let goes_on = fs
            .below(Path::new("/"))
            .iter()
            .any(|path| path.ends_with("handover"));
        let nth = if goes_on { 0 } else { MARKERS };
        fs.fault_at(nth, Fault::Torn(3, Errno::IO));
        let small = start(&fs, 2);
        register(&small, "1");
        assert_eq!(small.store.held_data().executors, 2);
        end(&small);
        replace_disk(&fs, FIRST);
        let last = start_large(&fs, 3);
        assert!(last.store.local_dirs(&app(), "a").is_ok());
        assert!(knows(&last, "1"));
    }
}
