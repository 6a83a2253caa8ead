// SPDX-License-Identifier: Apache-2.0
//! The same store on the operating system's filesystem.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use lodestone_model::*;
use lodestone_store::*;

use crate::world::{app, at, batch, fetch, header, key, ledger_of, payload, read, spec};

fn open(dirs: &[PathBuf]) -> Arc<Store> {
    let config = StoreConfig::of(dirs.to_vec(), 1 << 20);
    Store::open(config, Environment::os()).unwrap()
}

#[test]
fn a_shuffle_lives_and_dies_on_real_disks() {
    let disks = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let dirs: Vec<_> = disks.iter().map(|disk| disk.path().to_path_buf()).collect();
    let store = open(&dirs);
    store.register_shuffle(&key(), spec()).unwrap();
    for map in 0..40 {
        let segments: Vec<_> = (0..6).map(|reduce| payload(map, reduce, 20_000)).collect();
        let headers: Vec<_> = (0..)
            .zip(&segments)
            .map(|(reduce, s)| header(reduce, s))
            .collect();
        let body = Bytes::from(segments.concat());
        let codes = store
            .push_batch(&key(), &batch(map, 1, &headers, &body))
            .unwrap();
        assert_eq!(codes, [Code::Ok; 6]);
        let all = headers.iter().map(|header| ledger_of(map, 1, header));
        let pushed = all.fold(Ledger::default(), Ledger::and);
        store
            .commit_map(&key(), MapIndex(map), MapId(1), pushed)
            .unwrap();
    }
    let load = store.load();
    assert!(load.memory_used <= load.memory_limit && load.disk_free > 0);
    for reduce in 0..6 {
        let expected: Vec<_> = (0..40)
            .flat_map(|map| payload(map, reduce, 20_000))
            .collect();
        assert_eq!(fetch(&store, MapRange::ALL, reduce).concat(), expected);
    }
    let open = at(&store, 0, 0..40).unwrap();
    assert!(
        open.parts
            .iter()
            .any(|part| matches!(part, Part::File { file, .. } if file.fd().is_some()))
    );
    store
        .remove_shuffle(&key().app, AppAttempt::NONE, key().shuffle, None)
        .unwrap();
    assert_eq!(
        read(&open).len() as u64,
        open.length(),
        "open chunks outlive the shuffle"
    );
    store.close();
    assert!(
        dirs.iter()
            .all(|dir| dir.read_dir().unwrap().next().is_none())
    );
}

#[test]
fn a_killed_daemons_directory_goes_at_the_next_start_and_a_living_ones_stays() {
    let disk = tempfile::tempdir().unwrap();
    let dirs = [disk.path().to_path_buf()];
    let names = || {
        let mut names: Vec<_> = disk
            .path()
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let living = open(&dirs);
    let killed = open(&dirs);
    assert_eq!(names().len(), 2);
    // The lock goes with the process; here it goes with the store, which removes nothing of its own
    // accord.
    let killed_name = format!("lodestone-{}", killed.incarnation());
    drop(killed);
    assert!(names().contains(&killed_name.clone().into()));
    let next = open(&dirs);
    assert!(!names().contains(&killed_name.into()));
    assert!(names().contains(&format!("lodestone-{}", living.incarnation()).into()));
    next.close();
    living.close();
    assert!(names().is_empty());
}

#[test]
fn a_file_cannot_be_a_data_directory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = StoreConfig::of(vec![file.path().to_path_buf()], 1 << 20);
    let error = Store::open(config, Environment::os()).unwrap_err();
    assert!(matches!(error, OpenError::NotADirectory(_)), "{error}");
}

#[test]
fn data_directories_are_closed_to_other_users() {
    let disk = tempfile::tempdir().unwrap();
    let store = open(&[disk.path().to_path_buf()]);
    let root = disk
        .path()
        .join(format!("lodestone-{}", store.incarnation()));
    let mode = Command::new("stat")
        .args(["-c", "%a"])
        .arg(root)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(mode.stdout).unwrap().trim(), "700");
    store.close();
}

/// Returns the result of registering an executor with this directory, and a merge directory beside
/// it, if all must be below `root`.
fn registered(disk: &Path, root: &Path, dir: &Path) -> Result<(), Code> {
    let config = StoreConfig {
        dirs: vec![disk.to_path_buf()],
        memory_bytes: 1 << 20,
        quota_percent: 75,
        tail_part_bytes: TAIL_PART_BYTES,
        hanging_bytes: u64::MAX,
        reserve: Reserve::Bytes(0),
        executor_roots: vec![root.to_path_buf()],
    };
    let store = Store::open(config, Environment::os()).unwrap();
    let info = ExecutorInfo {
        local_dirs: vec![dir.to_str().unwrap().to_owned()],
        sub_dirs: 64,
        merge_dir: Some("merge_manager".to_owned()),
    };
    let outcome = store.register_executor(&app(), "1", AppAttempt::NONE, info);
    store.close();
    outcome.map_err(|refusal| refusal.code)
}

#[test]
fn nothing_is_written_outside_of_the_directories_that_executors_may_use() {
    let (disk, spark) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| spark.path().join(name);
    let (root, below) = (at("root"), at("root/blockmgr-1"));
    fs::create_dir_all(&below).unwrap();
    symlink(&below, at("blockmgr-2")).unwrap();
    symlink(at("root"), at("root/blockmgr-3")).unwrap();
    symlink(at("root"), at("other")).unwrap();
    let registered = |dir: &str| registered(disk.path(), &root, &at(dir));
    assert_eq!(registered("root/blockmgr-1"), Ok(()));
    assert_eq!(registered("other/blockmgr-1"), Ok(()), "by another name");
    // Beside the root, or the link, is outside.
    for outside in ["root", "other", "blockmgr-2", "root/blockmgr-3"] {
        assert_eq!(registered(outside), Err(Code::Malformed), "{outside}");
    }
}

/// Puts one name in the place of another one, which is as long, in each entry of a handover, whose
/// checksums then are right.
fn renamed(handover: &[u8], from: &str, to: &str) -> Vec<u8> {
    const BEGINNING: usize = 8;
    let mut all = handover[..BEGINNING].to_vec();
    let mut rest = &handover[BEGINNING..];
    while let Some((head, after)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes(head[..4].try_into().unwrap());
        let (entry, behind) = after.split_at(length as usize);
        let mut entry = entry.to_vec();
        let mut windows = entry.windows(from.len());
        if let Some(at) = windows.position(|window| window == from.as_bytes()) {
            entry[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        all.extend_from_slice(&head[..4]);
        all.extend_from_slice(&crc32c::crc32c(&entry).to_be_bytes());
        all.extend_from_slice(&entry);
        rest = behind;
    }
    all
}

/// The first name is that of the shuffle's directory, and the shuffle is taken over.
#[test]
fn a_handover_that_names_another_directory_than_its_own_reads_and_removes_nothing_there() {
    const OWN: &str = "app-1-s7-m0-0";
    for (named, is_taken_over) in [
        (OWN, true),
        ("../../outside", false),
        ("../outside/xx", false),
    ] {
        let disk = tempfile::tempdir().unwrap();
        let dir = disk.path().join("data");
        fs::create_dir(&dir).unwrap();
        let first = open(slice::from_ref(&dir));
        let remote = ShuffleSpec {
            mode: Mode::Remote,
            ..spec()
        };
        first.register_shuffle(&key(), remote).unwrap();
        let bytes = payload(0, 0, 2 << 20);
        let segments = [header(0, &bytes)];
        let pushed = first.push_batch(&key(), &batch(0, 1, &segments, &bytes));
        assert_eq!(pushed.unwrap(), [Code::Ok]);
        let ledger = ledger_of(0, 1, &segments[0]);
        first
            .commit_map(&key(), MapIndex(0), MapId(1), ledger)
            .unwrap();
        first.hand_over();

        let root = dir.join(format!("lodestone-{}", first.incarnation()));
        // What a daemon would find there if it looked.
        let other = root.join(named);
        fs::create_dir_all(&other).unwrap();
        let file = fs::canonicalize(&other).unwrap().join("0.data");
        if !is_taken_over {
            fs::rename(root.join(OWN).join("0.data"), &file).unwrap();
        }
        let handover = root.join("handover");
        let crafted = renamed(&fs::read(&handover).unwrap(), OWN, named);
        fs::write(&handover, crafted).unwrap();

        let next = open(slice::from_ref(&dir));
        assert_eq!(next.incarnation(), first.incarnation());
        let is_read = next.check_readable(&key()).is_ok();
        next.end_application(&app(), AppAttempt::NONE).unwrap();
        next.finish_removals();
        next.close();
        assert_eq!(is_read, is_taken_over, "{named}");
        assert_eq!(file.exists(), !is_taken_over, "{named}");
    }
}
