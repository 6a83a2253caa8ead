// SPDX-License-Identifier: Apache-2.0
//! Requests of Spark's for which there is no room now. Spark repeats them if the connection breaks,
//! and ends its task if they are refused.

use std::io;

use lodestone_model::{MapId, ReduceId, ShuffleId};
use lodestone_store::fs::Open;
use lodestone_wire::Frame;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::FetchShuffleBlocks;
use lodestone_wire::spark::register::RegisterExecutor;
use rustix::io::Errno;

use crate::support::client::app;
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

#[test]
fn small_blocks_of_all_tasks_of_an_executor_fit_and_more_close_its_connection() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    // Half of 32 tasks with 48 MiB of blocks of 1 KB in flight.
    for _ in 0..3 {
        let handle: StreamHandle = client.ask(&blocks(262_144));
        assert_eq!(handle.num_chunks, 262_144);
    }
    client.send_rpc(&blocks(400_000));
    assert_eq!(client.receive(), None, "the connection is open");
    let handle: StreamHandle = Client::connect(&daemon).ask(&blocks(400_000));
    assert_eq!(handle.num_chunks, 400_000);
}

#[test]
fn an_original_for_which_no_file_can_be_opened_now_closes_the_connection() {
    let disk = TrapFs::default();
    let daemon = Inside::start(disk.environment());
    let executor = tempfile::tempdir().unwrap();
    let mut client = daemon.connect();
    let id = client.send_rpc(&RegisterExecutor {
        app: app(),
        exec_id: "1".to_owned(),
        local_dirs: vec![executor.path().to_str().unwrap().to_owned()],
        sub_dirs_per_local_dir: 64,
        shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
    });
    client.answer_to(id);
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
