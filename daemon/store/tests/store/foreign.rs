// SPDX-License-Identifier: Apache-2.0
//! Directories of executors, in which their owner plants what he likes. On the real filesystem.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use lodestone_model::*;
use lodestone_store::*;
use tempfile::TempDir;

use crate::spark::removed;
use crate::world::{app, key, read};

/// A user that no file of the tests belongs to otherwise.
const STRANGER: u32 = 54_321;

struct Host {
    store: Arc<Store>,
    disk: TempDir,
    spark: TempDir,
}

impl Host {
    /// A daemon, and an executor with a block of each kind.
    fn new() -> Self {
        let (disk, spark) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(spark.path().join("blockmgr/00")).unwrap();
        fs::create_dir(spark.path().join("secret")).unwrap();
        fs::write(spark.path().join("secret/rdd_1_1"), "secret").unwrap();
        let store = open(disk.path());
        let info = ExecutorInfo {
            local_dirs: vec![path_text(&spark.path().join("blockmgr"))],
            sub_dirs: 1,
            merge_dir: Some("merge_manager".to_owned()),
        };
        store
            .register_executor(&app(), "1", AppAttempt::NONE, info)
            .unwrap();
        Self { store, disk, spark }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.spark.path().join(name)
    }

    /// Returns the bytes of the executor's persisted block, or an error.
    fn rdd(&self, split: i32) -> Result<u64, Refusal> {
        let block = self.store.rdd_block(&app(), "1", 1, split);
        block.map(|chunk| chunk.length())
    }
}

fn open(disk: &Path) -> Arc<Store> {
    let config = StoreConfig::of(vec![disk.to_path_buf()], 1 << 20);
    Store::open(config, Environment::os()).unwrap()
}

fn path_text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[test]
fn a_block_that_is_a_link_to_another_file_is_not_read() {
    let host = Host::new();
    let secret = host.at("secret/rdd_1_1");
    fs::write(host.at("blockmgr/00/rdd_1_0"), "a block").unwrap();
    symlink(&secret, host.at("blockmgr/00/rdd_1_1")).unwrap();
    fs::hard_link(&secret, host.at("blockmgr/00/rdd_1_2")).unwrap();
    assert_eq!(host.rdd(0).unwrap(), 7);
    assert!(host.rdd(1).is_err(), "by a symbolic link");
    assert!(host.rdd(2).is_err(), "by a second name");
}

#[test]
fn an_output_that_was_read_a_moment_ago_is_not_read_when_it_is_removed_or_another_has_its_name() {
    let host = Host::new();
    let data = host.at("blockmgr/00/shuffle_7_1_0.data");
    let offsets = [0_u64, 5].map(u64::to_be_bytes).concat();
    fs::write(host.at("blockmgr/00/shuffle_7_1_0.index"), offsets).unwrap();
    let block = || {
        let reduces = ReduceId(0)..ReduceId(1);
        let store = &host.store;
        let found = store.original_blocks(&app(), "1", ShuffleId(7), MapId(1), reduces);
        found
            .map(|found| read(&found))
            .map_err(|refusal| refusal.code)
    };
    fs::write(&data, "first").unwrap();
    assert_eq!(block().unwrap(), b"first");
    fs::remove_file(&data).unwrap();
    assert_eq!(block(), Err(Code::UnknownPartition));
    fs::write(&data, "again").unwrap();
    assert_eq!(block().unwrap(), b"again");
    let new = host.at("blockmgr/00/new");
    fs::write(&new, "third").unwrap();
    fs::rename(&new, &data).unwrap();
    assert_eq!(block().unwrap(), b"third");
    fs::hard_link(&data, &new).unwrap();
    assert_eq!(block(), Err(Code::DiskFailed), "it has a second name");
    fs::remove_file(&new).unwrap();
    assert_eq!(block().unwrap(), b"third");
}

#[test]
fn a_block_of_another_owner_is_not_read() {
    let host = Host::new();
    let block = host.at("blockmgr/00/rdd_1_0");
    fs::write(&block, "a block").unwrap();
    chown(&block, Some(STRANGER), None).expect("run this test as root");
    assert!(host.rdd(0).is_err());
    chown(host.at("blockmgr"), Some(STRANGER), None).unwrap();
    let other = Host::new();
    assert!(other.rdd(0).is_err(), "there is none");
    // The directory's owner counts when the directory is opened.
    host.store.close();
    let host = Host {
        store: open(host.disk.path()),
        ..host
    };
    let local_dirs = vec![path_text(&host.at("blockmgr"))];
    let info = ExecutorInfo {
        local_dirs,
        sub_dirs: 1,
        merge_dir: None,
    };
    let attempt = AppAttempt::NONE;
    host.store
        .register_executor(&app(), "1", attempt, info)
        .unwrap();
    assert_eq!(host.rdd(0).unwrap(), 7, "the owner of the directory");
}

#[test]
fn a_linked_subdirectory_lets_nobody_read_or_remove_files_elsewhere() {
    let host = Host::new();
    fs::remove_dir(host.at("blockmgr/00")).unwrap();
    symlink(host.at("secret"), host.at("blockmgr/00")).unwrap();
    assert!(host.rdd(1).is_err());
    let blocks = ["rdd_1_1".to_owned()];
    assert_eq!(removed(&host.store, &blocks), 0);
    assert!(host.at("secret/rdd_1_1").exists());
}

#[test]
fn a_directory_that_becomes_a_link_after_the_registration_is_not_followed() {
    let host = Host::new();
    fs::rename(host.at("blockmgr"), host.at("moved")).unwrap();
    fs::create_dir(host.at("elsewhere")).unwrap();
    fs::rename(host.at("secret"), host.at("elsewhere/00")).unwrap();
    symlink(host.at("elsewhere"), host.at("blockmgr")).unwrap();
    assert!(host.rdd(1).is_err());
}

#[test]
fn an_executor_that_registers_again_is_found_in_its_new_directory() {
    let host = Host::new();
    assert!(host.rdd(0).is_err(), "the directory is open now");
    fs::rename(host.at("blockmgr"), host.at("old")).unwrap();
    fs::create_dir_all(host.at("blockmgr/00")).unwrap();
    fs::write(host.at("blockmgr/00/rdd_1_0"), "a block").unwrap();
    let info = ExecutorInfo {
        local_dirs: vec![path_text(&host.at("blockmgr"))],
        sub_dirs: 1,
        merge_dir: None,
    };
    host.store
        .register_executor(&app(), "1", AppAttempt::NONE, info)
        .unwrap();
    assert_eq!(host.rdd(0).unwrap(), 7);
}

#[test]
fn a_pipe_in_place_of_a_file_does_not_stop_a_reader() {
    let (index, data, rdd) = ("shuffle_7_1_0.index", "shuffle_7_1_0.data", "rdd_1_0");
    for pipe in [None, Some(index), Some(data), Some(rdd)] {
        let host = Host::new();
        let folder = host.at("blockmgr/00");
        let offsets = [0_u64, 5].map(u64::to_be_bytes).concat();
        for (name, content) in [(index, &offsets[..]), (data, b"block"), (rdd, b"block")] {
            fs::write(folder.join(name), content).unwrap();
        }
        if let Some(pipe) = pipe {
            fs::remove_file(folder.join(pipe)).unwrap();
            make_pipe(&folder.join(pipe));
        }
        let (answer, answered) = mpsc::channel();
        let store = Arc::clone(&host.store);
        thread::spawn(move || {
            let reduces = ReduceId(0)..ReduceId(1);
            let original = store.original_blocks(&app(), "1", ShuffleId(7), MapId(1), reduces);
            answer.send([original.is_ok(), store.rdd_block(&app(), "1", 1, 0).is_ok()])
        });
        let are_read = [pipe.is_none_or(|pipe| pipe == rdd), pipe != Some(rdd)];
        let answered = answered.recv_timeout(Duration::from_secs(20));
        assert_eq!(answered, Ok(are_read), "{pipe:?}");
    }
}

#[test]
fn merged_files_are_made_in_the_merge_directory_only() {
    let host = Host::new();
    symlink(host.at("secret"), host.at("merge_manager")).unwrap();
    let body = Bytes::from_static(b"block");
    // Whatever it answers: the block is not merged, or waits in memory until the end of the stage.
    let _ = host
        .store
        .push_block(&key(), MapIndex(0), ReduceId(3), &body);
    let merged = host.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert!(merged.is_empty(), "{merged:?}");
    let names = fs::read_dir(host.at("secret")).unwrap();
    assert_eq!(names.count(), 1, "nothing is made behind a link");
}

#[test]
fn a_directory_that_another_user_planted_among_ours_is_not_taken_over() {
    let disk = tempfile::tempdir().unwrap();
    let killed = open(disk.path());
    let root = disk
        .path()
        .join(format!("lodestone-{}", killed.incarnation()));
    drop(killed);
    chown(&root, Some(STRANGER), None).expect("run this test as root");
    let next = open(disk.path());
    assert!(root.exists(), "not ours to remove");
    next.close();
    chown(&root, Some(0), None).unwrap();
    let after_it = open(disk.path());
    assert!(!root.exists());
    after_it.close();
}

/// A killed daemon that knew an executor and had begun a handover: its directory.
fn left_by_a_killed_daemon(host: &Host) -> PathBuf {
    let incarnation = host.store.incarnation();
    let root = host.disk.path().join(format!("lodestone-{incarnation}"));
    fs::write(root.join("handover"), "any").unwrap();
    // Here the lock goes with the store.
    host.store.unlock();
    root
}

#[test]
fn executors_that_a_group_or_all_users_may_have_planted_are_not_taken_over() {
    for (mode, is_taken_over) in [
        (0o700, true),
        (0o2750, true),
        (0o2770, false),
        (0o707, false),
    ] {
        let host = Host::new();
        let root = left_by_a_killed_daemon(&host);
        fs::set_permissions(&root, Permissions::from_mode(mode)).unwrap();
        let next = open(host.disk.path());
        let known = next.local_dirs(&app(), "1");
        assert_eq!(known.is_ok(), is_taken_over, "{mode:o}");
        assert!(!root.exists(), "{mode:o}: it must not fill the disk");
    }
}

type Plant = fn(&Path);

/// What others may put in the place of a file of ours.
fn plantings() -> [(&'static str, Plant); 3] {
    [
        ("a pipe", make_pipe),
        ("a link", |path| symlink("/etc/hostname", path).unwrap()),
        ("a directory", |path| fs::create_dir(path).unwrap()),
    ]
}

#[test]
fn a_pipe_among_our_files_neither_holds_up_the_next_start_nor_keeps_what_others_left() {
    let names = ["LODESTONE", "lock"];
    // The owner may have closed the directory since then.
    for (name, mode) in names.iter().flat_map(|name| [(name, 0o770), (name, 0o700)]) {
        for (what, plant) in plantings() {
            let host = Host::new();
            let disk = host.disk.path().to_path_buf();
            let other = open(&disk);
            let of_other = disk.join(format!("lodestone-{}", other.incarnation()));
            other.unlock();
            let root = left_by_a_killed_daemon(&host);
            fs::remove_file(root.join(name)).unwrap();
            plant(&root.join(name));
            fs::set_permissions(&root, Permissions::from_mode(mode)).unwrap();
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || sender.send(open(&disk).incarnation()));
            let started = receiver.recv_timeout(Duration::from_secs(20));
            assert!(started.is_ok(), "the start waits for {what} as {name}");
            assert!(
                !of_other.exists(),
                "{what} as {name} keeps other directories"
            );
            assert!(root.exists(), "{what} as {name}: the daemon may be alive");
        }
    }
}
