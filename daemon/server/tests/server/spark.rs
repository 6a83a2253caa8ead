// SPDX-License-Identifier: Apache-2.0
//! Spark's own protocol: push-merge and original blocks, as an unmodified Spark uses them.

use std::path::Path;

use crate::support::client::{app, generation, read};
use crate::support::{Client, Daemon, Random};
use lodestone_model::{
    Cause, GenerationId, MapId, MapIndex, ReduceId, ShuffleId, ShuffleKey, SuspectBlock,
};
use lodestone_wire::extension::hello::Hello;
use lodestone_wire::frame::{ChunkId, MergedBlockMetaRequest};
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::fetch::{FetchShuffleBlockChunks, StreamHandle};
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::originals::{
    CorruptionCause, DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks,
};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};
use lodestone_wire::spark::register::{
    GetLocalDirsForExecutors, LocalDirsForExecutors, RegisterExecutor,
};
use lodestone_wire::spark::remove::{BlocksRemoved, RemoveBlocks, RemoveShuffleMerge};
use lodestone_wire::{Frame, Message};
use roaring::RoaringBitmap;
use rustix::process::Signal;

pub(crate) const SUB_DIRS: u32 = 64;

fn shuffle() -> ShuffleKey {
    generation(3)
}

/// Registers an executor whose block manager directory is below `root`, with push on.
fn register(client: &mut Client, root: &Path) {
    let local_dir = root.join("blockmgr-1");
    std::fs::create_dir_all(&local_dir).unwrap();
    let manager = r#"org.apache.spark.shuffle.sort.SortShuffleManager"#;
    let request = RegisterExecutor {
        app: app(),
        exec_id: "1".to_owned(),
        local_dirs: vec![local_dir.to_str().unwrap().to_owned()],
        sub_dirs_per_local_dir: SUB_DIRS,
        shuffle_manager: format!(r#"{manager}:{{"mergeDir":"merge_manager"}}}}}}"#),
    };
    let id = client.send_rpc(&request);
    assert!(
        client.answer_to(id).is_empty(),
        "Spark expects an empty answer"
    );
}

fn push(client: &mut Client, map_index: u32, reduce_id: u32, block: &[u8]) -> PushCode {
    let meta = PushBlockStream {
        key: shuffle(),
        map_index: MapIndex(map_index),
        reduce_id: ReduceId(reduce_id),
        index: 0,
    };
    let id = client.send_upload(&meta, block);
    let answer: BlockPushReturnCode = read(&client.answer_to(id));
    let expected = match answer.code {
        PushCode::Success => String::new(),
        _ => format!("shufflePush_3_0_{map_index}_{reduce_id}"),
    };
    assert_eq!(answer.failure_block_id, expected);
    answer.code
}

fn meta_request(request_id: i64, reduce_id: u32) -> Frame {
    Frame::MergedBlockMetaRequest(MergedBlockMetaRequest {
        request_id,
        app: app(),
        shuffle_id: ShuffleId(3),
        shuffle_merge_id: GenerationId(0),
        reduce_id: ReduceId(reduce_id),
    })
}

/// Takes the chunks, and finds in each the blocks of the maps that its bitmap names.
fn meta_and_chunks_agree(client: &mut Client, blocks: &[Vec<u8>]) {
    client.send(&meta_request(77, 2));
    let Some(Frame::MergedBlockMetaSuccess {
        request_id: 77,
        num_chunks,
        body,
    }) = client.receive()
    else {
        panic!("no answer to the meta request");
    };
    let mut rest = &body[..];
    let chunks: Vec<RoaringBitmap> = (0..num_chunks)
        .map(|_| RoaringBitmap::deserialize_from(&mut rest).unwrap())
        .collect();
    assert!(rest.is_empty(), "as many bitmaps as chunks");
    assert_eq!(
        num_chunks, 3,
        "chunks of 14, 14 and 2 blocks of 150,000 bytes"
    );

    let chunk_ids = (0..num_chunks).collect();
    let handle: StreamHandle = client.ask(&FetchShuffleBlockChunks {
        app: app(),
        exec_id: MERGER_EXECUTOR.to_owned(),
        shuffle_id: ShuffleId(3),
        shuffle_merge_id: GenerationId(0),
        chunks: vec![(ReduceId(2), chunk_ids)],
    });
    for (bitmap, bytes) in chunks.iter().zip(client.take(&handle)) {
        let expected: Vec<&[u8]> = bitmap.iter().map(|map| &blocks[map as usize][..]).collect();
        assert!(bytes == expected.concat(), "the chunk of {bitmap:?}");
    }
}

#[test]
fn blocks_that_spark_pushes_come_back_merged_byte_for_byte() {
    let daemon = Daemon::start(&[]);
    let executor = tempfile::tempdir().unwrap();
    let mut client = Client::connect(&daemon);
    register(&mut client, executor.path());
    let mut random = Random::any();
    let blocks: Vec<Vec<u8>> = (0..30).map(|_| random.bytes(150_000)).collect();
    for (map, block) in (0..).zip(&blocks) {
        assert_eq!(push(&mut client, map, 2, block), PushCode::Success);
    }
    assert_eq!(
        push(&mut client, 0, 2, &blocks[0]),
        PushCode::Success,
        "a repeated block"
    );
    let merged: MergeStatuses = client.ask(&FinalizeShuffleMerge { key: shuffle() });
    assert_eq!(merged.partitions.len(), 1);
    assert_eq!(
        merged.partitions[0].maps,
        (0..30).collect::<RoaringBitmap>()
    );
    assert_eq!(
        (merged.partitions[0].reduce_id, merged.partitions[0].bytes),
        (ReduceId(2), 4_500_000)
    );
    let again: MergeStatuses = client.ask(&FinalizeShuffleMerge { key: shuffle() });
    assert_eq!(again, merged, "finalize may be repeated");
    assert_eq!(push(&mut client, 30, 2, b"late"), PushCode::TooLate);

    meta_and_chunks_agree(&mut client, &blocks);
    client.send(&meta_request(78, 9));
    assert!(
        !client.failure_of(78).is_empty(),
        "a partition without blocks has no meta"
    );

    client.send(&Frame::OneWay {
        body: RemoveShuffleMerge { key: shuffle() }.to_bytes(),
    });
    // There is no answer, but the next request on the connection sees the effect.
    client.send(&meta_request(79, 2));
    assert!(
        !client.failure_of(79).is_empty(),
        "the shuffle is still there"
    );
}

#[test]
fn blocks_that_spark_pushes_on_many_connections_at_once_are_all_merged() {
    let daemon = Daemon::start(&[]);
    let executor = tempfile::tempdir().unwrap();
    register(&mut Client::connect(&daemon), executor.path());
    let block = |map: u32| vec![map as u8; 2000 + map as usize];
    std::thread::scope(|scope| {
        for pusher in 0..8 {
            let mut client = Client::connect(&daemon);
            scope.spawn(move || {
                for map in (pusher..80).step_by(8) {
                    assert_eq!(push(&mut client, map, 0, &block(map)), PushCode::Success);
                }
            });
        }
    });
    let mut client = Client::connect(&daemon);
    let merged: MergeStatuses = client.ask(&FinalizeShuffleMerge { key: shuffle() });
    assert_eq!(
        merged.partitions[0].maps,
        (0..80).collect::<RoaringBitmap>()
    );
    let handle: StreamHandle = client.ask(&OpenBlocks {
        app: app(),
        exec_id: MERGER_EXECUTOR.to_owned(),
        block_ids: vec!["shuffleChunk_3_0_0_0".to_owned()],
    });
    let mut bytes = client.take(&handle).remove(0);
    let mut seen = RoaringBitmap::new();
    while let Some(&map) = bytes.first() {
        let map = u32::from(map);
        assert_eq!(
            bytes.split_to(2000 + map as usize),
            block(map),
            "block of map {map}"
        );
        assert!(seen.insert(map), "map {map} twice");
    }
    assert_eq!(seen, merged.partitions[0].maps);
}

/// Where Spark keeps a file: by the hash of its name, as Java computes it.
pub(crate) fn path_of(root: &Path, name: &str) -> std::path::PathBuf {
    let hash = name.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let sub_dir = hash.unsigned_abs() % SUB_DIRS;
    let dir = root.join("blockmgr-1").join(format!("{sub_dir:02x}"));
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(name)
}

/// Writes the files of a map task: data, index, checksums.
fn write_map_output(root: &Path, map: i64, partitions: &[&[u8]]) {
    let (mut index, mut sums, mut end) = (vec![0; 8], Vec::new(), 0u64);
    for bytes in partitions {
        end += bytes.len() as u64;
        index.extend(end.to_be_bytes());
        sums.extend(u64::from(crc32c::crc32c(bytes)).to_be_bytes());
    }
    std::fs::write(
        path_of(root, &format!("shuffle_3_{map}_0.data")),
        partitions.concat(),
    )
    .unwrap();
    std::fs::write(path_of(root, &format!("shuffle_3_{map}_0.index")), index).unwrap();
    std::fs::write(
        path_of(root, &format!("shuffle_3_{map}_0.checksum.CRC32C")),
        sums,
    )
    .unwrap();
}

#[test]
fn original_blocks_are_served_from_the_executors_directories() {
    let daemon = Daemon::start(&[]);
    let executor = tempfile::tempdir().unwrap();
    let mut client = Client::connect(&daemon);
    register(&mut client, executor.path());
    write_map_output(executor.path(), 10, &[b"aa", b"", b"bbb"]);
    write_map_output(executor.path(), 11, &[b"c", b"dd", b"eee"]);
    std::fs::write(path_of(executor.path(), "rdd_1_2"), b"persisted").unwrap();

    let blocks = |blocks: &[(i64, &[u32])], batch| FetchShuffleBlocks {
        app: app(),
        exec_id: "1".to_owned(),
        shuffle_id: ShuffleId(3),
        blocks: blocks
            .iter()
            .map(|(map, reduces)| (MapId(*map), reduces.iter().copied().map(ReduceId).collect()))
            .collect(),
        batch,
    };
    let handle = client.ask(&blocks(&[(10, &[0, 2]), (11, &[1])], false));
    assert_eq!(client.take(&handle), ["aa", "bbb", "dd"]);
    let handle = client.ask(&blocks(&[(10, &[0, 3]), (11, &[1, 3])], true));
    assert_eq!(client.take(&handle), ["aabbb", "ddeee"]);
    let open = |names: &[&str]| OpenBlocks {
        app: app(),
        exec_id: "1".to_owned(),
        block_ids: names.iter().map(|&name| name.to_owned()).collect(),
    };
    let handle: StreamHandle = client.ask(&open(&["shuffle_3_11_2", "shuffle_3_10_0"]));
    assert_eq!(client.download(&handle, 0), "eee");
    assert_eq!(client.download(&handle, 1), "aa");
    let handle = client.ask(&open(&["rdd_1_2"]));
    assert_eq!(client.take(&handle), ["persisted"]);

    let handle: StreamHandle = client.ask(&blocks(&[(99, &[0])], false));
    let chunk = ChunkId {
        stream_id: handle.stream_id,
        chunk_index: 0,
    };
    client.send(&Frame::ChunkFetchRequest(chunk));
    assert!(
        matches!(client.receive(), Some(Frame::ChunkFetchFailure(_))),
        "no such map output"
    );

    let verdict = |client: &mut Client, reader_checksum| {
        let (app, exec_id, algorithm) = (app(), "1".to_owned(), "CRC32C".to_owned());
        let block = SuspectBlock {
            shuffle: ShuffleId(3),
            map: MapId(11),
            reduce: ReduceId(2),
            reader_checksum,
        };
        let answer: CorruptionCause = client.ask(&DiagnoseCorruption {
            app,
            exec_id,
            block,
            algorithm,
        });
        answer.cause
    };
    let right = i64::from(crc32c::crc32c(b"eee"));
    assert_eq!(verdict(&mut client, right), Cause::ChecksumVerifyPass);
    assert_eq!(verdict(&mut client, right ^ 1), Cause::NetworkIssue);
    let removed: BlocksRemoved = client.ask(&RemoveBlocks {
        app: app(),
        exec_id: "1".to_owned(),
        block_ids: vec!["rdd_1_2".to_owned(), "../../etc/passwd".to_owned()],
    });
    assert_eq!(removed.count, 1);
}

#[test]
fn executors_get_the_directories_of_files() {
    let daemon = Daemon::start(&[]);
    let executor = tempfile::tempdir().unwrap();
    let mut client = Client::connect(&daemon);
    register(&mut client, executor.path());
    let ask = |names: &[&str]| GetLocalDirsForExecutors {
        app: app(),
        exec_ids: names.iter().map(|&name| name.to_owned()).collect(),
    };
    let answer: LocalDirsForExecutors = client.ask(&ask(&["1", MERGER_EXECUTOR]));
    let dir = |name: &str| vec![executor.path().join(name).to_str().unwrap().to_owned()];
    let expected = [("1", "blockmgr-1"), (MERGER_EXECUTOR, "merge_manager")];
    assert_eq!(
        answer.executors,
        expected.map(|(exec, name)| (exec.to_owned(), dir(name)))
    );
    assert!(client.failure(&ask(&["1", "2"])).contains("not registered"));
    // Spark and the plugin share a port and a connection.
    let client_name = String::new();
    let _: lodestone_wire::extension::hello::HelloReply = client.ask(&Hello {
        protocol_version: lodestone_wire::extension::PROTOCOL_VERSION,
        client_name,
    });
}

#[test]
fn the_blocks_of_an_executor_with_a_hundred_thousand_maps_are_removed_in_one_request() {
    let daemon = Daemon::start(&["--memory", "16MiB", "--log-level", "warn"]);
    let executor = tempfile::tempdir().unwrap();
    let mut client = Client::connect(&daemon);
    register(&mut client, executor.path());
    let outputs = [0, 50_000, 99_999];
    for map in outputs {
        write_map_output(executor.path(), map, &[b"block"]);
    }
    let of = |map| {
        let kinds = ["data", "index", "checksum.CRC32C"];
        kinds.map(|kind| format!("shuffle_3_{map}_0.{kind}"))
    };
    let names = |exec: &str| RemoveBlocks {
        app: app(),
        exec_id: exec.to_owned(),
        block_ids: (0..100_000).flat_map(of).collect(),
    };
    assert!(names("1").to_bytes().len() > 8 << 20);
    let refused = client.failure(&names("2"));
    assert_eq!(
        refused,
        "Executor is not registered (appId=app-1, execId=2)"
    );
    let removed: BlocksRemoved = client.ask(&names("1"));
    assert_eq!(removed.count as usize, outputs.len() * 3);
    for name in outputs.into_iter().flat_map(of) {
        assert!(!path_of(executor.path(), &name).exists(), "{name}");
    }
    // Spark has one connection for all requests.
    let again: BlocksRemoved = client.ask(&names("1"));
    assert_eq!(again.count, 0);
}

#[test]
fn blocks_of_all_names_of_a_request_are_removed_and_none_is_made_up_for_a_half_one() {
    let daemon = Daemon::start(&[]);
    let executor = tempfile::tempdir().unwrap();
    let mut client = Client::connect(&daemon);
    register(&mut client, executor.path());
    // 512 names are decoded at once.
    let names: Vec<_> = (0..1_500).map(|split| format!("rdd_1_{split}")).collect();
    let files = [0, 511, 512, 1_499].map(|split| path_of(executor.path(), &names[split]));
    for file in &files {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, b"block").unwrap();
    }
    let request = RemoveBlocks {
        app: app(),
        exec_id: "1".to_owned(),
        block_ids: names,
    };
    let whole = request.to_bytes();
    let half = whole.slice(..whole.len() - 3);
    let request_id = 1_000;
    client.send(&Frame::RpcRequest {
        request_id,
        body: half,
    });
    let failure = client.failure_of(request_id);
    assert!(failure.contains("a name is missing"), "{failure}");
    assert!(files[3].exists(), "its name did not come");
    std::fs::write(&files[0], b"block").unwrap();
    let removed: BlocksRemoved = client.ask(&request);
    assert!(files.iter().all(|file| !file.exists()), "a block is left");
    assert_eq!(removed.count, 2, "the first one, and that of the last part");
}

#[test]
fn executors_without_room_after_restarts_are_logged_and_come_back_with_more_memory() {
    let (dir, local) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = dir.path().to_str().unwrap();
    let start = |memory: &str| Daemon::start(&["--dir", dir, "--memory", memory]);
    let stop = |mut daemon: Daemon| {
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.ended().code(), Some(0));
    };
    let large = start("512MiB");
    // A long name of a directory that is there.
    let name = format!("{}{}", "/.".repeat(400), local.path().display());
    let executor = |exec_id: String| RegisterExecutor {
        app: app(),
        exec_id,
        local_dirs: vec![name.clone(); 500],
        sub_dirs_per_local_dir: SUB_DIRS,
        shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
    };
    let mut client = Client::connect(&large);
    for number in 0..5 {
        let id = client.send_rpc(&executor(number.to_string()));
        assert!(client.answer_to(id).is_empty());
    }
    drop(client);
    stop(large);
    for _ in 0..2 {
        let small = start("16MiB");
        small.logged("Start the daemon again with more --memory");
        stop(small);
    }
    let large = start("512MiB");
    let known: LocalDirsForExecutors = Client::connect(&large).ask(&GetLocalDirsForExecutors {
        app: app(),
        exec_ids: (0..5).map(|number| number.to_string()).collect(),
    });
    assert_eq!(known.executors.len(), 5);
}
