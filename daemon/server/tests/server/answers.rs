// SPDX-License-Identifier: Apache-2.0
//! Answers whose size clients decide: the memory for each is reserved before it is made.

use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::{MapIndex, ReduceId};
use lodestone_server::handler::{self, Answer, Call};
use lodestone_store::Environment;
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::push::PushBlockStream;
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};
use lodestone_wire::{Frame, Message};
use tempfile::TempDir;

use crate::support::Client;
use crate::support::client::{app, generation};
use crate::support::inside::Inside;

fn register(client: &mut Client, local_dir: &str) {
    let manager = "org.apache.spark.shuffle.sort.SortShuffleManager";
    let id = client.send_rpc(&RegisterExecutor {
        app: app(),
        exec_id: "1".to_owned(),
        local_dirs: vec![local_dir.to_owned()],
        sub_dirs_per_local_dir: 64,
        shuffle_manager: format!(r#"{manager}:{{"mergeDir":"merge_manager"}}}}}}"#),
    });
    assert!(client.answer_to(id).is_empty());
}

#[test]
fn lists_of_directories_are_counted_however_long_the_question_is() {
    let daemon = Inside::with_memory(Environment::os(), 512 << 20);
    register(&mut daemon.connect(), &"/directory".repeat(4));
    let call = Call::new(&daemon.service, 0);
    let share = daemon.service.layouts.capacity_bytes() / 8;
    let ask = |executors: usize| {
        let exec_ids = vec!["1".to_owned(); executors];
        GetLocalDirsForExecutors {
            app: app(),
            exec_ids,
        }
        .to_bytes()
    };
    for executors in [1_000, 13_200, 20_000] {
        let Ok(Answer::Response(answer)) = handler::rpc(&call, &ask(executors)) else {
            panic!("{executors} executors");
        };
        let needed = handler::answer_memory(&call, &ask(executors));
        let (of_app, bytes) = needed.expect("nothing is counted");
        assert_eq!(of_app, Some(app()));
        let least = 2 * answer.len() as u64;
        assert!((least..=share).contains(&bytes), "{bytes} for {executors}");
    }
    let Ok(Answer::Failure(refused)) = handler::rpc(&call, &ask(100_000)) else {
        panic!("more than the share of a connection");
    };
    assert!(refused.contains("ask in parts"), "{refused}");
    daemon.stop();
}

/// Pushes blocks of maps whose indexes are far from each other: their bitmaps are large.
fn push_apart(client: &mut Client, local: &TempDir) {
    let dir = local.path().join("blockmgr");
    std::fs::create_dir(&dir).unwrap();
    register(client, dir.to_str().unwrap());
    for map in 0..2_000 {
        let block = PushBlockStream {
            key: generation(3),
            map_index: MapIndex(map << 16),
            reduce_id: ReduceId(0),
            index: 0,
        };
        let id = client.send_upload(&block, b"block");
        client.answer_to(id);
    }
}

fn maps_of_chunks(request_id: i64) -> MergedBlockMetaRequest {
    MergedBlockMetaRequest {
        request_id,
        app: app(),
        shuffle_id: generation(3).shuffle,
        shuffle_merge_id: generation(3).generation,
        reduce_id: ReduceId(0),
    }
}

#[test]
fn statuses_of_merged_partitions_are_counted_before_they_are_answered() {
    let daemon = Inside::start(Environment::os());
    let (mut client, local) = (daemon.connect(), tempfile::tempdir().unwrap());
    push_apart(&mut client, &local);
    let finalize = FinalizeShuffleMerge { key: generation(3) };
    let call = Call::new(&daemon.service, 0);
    let needed = handler::answer_memory(&call, &finalize.to_bytes());
    let (of_app, bytes) = needed.expect("nothing is counted");
    assert_eq!(of_app, Some(app()));
    let id = client.send_rpc(&finalize);
    let answer = client.answer_to(id).len() as u64;
    assert!(
        answer > 20_000 && bytes >= 2 * answer,
        "{bytes} for {answer}"
    );
    daemon.stop();
}

#[test]
fn maps_of_merged_chunks_are_counted_before_they_are_answered() {
    let daemon = Inside::start(Environment::os());
    let (mut client, local) = (daemon.connect(), tempfile::tempdir().unwrap());
    push_apart(&mut client, &local);
    let id = client.send_rpc(&FinalizeShuffleMerge { key: generation(3) });
    client.answer_to(id);
    let request = maps_of_chunks(1);
    let needed = handler::merged_meta_memory(&Call::new(&daemon.service, 0), &request);
    let (of_app, bytes) = needed.expect("nothing is counted");
    assert_eq!(of_app, Some(app()));
    client.send(&Frame::MergedBlockMetaRequest(request));
    let Some(Frame::MergedBlockMetaSuccess { body, .. }) = client.receive() else {
        panic!("no bitmaps");
    };
    let answer = body.len() as u64;
    assert!(
        answer > 20_000 && bytes >= 2 * answer,
        "{bytes} for {answer}"
    );
    daemon.stop();
}

/// Memory of answers that nobody reads.
fn held(daemon: &Inside, least: u64) -> bool {
    let began = Instant::now();
    while daemon.service.layouts.used_bytes() < least {
        if began.elapsed() > Duration::from_secs(20) {
            return false;
        }
        thread::yield_now();
    }
    true
}

#[test]
fn answers_about_merged_partitions_keep_their_memory_until_they_are_read() {
    let daemon = Inside::start(Environment::os());
    let (mut client, local) = (daemon.connect(), tempfile::tempdir().unwrap());
    push_apart(&mut client, &local);
    let finalize = FinalizeShuffleMerge { key: generation(3) };
    let id = client.send_rpc(&finalize);
    let answer = client.answer_to(id).len() as u64;
    // More than the buffers of both sockets take.
    let requests = 600;
    let mut lazy = daemon.connect();
    for _ in 0..requests {
        lazy.send_rpc(&finalize);
    }
    assert!(held(&daemon, answer), "statuses");
    drop(lazy);
    while daemon.service.layouts.used_bytes() > 0 {
        thread::yield_now();
    }
    let mut lazy = daemon.connect();
    for request_id in 0..requests {
        lazy.send(&Frame::MergedBlockMetaRequest(maps_of_chunks(request_id)));
    }
    assert!(held(&daemon, answer), "maps of chunks");
    drop(lazy);
    daemon.stop();
}
