// SPDX-License-Identifier: Apache-2.0
//! Opening and closing: the checks, the new directories, and the files that stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_store::fs::fake::{Errno, FakeFs};
use lodestone_store::*;

use crate::world::*;

fn open(fs: &FakeFs, dirs: &[&str]) -> Result<Arc<Store>, OpenError> {
    let environment = Environment {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::default()),
        random: Arc::new(SeededRandom::new(3)),
        ..Environment::os()
    };
    let dirs = dirs.iter().map(PathBuf::from).collect();
    Store::open(StoreConfig::of(dirs, MIB), environment)
}

#[test]
fn a_directory_that_cannot_be_used_is_named_with_what_to_do() {
    let fs = FakeFs::with_dirs(["/good", "/readonly", "/broken"]);
    fs.add_file(Path::new("/file"), b"");
    fs.break_dir(Path::new("/readonly"), Errno::ACCESS);
    fs.break_dir(Path::new("/broken"), Errno::IO);
    let message = |dirs: &[&str]| open(&fs, dirs).unwrap_err().to_string();
    assert_eq!(message(&[]), "no data directory given: name at least one");
    let missing = "data directory /none does not exist: create it, or name another";
    assert_eq!(message(&["/good", "/none"]), missing);
    assert_eq!(
        message(&["/file"]),
        "/file is not a directory: name a directory"
    );
    let readonly = "data directory /readonly is not writable: make this user its owner";
    assert!(message(&["/readonly"]).starts_with(readonly));
    assert!(message(&["/broken"]).starts_with("data directory /broken cannot be used"));
    let twice = "data directory /good is given twice: name each disk once";
    assert_eq!(message(&["/good", "/good"]), twice);
    assert!(
        fs.below(Path::new("/good")).is_empty(),
        "a failed start leaves nothing"
    );
}

#[test]
fn closing_removes_the_files_that_were_made() {
    let world = World::with(2, LITTLE_MEMORY).registered();
    for reduce in 0..4 {
        world.push(0, reduce, &payload(0, reduce, LARGE_BYTES));
    }
    let incarnation = format!("/disk1/lodestone-{}", world.store.incarnation());
    assert!(
        world
            .fs
            .below(Path::new("/disk1"))
            .contains(&PathBuf::from(incarnation))
    );
    world.store.close();
    assert!(world.fs.below(Path::new("/disk0")).is_empty());
    assert!(world.fs.below(Path::new("/disk1")).is_empty());
}

#[test]
fn what_a_daemon_cannot_remove_of_an_earlier_one_the_next_daemon_removes() {
    let dirs = || vec![PathBuf::from(DISK)];
    let crashed = World::on(FakeFs::with_dirs([DISK]), dirs(), LITTLE_MEMORY, 1).registered();
    crashed.push(0, 0, &payload(0, 0, LARGE_BYTES));
    let fs = crashed.fs.clone();
    let root = Path::new(DISK).join(format!("lodestone-{}", crashed.store.incarnation()));
    fs.crash();
    let is_data = |path: &PathBuf| path.extension().is_some_and(|end| end == "data");
    let data = fs.below(&root).into_iter().find(is_data).unwrap();
    let shuffle = data.parent().unwrap();
    fs.break_dir(shuffle, Errno::IO);
    drop(World::on(fs.clone(), dirs(), LITTLE_MEMORY, 2));
    assert!(fs.content(&data).is_some());
    fs.mend(shuffle);
    fs.crash();
    drop(World::on(fs.clone(), dirs(), LITTLE_MEMORY, 3));
    assert_eq!(
        fs.below(&root),
        Vec::<PathBuf>::new(),
        "space is lost for ever"
    );
}

#[test]
fn leftovers_of_a_crash_are_removed_and_nothing_else_is() {
    let dirs = || vec![PathBuf::from(DISK)];
    let crashed = World::on(FakeFs::with_dirs([DISK]), dirs(), LITTLE_MEMORY, 1).registered();
    crashed.push(0, 0, &payload(0, 0, LARGE_BYTES));
    let fs = crashed.fs.clone();
    let root = format!("{DISK}/lodestone-{}", crashed.store.incarnation());
    fs.crash();
    let living = World::on(fs.clone(), dirs(), LITTLE_MEMORY, 2).registered();
    assert!(
        !fs.below(Path::new(DISK))
            .iter()
            .any(|path| path.starts_with(&root))
    );
    living.push(0, 0, &payload(0, 0, LARGE_BYTES));

    let foreign = [
        "lodestone-0123456789abcdef/kept",
        "lodestone-0123456789abcdef/3/0.data",
        "lodestone-short/LODESTONE",
        "lodestone-notes.txt",
        "shuffle/0.data",
    ]
    .map(|name| Path::new(DISK).join(name));
    foreign
        .iter()
        .for_each(|path| fs.add_file(path, b"lodestone store 1\n"));
    let third = World::on(fs.clone(), dirs(), LITTLE_MEMORY, 3);
    assert!(foreign.iter().all(|path| fs.content(path).is_some()));
    assert_eq!(
        third.data_files(DISK).len(),
        3,
        "the living daemon keeps its file"
    );
    living.commit_all();
    assert_eq!(living.fetch(0), payload(0, 0, LARGE_BYTES));
}

#[test]
fn a_foreign_file_in_a_crashed_daemons_directory_stays() {
    let dirs = || vec![PathBuf::from(DISK)];
    let crashed = World::on(FakeFs::with_dirs([DISK]), dirs(), LITTLE_MEMORY, 1).registered();
    crashed.push(0, 0, &payload(0, 0, LARGE_BYTES));
    let root = PathBuf::from(format!("{DISK}/lodestone-{}", crashed.store.incarnation()));
    let data = crashed.data_files(DISK).pop().unwrap();
    let foreign = [root.join("notes"), data.with_file_name("notes.data")];
    foreign
        .iter()
        .for_each(|path| crashed.fs.add_file(path, b"mine"));
    crashed.fs.crash();
    let next = World::on(crashed.fs.clone(), dirs(), LITTLE_MEMORY, 2);
    assert!(foreign.iter().all(|path| next.fs.content(path).is_some()));
    assert_eq!(next.fs.content(&data), None);
}

#[test]
fn each_start_has_another_incarnation() {
    let fs = FakeFs::with_dirs([DISK]);
    let first = World::on(fs.clone(), vec![DISK.into()], MIB, 1)
        .store
        .incarnation();
    let second = World::on(fs, vec![DISK.into()], MIB, 2).store.incarnation();
    assert_ne!(first, second);
    assert_ne!(first.as_i64(), 0);
    assert_eq!(first.to_string().len(), 16);
}
