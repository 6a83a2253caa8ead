// SPDX-License-Identifier: Apache-2.0
//! Level 0: pushes, finalizes, reads and questions of unmodified Spark.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use lodestone_model::*;
use lodestone_store::*;

use crate::world::*;

const LOCAL_DIRS: [&str; 2] = ["/data0/blockmgr-a", "/data1/blockmgr-b"];

fn executor(merge_dir: Option<&str>) -> ExecutorInfo {
    ExecutorInfo {
        local_dirs: LOCAL_DIRS.map(String::from).to_vec(),
        sub_dirs: 64,
        merge_dir: merge_dir.map(String::from),
    }
}

pub(crate) fn world() -> World {
    with_executor(World::new())
}

pub(crate) fn with_executor(world: World) -> World {
    LOCAL_DIRS
        .iter()
        .for_each(|dir| world.fs.add_dir(Path::new(dir)));
    register(&world, "1", -1, "merge_manager");
    world
}

fn register(world: &World, exec: &str, attempt: i32, merge_dir: &str) {
    let info = executor(Some(merge_dir));
    world
        .store
        .register_executor(&app(), exec, AppAttempt(attempt), info)
        .unwrap();
}

fn push(world: &World, key: &ShuffleKey, map: u32, reduce: u32, bytes: &[u8]) -> Code {
    let body = Bytes::copy_from_slice(bytes);
    world
        .store
        .push_block(key, MapIndex(map), ReduceId(reduce), &body)
        .unwrap()
}

/// Where Spark looks for a file, from the definition of the hash.
pub(crate) fn spark_path<const N: usize>(dirs: [&str; N], name: &str) -> PathBuf {
    let mut hash: i64 = 0;
    for byte in name.bytes() {
        hash = (hash * 31 + i64::from(byte)) & 0xffff_ffff;
    }
    let hash = if hash >= 1 << 31 {
        (1 << 32) - hash
    } else {
        hash
    } as usize;
    PathBuf::from(format!("{}/{:02x}/{name}", dirs[hash % N], hash / N % 64))
}

fn merged_file(world: &World, suffix: &str) -> Option<Vec<u8>> {
    let dirs = ["/data0/merge_manager", "/data1/merge_manager"];
    world.fs.content(&spark_path(
        dirs,
        &format!("shuffleMerged_app-1_7_0_3.{suffix}"),
    ))
}

/// The portable Roaring serialization of a few small values, by hand from its specification.
fn bitmap(values: &[u16]) -> Vec<u8> {
    let mut bytes = vec![0x3A, 0x30, 0, 0, 1, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&(values.len() as u16 - 1).to_le_bytes());
    bytes.extend_from_slice(&16_u32.to_le_bytes());
    values
        .iter()
        .for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    bytes
}

#[test]
fn finalized_files_have_the_names_paths_and_bytes_that_spark_reads() {
    let world = world();
    let blocks = [
        payload(5, 3, 2_000_000),
        payload(1, 3, 100_000),
        payload(9, 3, 77),
    ];
    for (map, block) in [5, 1, 9].into_iter().zip(&blocks) {
        assert_eq!(push(&world, &key(), map, 3, block), Code::Ok);
    }
    let statuses = world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(merged_file(&world, "data").unwrap(), blocks.concat());
    let offsets: [u64; 3] = [0, 2_100_000, 2_100_077];
    let index: Vec<u8> = offsets
        .iter()
        .flat_map(|offset| offset.to_be_bytes())
        .collect();
    assert_eq!(merged_file(&world, "index").unwrap(), index);
    let meta = [bitmap(&[1, 5]), bitmap(&[9])].concat();
    assert_eq!(merged_file(&world, "meta").unwrap(), meta);
    let maps = [1, 5, 9].into_iter().collect();
    assert_eq!(
        statuses,
        [MergeStatus {
            reduce_id: ReduceId(3),
            maps,
            bytes: 2_100_077
        }]
    );

    let fetch_key = ShuffleKey {
        attempt: None,
        ..key()
    };
    let served = world
        .store
        .merged_meta(&fetch_key, ReduceId(3), usize::MAX)
        .unwrap();
    assert_eq!(
        served,
        MergedMeta {
            num_chunks: 2,
            bitmaps: meta.into()
        }
    );
    let chunk = world.store.chunk(&fetch_key, ReduceId(3), 1).unwrap();
    assert_eq!(read(&chunk), blocks[2]);
}

#[test]
fn finalizing_again_gives_the_same_statuses_and_late_blocks_are_refused() {
    let world = world();
    push(&world, &key(), 0, 3, b"block");
    let first = world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(push(&world, &key(), 1, 3, b"late"), Code::TooLate);
    assert_eq!(
        world.store.merge_statuses(&key(), usize::MAX).unwrap(),
        first
    );
}

#[test]
fn a_late_block_does_not_overwrite_a_partition_finalized_before_a_restart() {
    let first = world();
    let block = payload(0, 3, LARGE_BYTES);
    push(&first, &key(), 0, 3, &block);
    first.store.merge_statuses(&key(), usize::MAX).unwrap();
    let files = |world: &World| ["data", "index", "meta"].map(|name| merged_file(world, name));
    let before = files(&first);
    assert_eq!(before[0].as_deref(), Some(block.as_slice()));
    first.store.hand_over();
    let next = World::on(first.fs.clone(), vec![DISK.into()], LITTLE_MEMORY, 2);
    let late = payload(1, 3, LARGE_BYTES);
    assert_eq!(push(&next, &key(), 1, 3, &late), Code::TooLate);
    next.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(files(&next), before);
}

#[test]
fn a_repeated_block_is_a_duplicate_whoever_sends_it() {
    let world = world();
    assert_eq!(push(&world, &key(), 0, 3, b"first"), Code::Ok);
    assert_eq!(push(&world, &key(), 0, 3, b"other"), Code::Duplicate);
    world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(merged_file(&world, "data").unwrap(), b"first");
}

#[test]
fn an_empty_block_makes_no_empty_chunk() {
    let world = world();
    assert_eq!(push(&world, &key(), 0, 3, b""), Code::Ok);
    assert!(
        world
            .store
            .merge_statuses(&key(), usize::MAX)
            .unwrap()
            .is_empty()
    );
    let meta = world.store.merged_meta(&key(), ReduceId(3), usize::MAX);
    assert_eq!(meta.unwrap_err().code, Code::UnknownPartition);
}

#[test]
fn blocks_of_other_generations_and_attempts_are_refused() {
    let world = world();
    let generation = |generation| ShuffleKey {
        generation: GenerationId(generation),
        ..key()
    };
    assert_eq!(
        push(&world, &generation(1), 0, 3, &payload(0, 3, 300_000)),
        Code::Ok
    );
    assert_eq!(
        push(&world, &generation(0), 0, 3, b"old"),
        Code::StaleGeneration
    );
    let stale = world
        .store
        .merge_statuses(&generation(0), usize::MAX)
        .unwrap_err();
    assert!(
        stale.detail.contains("stale shuffle finalize request"),
        "{stale}"
    );
    assert_eq!(push(&world, &generation(2), 0, 3, b"new"), Code::Ok);
    assert_eq!(
        world.data_files("/data0").len() + world.data_files("/data1").len(),
        0
    );
    let attempt = |attempt| ShuffleKey {
        attempt: Some(AppAttempt(attempt)),
        ..generation(2)
    };
    assert_eq!(push(&world, &attempt(3), 0, 3, b"x"), Code::StaleAttempt);
    register(&world, "2", 3, "merge_manager_3");
    assert_eq!(push(&world, &generation(2), 0, 3, b"x"), Code::StaleAttempt);
    assert_eq!(push(&world, &attempt(3), 0, 3, b"x"), Code::Ok);
    let merger = world
        .store
        .local_dirs(&app(), "shuffle-push-merger")
        .unwrap();
    assert_eq!(merger, ["/data0/merge_manager_3", "/data1/merge_manager_3"]);
}

#[test]
fn removing_takes_all_three_files_and_nothing_else() {
    let world = world();
    world.fs.add_file(
        Path::new("/data0/merge_manager/00/foreign.data"),
        b"not ours",
    );
    push(&world, &key(), 0, 3, b"block");
    world.store.merge_statuses(&key(), usize::MAX).unwrap();
    let files = |dir| {
        world
            .fs
            .below(Path::new(dir))
            .into_iter()
            .filter(|p| p.extension().is_some())
    };
    assert_eq!(files("/data0").chain(files("/data1")).count(), 4);
    world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None)
        .unwrap();
    world.look_after();
    let left: Vec<_> = files("/data0").chain(files("/data1")).collect();
    assert_eq!(
        left,
        [PathBuf::from("/data0/merge_manager/00/foreign.data")]
    );
    assert_eq!(push(&world, &key(), 1, 3, b"late"), Code::TooLate);
}

#[test]
fn partitions_whose_statuses_find_no_memory_are_left_to_their_originals() {
    let world = world();
    for reduce in 0..4 {
        push(&world, &key(), 1, reduce, b"block");
    }
    let all = world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(all.len(), 4);
    let one = STATUS_BYTES + all[0].maps.serialized_size();
    let some = world.store.merge_statuses(&key(), 2 * one).unwrap();
    assert_eq!(some, all[..2]);
    let bitmaps = |most| world.store.merged_meta(&key(), ReduceId(0), most);
    let bytes = bitmaps(usize::MAX).unwrap().bitmaps.len();
    assert!(bitmaps(bytes).is_ok());
    assert_eq!(bitmaps(bytes - 1).unwrap_err().code, Code::TooLarge);
}

#[test]
fn a_partition_that_cannot_be_written_is_left_out_of_the_statuses() {
    use lodestone_store::fs::fake::{Errno, Fault};
    let world = world();
    push(&world, &key(), 0, 2, b"fails");
    push(&world, &key(), 0, 3, b"is written");
    world.fs.fault_at(0, Fault::Torn(2, Errno::IO));
    let statuses = world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(
        statuses
            .iter()
            .map(|status| status.reduce_id)
            .collect::<Vec<_>>(),
        [ReduceId(3)]
    );
    let left_out = world
        .store
        .merged_meta(&key(), ReduceId(2), usize::MAX)
        .unwrap_err()
        .code;
    assert_eq!(left_out, Code::UnknownPartition);
}

#[test]
fn a_partition_whose_writes_had_to_wait_is_not_given_up() {
    use lodestone_store::fs::fake::{Errno, Fault};
    let world = world();
    let push = || {
        let block = payload(0, 0, LARGE_BYTES);
        let pushed = world
            .store
            .push_block(&key(), MapIndex(0), ReduceId(0), &block);
        pushed.map_err(|refusal| refusal.code)
    };
    for _ in 0..10 {
        world.fs.fault_at(0, Fault::Torn(0, Errno::MFILE));
        assert_eq!(push(), Err(Code::Overloaded));
    }
    world.fs.forget_faults();
    assert_eq!(push(), Ok(Code::Ok));
}

#[test]
fn a_partition_with_many_failed_writes_is_given_up() {
    use lodestone_store::fs::fake::Errno;
    let world = world();
    world.fs.break_dir(Path::new("/data0"), Errno::IO);
    world.fs.break_dir(Path::new("/data1"), Errno::IO);
    let large = Bytes::from(payload(0, 3, LARGE_BYTES));
    let push = || {
        world
            .store
            .push_block(&key(), MapIndex(0), ReduceId(3), &large)
            .unwrap_err()
    };
    for _ in 0..5 {
        assert!(!push().detail.contains("exceeded the threshold"));
    }
    assert!(
        push()
            .detail
            .contains("IOExceptions exceeded the threshold when merging")
    );
}

#[test]
fn a_block_that_a_full_disk_does_not_take_is_refused_with_that_reason() {
    use lodestone_store::fs::fake::Errno;
    let world = world();
    world.fs.break_dir(Path::new("/data0"), Errno::NOSPC);
    world.fs.break_dir(Path::new("/data1"), Errno::NOSPC);
    let large = Bytes::from(payload(0, 3, LARGE_BYTES));
    let pushed = world
        .store
        .push_block(&key(), MapIndex(0), ReduceId(3), &large);
    let refusal = pushed.unwrap_err();
    assert_eq!(refusal.code, Code::DiskFull);
    assert_eq!(
        refusal.detail,
        "shufflePush_7_0_0_3 was not merged: DiskFull"
    );
}

#[test]
fn blocks_that_spark_pushes_leave_the_reserve_of_executors_disks_to_their_tasks() {
    const DISK_BYTES: u64 = 20 * MIB;
    const KEPT: u64 = 8 * MIB;
    let world = with_executor(World::with_reserve(1 << 30, Reserve::Bytes(KEPT)));
    for dir in ["/data0", "/data1"] {
        world.fs.set_capacity(Path::new(dir), DISK_BYTES);
    }
    let push = |map, bytes| {
        let block = Bytes::from(payload(map, 3, bytes));
        let store = &world.store;
        store.push_block(&key(), MapIndex(map), ReduceId(3), &block)
    };
    let large = |map| push(map, MIB as usize);
    let taken = (0..).take_while(|map| large(*map) == Ok(Code::Ok)).count() as u32;
    let refusal = large(taken).unwrap_err();
    assert_eq!(refusal.code, Code::DiskFull);
    let text = format!("shufflePush_7_0_{taken}_3 was not merged: DiskFull");
    assert_eq!(refusal.detail, text);
    let written = |world: &World| merged_file(world, "data").unwrap().len() as u64;
    assert!(
        written(&world) <= DISK_BYTES - KEPT + MIB,
        "{} bytes",
        written(&world)
    );
    // Another one has memory for it, but no disk: its original is read.
    assert_eq!(push(taken + 1, 100), Ok(Code::Ok));
    (0..9).for_each(|_| assert!(large(taken).is_err(), "it is refused each time"));
    world.fs.set_capacity(Path::new("/data0"), 2 * DISK_BYTES);
    world.fs.set_capacity(Path::new("/data1"), 2 * DISK_BYTES);
    assert_eq!(large(taken), Ok(Code::Ok), "there is room again");
    let statuses = world.store.merge_statuses(&key(), usize::MAX).unwrap();
    assert_eq!(statuses[0].maps, (0..=taken).collect());
    assert_eq!(statuses[0].bytes, written(&world));
}

#[test]
fn blocks_that_spark_pushes_go_to_the_file_before_finalize_has_to_wait() {
    let world = with_executor(World::with(1, 64 * MIB));
    let push = |map| {
        let block = Bytes::from(payload(map, 3, 100_000));
        let pushed = world
            .store
            .push_block(&key(), MapIndex(map), ReduceId(3), &block);
        assert_eq!(pushed, Ok(Code::Ok));
    };
    (0..10).for_each(push);
    let written = merged_file(&world, "data").unwrap().len();
    assert!(written >= 1_000_000 - LARGE_BYTES, "{written} bytes");
    world.store.merge_statuses(&key(), usize::MAX).unwrap();
    let all: Vec<_> = (0..10).flat_map(|map| payload(map, 3, 100_000)).collect();
    assert_eq!(merged_file(&world, "data").unwrap(), all);
}

#[test]
fn an_application_without_merge_directories_cannot_push() {
    let world = World::new();
    let body = Bytes::from_static(b"x");
    let push = || {
        world
            .store
            .push_block(&key(), MapIndex(0), ReduceId(0), &body)
            .unwrap_err()
    };
    assert_eq!(push().code, Code::UnknownApplication);
    world
        .store
        .register_executor(&app(), "1", AppAttempt::NONE, executor(None))
        .unwrap();
    assert_eq!(
        push().detail,
        "application app-1 is not registered or NM was restarted."
    );
}

#[test]
fn executors_directories_are_returned_and_bad_ones_refused() {
    let world = world();
    assert_eq!(world.store.local_dirs(&app(), "1").unwrap(), LOCAL_DIRS);
    let unknown = world.store.local_dirs(&app(), "2").unwrap_err();
    assert_eq!(
        unknown.detail,
        "Executor is not registered (appId=app-1, execId=2)"
    );
    let refuse = |info| {
        let outcome = world
            .store
            .register_executor(&app(), "3", AppAttempt::NONE, info);
        assert_eq!(outcome.unwrap_err().code, Code::Malformed);
    };
    refuse(ExecutorInfo {
        local_dirs: vec!["relative".into()],
        ..executor(None)
    });
    refuse(ExecutorInfo {
        local_dirs: vec!["/a/../etc".into()],
        ..executor(None)
    });
    refuse(ExecutorInfo {
        local_dirs: vec![],
        ..executor(None)
    });
    refuse(ExecutorInfo {
        sub_dirs: 0,
        ..executor(None)
    });
    refuse(executor(Some("../elsewhere")));
}

#[test]
fn names_of_executors_and_directories_with_control_characters_are_refused() {
    let world = world();
    let refusal = |exec: &str, dir: &str, merge_dir: Option<&str>| {
        let info = ExecutorInfo {
            local_dirs: vec![LOCAL_DIRS[0].to_owned(), dir.to_owned()],
            ..executor(merge_dir)
        };
        let store = &world.store;
        let refused = store.register_executor(&app(), exec, AppAttempt::NONE, info);
        let refused = refused.expect_err("it is registered");
        assert_eq!(refused.code, Code::Malformed);
        refused.detail
    };
    for bad in ['\n', '\0', '\u{1b}', '\u{7f}', '\u{85}'] {
        let (exec, dir) = (format!("3{bad}"), format!("/disk-0/block{bad}mgr"));
        assert_eq!(
            refusal(&exec, "/b", None),
            "an executor id with a control character"
        );
        let refused = refusal("3", &dir, None);
        assert_eq!(refused, "a local directory with a control character");
        let refused = refusal("3", "/b", Some(&format!("merge{bad}")));
        assert!(
            !refused.contains(bad),
            "it breaks a line of the log: {refused:?}"
        );
    }
}

#[test]
fn executors_with_endless_names_are_refused_before_they_fill_the_memory() {
    let world = world();
    let dir = "d".repeat(1_000);
    let info = |number: usize| ExecutorInfo {
        local_dirs: vec![format!("/{dir}/{number}"); 100],
        ..executor(None)
    };
    let register = |number: usize| {
        let executor = number.to_string();
        let store = &world.store;
        store.register_executor(&app(), &executor, AppAttempt::NONE, info(number))
    };
    let refused = (0..100).find_map(|number| register(number).err().map(|error| (number, error)));
    let (number, refusal) = refused.expect("a hundred of them are 10 MB");
    assert_eq!(refusal.code, Code::Overloaded);
    assert!(number > 0, "one has room");
    assert!(world.store.end_everywhere(app().as_str()));
    register(number).expect("the others are forgotten");
}

fn spark_file(world: &World, name: &str, content: &[u8]) {
    world.fs.add_file(&spark_path(LOCAL_DIRS, name), content);
}

fn map_output(world: &World) {
    let index: Vec<u8> = [0_u64, 3, 3, 10]
        .iter()
        .flat_map(|offset| offset.to_be_bytes())
        .collect();
    spark_file(world, "shuffle_7_42_0.index", &index);
    spark_file(world, "shuffle_7_42_0.data", b"onethree...");
}

#[test]
fn original_blocks_are_found_by_sparks_index() {
    let world = world();
    map_output(&world);
    let blocks = |start, end| {
        let range = ReduceId(start)..ReduceId(end);
        world
            .store
            .original_blocks(&app(), "1", ShuffleId(7), MapId(42), range)
    };
    assert_eq!(read(&blocks(0, 1).unwrap()), b"one");
    assert_eq!(read(&blocks(1, 2).unwrap()), b"");
    assert_eq!(read(&blocks(0, 3).unwrap()), b"onethree..");
    assert_eq!(
        blocks(3, 4).unwrap_err().code,
        Code::DiskFailed,
        "past the end of the index"
    );
    assert_eq!(blocks(1, 1).unwrap_err().code, Code::Malformed);
    spark_file(&world, "shuffle_7_42_0.data", b"cut");
    assert_eq!(
        blocks(2, 3).unwrap_err().code,
        Code::DiskFailed,
        "past the end of the data"
    );
    let range = ReduceId(0)..ReduceId(1);
    let missing = world
        .store
        .original_blocks(&app(), "1", ShuffleId(7), MapId(43), range);
    assert_eq!(missing.unwrap_err().code, Code::UnknownPartition);
}

#[test]
fn an_output_that_is_written_again_under_its_name_is_read_by_its_new_index() {
    let world = world();
    map_output(&world);
    let block = |reduce| {
        let range = ReduceId(reduce)..ReduceId(reduce + 1);
        let store = &world.store;
        let found = store.original_blocks(&app(), "1", ShuffleId(7), MapId(42), range);
        read(&found.unwrap())
    };
    assert_eq!((block(0), block(2)), (b"one".to_vec(), b"three..".to_vec()));
    // The sizes are the same: only the files themselves are others.
    let index: Vec<u8> = [0_u64, 5, 5, 10].map(u64::to_be_bytes).concat();
    spark_file(&world, "shuffle_7_42_0.index", &index);
    spark_file(&world, "shuffle_7_42_0.data", b"three...one.");
    assert_eq!((block(0), block(2)), (b"three".to_vec(), b"...on".to_vec()));
}

#[test]
fn the_space_of_a_removed_output_is_free_after_a_look_and_many_outputs_need_few_descriptors() {
    let world = world();
    let offsets = [0_u64, 3].map(u64::to_be_bytes).concat();
    let outputs = MAP_FILES_MAX as i64 + 100;
    let open_files = || world.fs.open_files().0;
    let read_all = || {
        for map in 0..outputs {
            let range = ReduceId(0)..ReduceId(1);
            let store = &world.store;
            let found = store.original_blocks(&app(), "1", ShuffleId(7), MapId(map), range);
            assert_eq!(read(&found.unwrap()), b"one");
        }
    };
    for map in 0..outputs {
        spark_file(&world, &format!("shuffle_7_{map}_0.index"), &offsets);
        spark_file(&world, &format!("shuffle_7_{map}_0.data"), b"one");
    }
    for _ in 0..2 {
        read_all();
        assert_eq!(open_files(), MAP_FILES_MAX);
        world.store.look_after_all();
        assert_eq!(open_files(), 0);
    }
}

/// Removes these blocks of executor 1, and counts them.
pub(crate) fn removed(store: &Store, names: &[String]) -> u32 {
    let named = store.blocks_by_place(&app(), "1", names.to_vec()).unwrap();
    let counts = named.iter().map(|some| store.remove_blocks(some).unwrap());
    counts.sum()
}

#[test]
fn a_late_removal_keeps_the_files_of_an_executor_that_registered_again() {
    let world = world();
    let names = ["rdd_3_1", "shuffle_7_0_0.data"].map(String::from);
    let named = world
        .store
        .blocks_by_place(&app(), "1", names.to_vec())
        .unwrap();
    // A newer attempt of the application has an executor of the same id.
    register(&world, "1", 2, "merge_manager_2");
    for name in &names {
        spark_file(&world, name, b"alive");
    }
    for some in &named {
        assert_eq!(world.store.remove_blocks(some), Ok(0));
    }
    assert_eq!(removed(&world.store, &names), 2, "they were there");
}

#[test]
fn persisted_blocks_are_served_whole_and_removed_by_name() {
    let world = world();
    spark_file(&world, "rdd_3_1", b"persisted");
    world
        .fs
        .add_file(Path::new("/data0/secret"), b"not a block");
    let block = world.store.rdd_block(&app(), "1", 3, 1).unwrap();
    assert_eq!(read(&block), b"persisted");
    assert_eq!(
        world.store.rdd_block(&app(), "1", 3, 2).unwrap_err().code,
        Code::UnknownPartition
    );
    let names = ["rdd_3_1", "rdd_9_9", "shuffle/../../secret", "..", "secret"].map(String::from);
    assert_eq!(removed(&world.store, &names), 1);
    assert!(world.store.rdd_block(&app(), "1", 3, 1).is_err());
    assert!(world.fs.content(Path::new("/data0/secret")).is_some());
}

#[test]
fn corruption_is_traced_to_disk_or_network() {
    let world = world();
    map_output(&world);
    let right = i64::from(crc32c::crc32c(b"one"));
    let diagnose = |reader_checksum, algorithm| {
        let (shuffle, map, reduce) = (ShuffleId(7), MapId(42), ReduceId(0));
        let block = SuspectBlock {
            shuffle,
            map,
            reduce,
            reader_checksum,
        };
        world.store.diagnose(&app(), "1", block, algorithm)
    };
    assert_eq!(
        diagnose(right, "CRC32C"),
        Cause::UnknownIssue,
        "no checksum file"
    );
    spark_file(
        &world,
        "shuffle_7_42_0.checksum.CRC32C",
        &right.to_be_bytes(),
    );
    assert_eq!(diagnose(right, "CRC32C"), Cause::ChecksumVerifyPass);
    assert_eq!(diagnose(right + 1, "CRC32C"), Cause::NetworkIssue);
    assert_eq!(diagnose(right, "MD5"), Cause::UnsupportedChecksumAlgorithm);
    spark_file(&world, "shuffle_7_42_0.data", b"0nethree...");
    assert_eq!(diagnose(right, "CRC32C"), Cause::DiskIssue);
}

#[test]
fn an_application_without_a_lease_is_kept_until_its_directories_are_gone() {
    let world = world();
    push(&world, &key(), 0, 3, b"block");
    world.clock.advance_ms(10_000_000);
    assert!(world.expired().is_empty());
    world.fs.wipe(Path::new("/data0"));
    assert_eq!(looked_for(&world, 2 * GONE_S), None, "one is still there");
    world.fs.wipe(Path::new("/data1"));
    assert_eq!(looked_for(&world, 2 * GONE_S), Some(GONE_S));
    assert_eq!(world.store.load().memory_used, 0);
}

/// How long the directories of an application must be gone.
const GONE_S: u32 = 60;

/// Looks every second for so long. Returns after how many seconds the application was forgotten.
fn looked_for(world: &World, seconds: u32) -> Option<u32> {
    (0..=seconds).find(|_| {
        let forgotten = world.expired();
        world.clock.advance_ms(1_000);
        forgotten == [app()]
    })
}

#[test]
fn a_mount_that_is_away_for_a_moment_costs_no_executor() {
    let world = world();
    for _ in 0..3 {
        LOCAL_DIRS
            .iter()
            .for_each(|dir| world.fs.wipe(Path::new(dir)));
        assert_eq!(looked_for(&world, GONE_S - 1), None);
        LOCAL_DIRS
            .iter()
            .for_each(|dir| world.fs.add_dir(Path::new(dir)));
        assert_eq!(looked_for(&world, 2), None);
    }
    assert_eq!(world.store.local_dirs(&app(), "1").unwrap(), LOCAL_DIRS);
}

#[test]
fn a_daemon_that_stood_still_does_not_forget_executors_after_two_looks() {
    let world = world();
    LOCAL_DIRS
        .iter()
        .for_each(|dir| world.fs.wipe(Path::new(dir)));
    for _ in 0..2 {
        // Looks at one time are one look.
        for _ in 0..20 {
            assert!(world.expired().is_empty());
        }
        world.clock.advance_ms(10 * 60_000);
    }
    LOCAL_DIRS
        .iter()
        .for_each(|dir| world.fs.add_dir(Path::new(dir)));
    assert_eq!(looked_for(&world, 2 * GONE_S), None);
}

#[test]
fn an_executor_that_registers_while_the_others_are_gone_keeps_them() {
    let world = world();
    LOCAL_DIRS
        .iter()
        .for_each(|dir| world.fs.wipe(Path::new(dir)));
    assert_eq!(looked_for(&world, GONE_S - 1), None);
    register(&world, "2", -1, "merge_manager");
    assert_eq!(looked_for(&world, GONE_S - 1), None);
}

#[test]
fn a_directory_that_others_use_too_keeps_no_executor() {
    let world = World::new();
    let own = "/data0/blockmgr-a";
    for dir in [own, "/tmp"] {
        world.fs.add_dir(Path::new(dir));
    }
    let info = ExecutorInfo {
        local_dirs: vec!["/tmp".into(), own.into()],
        ..executor(Some("merge_manager"))
    };
    let registered = world
        .store
        .register_executor(&app(), "1", AppAttempt::NONE, info);
    registered.unwrap();
    world.fs.add_dir(Path::new("/data0/merge_manager"));
    assert_eq!(looked_for(&world, 2 * GONE_S), None);
    world.fs.wipe(Path::new(own));
    assert_eq!(looked_for(&world, 1), None);
    assert_eq!(world.store.held_data().executors, 0, "a drain waits for it");
    assert_eq!(looked_for(&world, 2 * GONE_S), Some(GONE_S - 2));
}

#[test]
fn a_lease_that_runs_out_takes_pushed_data_but_not_the_executors() {
    let world = world();
    let ours = ShuffleKey {
        shuffle: ShuffleId(8),
        ..key()
    };
    world.store.register_shuffle(&ours, spec()).unwrap();
    world.clock.advance_ms(120_000);
    assert_eq!(world.expired(), [app()]);
    assert_eq!(
        world.store.check_readable(&ours).unwrap_err().code,
        Code::UnknownShuffle
    );
    assert_eq!(world.store.local_dirs(&app(), "1").unwrap(), LOCAL_DIRS);
    assert!(world.expired().is_empty());
}

#[test]
fn the_late_end_of_an_attempt_frees_its_shuffles_and_costs_no_executor_of_the_next_attempt() {
    let world = World::new();
    LOCAL_DIRS
        .iter()
        .for_each(|dir| world.fs.add_dir(Path::new(dir)));
    let first = ShuffleKey {
        attempt: Some(AppAttempt(1)),
        ..key()
    };
    world.store.register_shuffle(&first, spec()).unwrap();
    // Without Spark's push it does not say that it is of attempt 2.
    let registered = world
        .store
        .register_executor(&app(), "2", AppAttempt::NONE, executor(None));
    registered.unwrap();
    world.store.end_application(&app(), AppAttempt(1)).unwrap();
    assert_eq!(world.store.local_dirs(&app(), "2").unwrap(), LOCAL_DIRS);
    let gone = world.store.check_readable(&first).unwrap_err();
    assert_eq!(gone.code, Code::UnknownShuffle);
    LOCAL_DIRS
        .iter()
        .for_each(|dir| world.fs.wipe(Path::new(dir)));
    assert_eq!(looked_for(&world, 2 * GONE_S), Some(GONE_S));
    assert_eq!(world.store.load().memory_used, 0);
}
