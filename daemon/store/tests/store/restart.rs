// SPDX-License-Identifier: Apache-2.0
//! What the next daemon knows: executors register once, and their blocks must be found after the
//! daemon was restarted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_model::*;
use lodestone_store::fs::fake::{Errno, FakeFs, Fault};
use lodestone_store::*;

use crate::world::*;

/// A disk of executors, and one of the daemon.
fn disk() -> FakeFs {
    FakeFs::with_dirs([DISK, "/local"])
}

/// Opens a store on that disk. The one before must have ended.
fn start(fs: &FakeFs, seed: u64) -> Arc<Store> {
    start_with(fs, seed, MIB, &[])
}

fn start_below(fs: &FakeFs, seed: u64, roots: &[&str]) -> Arc<Store> {
    start_with(fs, seed, MIB, roots)
}

fn start_with(fs: &FakeFs, seed: u64, memory_bytes: u64, roots: &[&str]) -> Arc<Store> {
    let environment = Environment {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::default()),
        random: Arc::new(SeededRandom::new(seed)),
        ..Environment::os()
    };
    let config = StoreConfig {
        dirs: vec![DISK.into()],
        memory_bytes,
        quota_percent: 75,
        tail_part_bytes: TAIL_PART_BYTES,
        hanging_bytes: u64::MAX,
        reserve: Reserve::Bytes(0),
        executor_roots: roots.iter().map(PathBuf::from).collect(),
    };
    Store::open(config, environment).unwrap()
}

/// An executor registers, with a directory of its own.
fn register(fs: &FakeFs, store: &Store, exec: &str) {
    register_at(fs, store, exec, &dir_of(exec));
}

fn register_at(fs: &FakeFs, store: &Store, exec: &str, dir: &str) {
    fs.add_dir(Path::new(dir));
    let info = ExecutorInfo {
        local_dirs: vec![dir.into()],
        sub_dirs: 64,
        merge_dir: None,
    };
    store
        .register_executor(&app(), exec, AppAttempt::NONE, info)
        .unwrap();
}

fn dir_of(exec: &str) -> String {
    format!("/local/blockmgr-{exec}")
}

fn knows(store: &Store, exec: &str) -> bool {
    store
        .local_dirs(&app(), exec)
        .is_ok_and(|dirs| dirs == [dir_of(exec)])
}

fn written(fs: &FakeFs) -> Vec<PathBuf> {
    let mut files = fs.below(Path::new(DISK));
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("executors-")
    });
    files
}

#[test]
fn executors_are_known_after_a_crash_and_after_another_one() {
    let fs = disk();
    let first = start(&fs, 1);
    ["1", "2"]
        .iter()
        .for_each(|exec| register(&fs, &first, exec));
    fs.crash();
    let second = start(&fs, 2);
    register(&fs, &second, "3");
    fs.crash();
    let third = start(&fs, 3);
    assert!(["1", "2", "3"].iter().all(|exec| knows(&third, exec)));
    assert_eq!(written(&fs).len(), 1, "only the last start's file is left");
}

#[test]
fn executors_are_known_after_a_clean_end_and_nothing_else_is_left() {
    let fs = disk();
    let first = start(&fs, 1);
    register(&fs, &first, "1");
    first.register_shuffle(&key(), spec()).unwrap();
    let bytes = payload(0, 0, LARGE_BYTES);
    let header = header(0, &bytes);
    first
        .push_batch(&key(), &batch(0, 1, &[header], &bytes))
        .unwrap();
    first.close();
    let left = fs.below(Path::new(DISK));
    let is_data = |path: &PathBuf| path.extension().is_some_and(|e| e == "data");
    assert!(!left.iter().any(is_data), "{left:?}");
    let second = start(&fs, 2);
    assert!(knows(&second, "1"));
    let layout = second.layout(&key(), MapRange::ALL, ReduceId(0));
    assert_eq!(layout.unwrap_err().code, Code::UnknownShuffle);
}

#[test]
fn executors_whose_directories_are_gone_are_forgotten_with_their_files() {
    let fs = disk();
    let first = start(&fs, 1);
    register(&fs, &first, "1");
    fs.crash();
    fs.wipe(Path::new("/local"));
    let second = start(&fs, 2);
    assert!(!knows(&second, "1"));
    assert_eq!(written(&fs), [] as [PathBuf; 0]);
    second.close();
    assert_eq!(fs.below(Path::new(DISK)), [] as [PathBuf; 0]);
}

#[test]
fn executors_outside_of_the_allowed_directories_are_not_taken_over() {
    let fs = disk();
    fs.add_dir(Path::new("/other"));
    let first = start(&fs, 1);
    register(&fs, &first, "1");
    register_at(&fs, &first, "2", "/other/blockmgr-2");
    fs.crash();
    let second = start_below(&fs, 2, &["/local"]);
    assert!(knows(&second, "1"));
    assert!(second.local_dirs(&app(), "2").is_err());
}

#[test]
fn the_last_registration_counts() {
    let fs = disk();
    let first = start(&fs, 1);
    register_at(&fs, &first, "1", "/local/before");
    register(&fs, &first, "1");
    fs.crash();
    assert!(knows(&start(&fs, 2), "1"));
}

#[test]
fn a_write_that_was_torn_costs_no_other_executor() {
    for torn_at in [0, 1, 50] {
        let fs = disk();
        let first = start(&fs, 1);
        register(&fs, &first, "1");
        fs.fault_at(0, Fault::Torn(torn_at, Errno::IO));
        register(&fs, &first, "2");
        assert!(knows(&first, "2"), "it is only not written down");
        fs.crash();
        let second = start(&fs, 2);
        assert!(knows(&second, "1"), "torn after {torn_at} bytes");
        assert!(!knows(&second, "2"));
    }
}

#[test]
fn the_next_registration_records_what_a_full_disk_refused() {
    let fs = disk();
    let first = start(&fs, 1);
    register(&fs, &first, "1");
    fs.break_dir(Path::new(DISK), Errno::NOSPC);
    register(&fs, &first, "2");
    register(&fs, &first, "3");
    fs.mend(Path::new(DISK));
    register(&fs, &first, "4");
    assert_eq!(written(&fs).len(), 1);
    fs.crash();
    let second = start(&fs, 2);
    assert!(["1", "2", "3", "4"].iter().all(|exec| knows(&second, exec)));
}

#[test]
fn registrations_that_cannot_be_rewritten_stay_in_the_old_file() {
    let fs = disk();
    let first = start(&fs, 1);
    register(&fs, &first, "1");
    fs.crash();
    // The lock's marker is the first write of a daemon, the registrations are the second.
    fs.fault_at(1, Fault::Torn(3, Errno::NOSPC));
    assert!(knows(&start(&fs, 2), "1"));
    fs.crash();
    assert!(knows(&start(&fs, 3), "1"));
}

#[test]
fn a_failed_rewrite_does_not_replace_later_registrations() {
    let fs = disk();
    let first = start(&fs, 1);
    register_at(&fs, &first, "1", "/local/before");
    fs.crash();
    fs.fault_at(1, Fault::Torn(3, Errno::NOSPC));
    let second = start(&fs, 2);
    register(&fs, &second, "1");
    fs.crash();
    assert!(knows(&start(&fs, 3), "1"));
}

#[test]
fn an_executor_that_registers_again_and_again_does_not_fill_the_disk() {
    let fs = disk();
    let store = start(&fs, 1);
    let writes = fs.writes();
    (0..100).for_each(|_| register(&fs, &store, "1"));
    assert_eq!(fs.writes() - writes, 1, "the same is written once");
    for turn in 0..20_000 {
        register_at(&fs, &store, "1", &format!("/local/{}", turn % 2));
    }
    register(&fs, &store, "1");
    let (file,) = (written(&fs).pop().unwrap(),);
    assert!(fs.content(&file).unwrap().len() < 2 * MIB as usize);
    fs.crash();
    assert!(knows(&start(&fs, 2), "1"));
}

/// An executor with so many names of one directory that a store with little memory has no room.
fn register_large(fs: &FakeFs, store: &Store, exec: &str) {
    let dir = format!("/local/{}", exec.repeat(4_000));
    fs.add_dir(Path::new(&dir));
    let info = ExecutorInfo {
        local_dirs: vec![dir; 100],
        sub_dirs: 64,
        merge_dir: None,
    };
    store
        .register_executor(&app(), exec, AppAttempt::NONE, info)
        .unwrap();
}

fn start_large(fs: &FakeFs, seed: u64) -> Arc<Store> {
    start_with(fs, seed, 256 * MIB, &[])
}

fn are_known(store: &Store, execs: &[&str]) -> bool {
    execs
        .iter()
        .all(|exec| store.local_dirs(&app(), exec).is_ok())
}

/// Ends a store as a crash does, or a stop, or a stop with a remote shuffle.
const ENDS: [fn(&FakeFs, &Store); 3] = [
    |fs, _| fs.crash(),
    |_, store| store.close(),
    |_, store| {
        let remote = ShuffleSpec {
            mode: Mode::Remote,
            ..spec()
        };
        store.register_shuffle(&key(), remote).unwrap();
        store.hand_over();
    },
];

#[test]
fn executors_without_room_stay_written_down_until_a_start_with_more_memory() {
    for end in ENDS {
        let fs = disk();
        let first = start_large(&fs, 1);
        register_large(&fs, &first, "a");
        register_large(&fs, &first, "b");
        end(&fs, &first);
        for seed in [2, 3] {
            let small = start(&fs, seed);
            assert!(!are_known(&small, &["a"]) && !are_known(&small, &["b"]));
            assert_eq!(small.held_data().executors, 2, "a stop would lose them");
            end(&fs, &small);
        }
        let small = start(&fs, 4);
        // The registration after a failed one writes the whole file again.
        register(&fs, &small, "1");
        fs.break_dir(Path::new(DISK), Errno::NOSPC);
        register(&fs, &small, "2");
        fs.mend(Path::new(DISK));
        register(&fs, &small, "3");
        assert_eq!(written(&fs).len(), 2, "old files are removed");
        assert_eq!(small.held_data().executors, 5);
        fs.wipe(Path::new(&format!("/local/{}", "b".repeat(4_000))));
        assert_eq!(small.held_data().executors, 4, "another is gone");
        end(&fs, &small);
        let last = start_large(&fs, 5);
        assert!(are_known(&last, &["a", "1", "2", "3"]));
        last.close();
    }
}

#[test]
fn executors_without_room_stay_in_the_old_file_if_the_disk_is_full() {
    for end in ENDS {
        let fs = disk();
        let first = start_large(&fs, 1);
        register_large(&fs, &first, "a");
        end(&fs, &first);
        // The first write of a new daemon is its marker. One that goes on has none to write.
        let goes_on = fs
            .below(Path::new(DISK))
            .iter()
            .any(|path| path.ends_with("handover"));
        let nth = u64::from(!goes_on);
        fs.fault_at(nth, Fault::Torn(3, Errno::NOSPC));
        let small = start(&fs, 2);
        register(&fs, &small, "1");
        assert!(are_known(&small, &["1"]));
        end(&fs, &small);
        assert!(are_known(&start_large(&fs, 3), &["a", "1"]));
    }
}

#[test]
fn an_executor_registers_below_its_root_while_the_disk_of_another_root_hangs() {
    let fs = FakeFs::with_dirs([DISK, "/bad", "/well/blockmgr-1"]);
    let store = start_below(&fs, 1, &["/bad", "/well"]);
    fs.hold_calls_below(Path::new("/bad"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let known = Arc::clone(&store);
    std::thread::spawn(move || {
        let info = ExecutorInfo {
            local_dirs: vec!["/well/blockmgr-1".into()],
            sub_dirs: 64,
            merge_dir: None,
        };
        let registered = known.register_executor(&app(), "1", AppAttempt::NONE, info);
        // The test may have failed by now.
        let _ = sender.send(registered);
    });
    let registered = receiver.recv_timeout(std::time::Duration::from_secs(20));
    fs.release_writes();
    registered.unwrap().unwrap();
}
