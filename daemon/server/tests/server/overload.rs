// SPDX-License-Identifier: Apache-2.0
//! Requests for which there is no room now. Spark repeats its own if the connection breaks, and
//! ends its task if they are refused.

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lodestone_model::{AppId, Code, GenerationId, MapId, ReduceId, SegmentRun, ShuffleId};
use lodestone_store::Environment;
use lodestone_store::fs::Open;
use lodestone_wire::Frame;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::fetch::{FetchSegments, WantedChunk};
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::fetch::{FetchShuffleBlockChunks, StreamHandle};
use lodestone_wire::spark::originals::{FetchShuffleBlocks, OpenBlocks};
use lodestone_wire::spark::register::RegisterExecutor;
use rustix::io::Errno;
use tempfile::TempDir;

use crate::support::client::{app, batch, key, read};
use crate::support::inside::Inside;
use crate::support::trap::TrapFs;
use crate::support::{Client, Daemon};

/// The same partition of so many maps.
fn blocks(maps: i64) -> FetchShuffleBlocks {
    FetchShuffleBlocks {
        app: app(),
        exec_id: "1".to_owned(),
        shuffle_id: ShuffleId(3),
        blocks: (0..maps)
            .map(|map| (MapId(map), vec![ReduceId(0)]))
            .collect(),
        batch: false,
    }
}

/// Registers the executor of [`blocks`], with this directory.
fn register_executor(client: &mut Client, dir: &Path) {
    let id = client.send_rpc(&RegisterExecutor {
        app: app(),
        exec_id: "1".to_owned(),
        local_dirs: vec![dir.to_str().unwrap().to_owned()],
        sub_dirs_per_local_dir: 64,
        shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
    });
    assert!(client.answer_to(id).is_empty(), "it is not registered");
}

/// A client of a daemon that knows the executor of [`blocks`], with the directory of that one.
fn with_executor(daemon: &Daemon) -> (Client, TempDir) {
    let mut client = Client::connect(daemon);
    let executor = tempfile::tempdir().unwrap();
    register_executor(&mut client, executor.path());
    (client, executor)
}

#[test]
fn names_that_nobody_registered_leave_the_memory_for_streams_to_others() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let (mut honest, _executor) = with_executor(&daemon);
    // Two applications could have all of it, with half each, and a connection a quarter.
    let made_up = ["made-up-1", "made-up-2"].map(|name| AppId::new(name).unwrap());
    let mut crowd = Vec::new();
    for app in &made_up {
        for _ in 0..3 {
            let mut client = Client::connect(&daemon);
            let asked = FetchShuffleBlocks {
                app: app.clone(),
                ..blocks(131_072)
            };
            let id = client.send_rpc(&asked);
            crowd.push((client, id));
        }
    }
    let text = |app: &AppId| format!("Executor is not registered (appId={app}, execId=1)");
    for (at, (client, id)) in crowd.iter_mut().enumerate() {
        assert_eq!(client.failure_of(*id), text(&made_up[at / 3]));
    }
    let named = OpenBlocks {
        app: made_up[0].clone(),
        exec_id: "1".to_owned(),
        block_ids: vec!["shuffle_0_0_0".to_owned()],
    };
    assert_eq!(honest.failure(&named), text(&made_up[0]));
    let chunks = FetchShuffleBlockChunks {
        app: made_up[1].clone(),
        exec_id: MERGER_EXECUTOR.to_owned(),
        shuffle_id: ShuffleId(3),
        shuffle_merge_id: GenerationId(0),
        chunks: vec![(ReduceId(0), vec![0])],
    };
    assert!(honest.failure(&chunks).contains("is not known here"));
    let other_executor = FetchShuffleBlocks {
        exec_id: "2".to_owned(),
        ..blocks(1)
    };
    assert!(honest.failure(&other_executor).contains("execId=2"));
    let handle: StreamHandle = honest.ask(&blocks(131_072));
    assert_eq!(handle.num_chunks, 131_072);
}

#[test]
fn small_blocks_of_all_tasks_of_an_executor_fit_and_more_close_its_connection() {
    let daemon = Daemon::start(&["--memory", "512MiB"]);
    let (mut client, _executor) = with_executor(&daemon);
    // Half of 32 tasks with 48 MiB of blocks of 1 KB in flight.
    for _ in 0..3 {
        let handle: StreamHandle = client.ask(&blocks(262_144));
        assert_eq!(handle.num_chunks, 262_144);
    }
    client.send_rpc(&blocks(400_000));
    // The request waits for 30 s, which is as long as the client waits for a byte.
    client.assert_silent_for(Duration::from_secs(20));
    assert_eq!(client.receive(), None, "the connection is open");
    let handle: StreamHandle = Client::connect(&daemon).ask(&blocks(400_000));
    assert_eq!(handle.num_chunks, 400_000);
}

#[test]
fn a_request_that_finds_no_room_waits_for_the_end_of_another_stream() {
    let daemon = Daemon::start(&["--memory", "512MiB"]);
    let (mut client, _executor) = with_executor(&daemon);
    let few: StreamHandle = client.ask(&blocks(300));
    for _ in 0..3 {
        let _: StreamHandle = client.ask(&blocks(262_144));
    }
    let batches = |maps| {
        let mut batches = blocks(maps);
        batches.batch = true;
        for (_, reduces) in &mut batches.blocks {
            *reduces = vec![ReduceId(0), ReduceId(2)];
        }
        batches
    };
    let _: StreamHandle = client.ask(&batches(261_744));
    let waiting = client.send_rpc(&blocks(350));
    client.assert_silent_for(Duration::from_millis(300));
    for chunk_index in 0..300 {
        client.send(&Frame::ChunkFetchRequest(ChunkId {
            stream_id: few.stream_id,
            chunk_index,
        }));
    }
    let answer = loop {
        match client.receive() {
            Some(Frame::RpcResponse { request_id, body }) => break (request_id, body),
            Some(Frame::ChunkFetchFailure(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(answer.0, waiting);
    assert_eq!(read::<StreamHandle>(&answer.1).num_chunks, 350);
}

/// The same segment, so many times.
fn segments(key: &ShuffleAddress, chunks: usize) -> FetchSegments {
    let run = SegmentRun { first: 0, count: 1 };
    let chunk = WantedChunk {
        reduce_id: ReduceId(0),
        runs: vec![run],
    };
    FetchSegments {
        key: key.clone(),
        chunks: vec![chunk; chunks],
    }
}

#[test]
fn a_reader_of_segments_waits_for_the_end_of_another_stream_or_is_refused() {
    // A connection may have lists of 65,536 chunks.
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 3);
    client.register(&key, 1, 1);
    client.output(&key, 0, 1, &[(0, b"segment")]);
    let few: StreamHandle = client.ask(&segments(&key, 300));
    let _: StreamHandle = client.ask(&segments(&key, 65_000));
    let waiting = client.send_rpc(&segments(&key, 400));
    client.assert_silent_for(Duration::from_millis(300));
    assert_eq!(client.take(&few).len(), 300);
    let answer = client.answer_to(waiting);
    assert_eq!(read::<StreamHandle>(&answer).num_chunks, 400);
    assert_eq!(client.refusal(&segments(&key, 400)), Code::Overloaded);
}

#[test]
fn a_connection_that_closes_for_want_of_room_first_sends_the_answers_that_are_ready() {
    let daemon = Inside::with_memory(Environment::os(), 512 << 20);
    let key = daemon.key(1);
    let mut client = daemon.connect();
    let executor = tempfile::tempdir().unwrap();
    register_executor(&mut client, executor.path());
    for _ in 0..4 {
        let _: StreamHandle = client.ask(&blocks(260_000));
    }
    client.ask_for_more_than_sockets_hold(&key);
    let (meta, body) = batch(&key, 63, 700, &[(0, b"pushed")]);
    let push = client.send_upload(&meta, &body);
    while daemon.service.metrics.merge_segments_total.get() < 65 {
        thread::yield_now();
    }
    let refused = || daemon.refused();
    // So many of these requests may wait: the memory for small pushes, 8 MiB, holds them.
    let (large, waiting) = (blocks(20_000), 26);
    for _ in 0..=waiting {
        client.send_rpc(&large);
    }
    while refused() <= waiting {
        thread::yield_now();
    }
    let mut is_answered = false;
    while let Some(frame) = client.receive() {
        let id = match frame {
            Frame::RpcResponse { request_id, .. } => Some(request_id),
            _ => None,
        };
        is_answered |= id == Some(push);
    }
    assert!(is_answered, "the push was merged");
    daemon.stop();
}

#[test]
fn an_original_for_which_no_file_can_be_opened_now_closes_the_connection() {
    let disk = TrapFs::default();
    let daemon = Inside::start(disk.environment());
    let executor = tempfile::tempdir().unwrap();
    let mut client = daemon.connect();
    register_executor(&mut client, executor.path());
    let ask = |client: &mut Client| {
        let handle: StreamHandle = client.ask(&blocks(1));
        client.send(&Frame::ChunkFetchRequest(ChunkId {
            stream_id: handle.stream_id,
            chunk_index: 0,
        }));
        client.receive()
    };
    let refused = ask(&mut client);
    assert!(
        matches!(refused, Some(Frame::ChunkFetchFailure(_))),
        "there is no such file: {refused:?}"
    );
    disk.arm(|how| match how {
        Open::Read => Err(io::Error::from(Errno::MFILE)),
        _ => Ok(()),
    });
    assert_eq!(ask(&mut client), None, "the connection is open");
    disk.disarm();
    daemon.stop();
}
