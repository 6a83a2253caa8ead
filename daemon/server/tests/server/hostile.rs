// SPDX-License-Identifier: Apache-2.0
//! Bytes that no client should send: the connection ends with a logged reason, all others continue,
//! and memory stays bounded.

use std::io::Write;
use std::time::Instant;

use crate::support::client::{ALL_MAPS, app, batch, commit_of, key};
use crate::support::{Client, Daemon, Random};
use bytes::Bytes;
use lodestone_model::{AppId, Code, Mode, ReduceId, ShuffleId, ShuffleSpec};
use lodestone_server::connection::STALL_TIMEOUT;
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};
use lodestone_wire::spark::originals::OpenBlocks;
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};
use lodestone_wire::{Frame, Message};

/// The daemon closes the connection, and logs the reason.
fn is_closed_because(daemon: &Daemon, mut client: Client, reason: &str) {
    assert_eq!(client.receive(), None);
    daemon.logged(reason);
}

fn still_serves(client: &mut Client) {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: "bystander".to_owned(),
    };
    let _: HelloReply = client.ask(&hello);
}

fn with_prefix(length: i64, kind: u8) -> Vec<u8> {
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.push(kind);
    bytes
}

#[test]
fn uploads_that_are_announced_and_do_not_come_take_no_memory_from_others() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let (mut honest, key) = (Client::connect(&daemon), key(&daemon, 1));
    honest.register(&key, 1, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &vec![7; 4 << 20])]);
    let others = (0..200).map(|_| {
        let mut other = Client::connect(&daemon);
        other.begin_upload(&meta, &body, 1000);
        other
    });
    let _others: Vec<_> = others.collect();
    // It takes the same memory as theirs: small pushes have some of their own.
    let codes = honest.push(&key, 0, 2, &[(0, &vec![8; 200_000])]);
    assert_eq!(codes, [Code::Ok]);
}

#[test]
fn an_upload_for_an_unknown_application_or_shuffle_is_refused_without_memory_for_it() {
    let daemon = Daemon::start(&["--memory", "16MiB"]);
    let (mut client, known) = (Client::connect(&daemon), key(&daemon, 1));
    client.register(&known, 1, 1);
    let large = vec![7; 3 << 20];
    // It has all memory for uploads.
    let (meta, body) = batch(&known, 0, 1, &[(0, &large)]);
    let sent = body.len() - 1;
    let id = client.begin_upload(&meta, &body, sent);
    let mut unknown = [known.clone(), known];
    unknown[0].shuffle.app = AppId::new("application_unknown").unwrap();
    unknown[1].shuffle.shuffle = ShuffleId(77);
    let codes = [Code::UnknownApplication, Code::UnknownShuffle];
    let mut other = Client::connect(&daemon);
    for (key, code) in unknown.iter().zip(codes) {
        let (meta, body) = batch(key, 0, 1, &[(0, &large)]);
        let id = other.send_upload(&meta, &body);
        let refused = Refused::from_bytes(&other.answer_to(id)).unwrap();
        assert_eq!(refused.code, code);
    }
    client.socket.write_all(&body[sent..]).unwrap();
    let reply = PushBatchReply::from_bytes(&client.answer_to(id)).unwrap();
    assert_eq!(reply.codes, [Code::Ok]);
}

/// Partitions of a shuffle whose layouts are long.
const LONG: u32 = 7_000;

/// Makes a shuffle of this application with long layouts.
fn long_shuffle(client: &mut Client, daemon: &Daemon, app: &str) -> ShuffleAddress {
    let mut key = key(daemon, 1);
    key.shuffle.app = AppId::new(app).unwrap();
    let parts: Vec<_> = (0..LONG).map(|reduce| (reduce, &b"x"[..])).collect();
    client.register(&key, 1, LONG);
    client.output(&key, 0, 1, &parts);
    key
}

/// Reads all of a layout.
fn read_layout(client: &mut Client, key: &ShuffleAddress) {
    let all: Vec<_> = (0..LONG).collect();
    let shown = client.layout(key, ALL_MAPS, &all);
    assert_eq!(shown.partitions.len(), all.len());
}

/// Asks for many long layouts, and reads none.
fn silent(daemon: &Daemon, key: &ShuffleAddress) -> Client {
    let layout = SegmentLayout {
        key: key.clone(),
        map_start: ALL_MAPS.0,
        map_end: ALL_MAPS.1,
        reduce_ids: (0..LONG).map(ReduceId).collect(),
    };
    let mut client = Client::connect(daemon);
    (0..64).for_each(|_| {
        client.send_rpc(&layout);
    });
    client
}

#[test]
fn a_client_that_reads_no_layout_keeps_nobody_else_from_theirs() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let mut reader = Client::connect(&daemon);
    let of = |reader: &mut Client, app| long_shuffle(reader, &daemon, app);
    let (key, other) = (of(&mut reader, "one"), of(&mut reader, "other"));
    let mut first = silent(&daemon, &key);
    first.socket.peek(&mut [0]).unwrap();
    // Its own application.
    (0..3).for_each(|_| read_layout(&mut reader, &key));
    // More than all of the memory. But another application has a part of it.
    let crowd: Vec<Client> = (0..9).map(|_| silent(&daemon, &key)).collect();
    (0..3).for_each(|_| read_layout(&mut reader, &other));
    drop(crowd);
    for _ in 0..64 {
        assert!(
            first.receive().is_some(),
            "its own answers come when it reads"
        );
    }
}

#[test]
fn applications_that_read_no_layouts_keep_another_one_from_its_own_for_a_moment_only() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let mut reader = Client::connect(&daemon);
    let key = long_shuffle(&mut reader, &daemon, "honest");
    let crowd: Vec<Client> = ["one", "other"]
        .map(|app| long_shuffle(&mut reader, &daemon, app))
        .iter()
        .flat_map(|key| (0..9).map(|_| silent(&daemon, key)))
        .collect();
    let began = Instant::now();
    (0..3).for_each(|_| read_layout(&mut reader, &key));
    let waited = began.elapsed();
    assert!(waited < STALL_TIMEOUT / 2, "{waited:?}");
    daemon.logged("others wait for their memory");
    drop(crowd);
}

#[test]
fn malformed_frames_end_their_connection_with_a_logged_reason() {
    let daemon = Daemon::start(&[]);
    let mut bystander = Client::connect(&daemon);
    for (bytes, reason) in [
        (with_prefix(-1, 3), "frame length -1 is below"),
        (with_prefix(8, 3), "frame length 8 is below"),
        (
            // Only a removal of blocks may be longer: the type of the message says what it is.
            [with_prefix((8 << 20) + 1, 3), vec![0; 13]].concat(),
            "is over the limit of 8388608",
        ),
        (
            with_prefix((8 << 20) + 1, 10),
            "is over the limit of 8388608",
        ),
        (
            [with_prefix((64 << 20) + 1, 3), vec![7; 13]].concat(),
            "is over the limit of 8388608",
        ),
        (with_prefix(i64::MAX, 3), "is over the limit of 8388608"),
        (with_prefix(20, 200), "frame type 200 is unknown"),
        (
            with_prefix(9, 3),
            "RpcRequest: request_id needs 8 bytes, 0 remain",
        ),
        (
            Frame::RpcResponse {
                request_id: 1,
                body: Bytes::new(),
            }
            .to_bytes()
            .to_vec(),
            "no request",
        ),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            "is over the limit",
        ),
    ] {
        let mut client = Client::connect(&daemon);
        client.socket.write_all(&bytes).unwrap();
        is_closed_because(&daemon, client, reason);
        still_serves(&mut bystander);
    }
}

#[test]
fn uploads_over_a_limit_end_their_connection_before_memory_is_taken() {
    let daemon = Daemon::start(&[]);
    let upload = |meta: usize, body_bytes| {
        let meta = Bytes::from(vec![70; meta]);
        Frame::UploadStream {
            request_id: 1,
            meta,
            body_bytes,
        }
    };
    let mut client = Client::connect(&daemon);
    client.send(&upload(1, (64 << 20) + 1));
    is_closed_because(
        &daemon,
        client,
        "upload body of 67108865 bytes is over the limit",
    );
    let mut client = Client::connect(&daemon);
    client.send(&upload((4 << 20) + 1, 1));
    is_closed_because(
        &daemon,
        client,
        "upload meta of 4194305 bytes is over the limit",
    );
}

#[test]
fn a_client_that_disconnects_inside_a_request_is_detected_and_nothing_is_merged() {
    let daemon = Daemon::start(&[]);
    let mut bystander = Client::connect(&daemon);
    let key = key(&daemon, 1);
    bystander.register(&key, 4, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &[7; 100_000])]);
    let (meta, body_bytes) = (meta.to_bytes(), body.len() as u64);
    let frame = Frame::UploadStream {
        request_id: 1,
        meta,
        body_bytes,
    }
    .to_bytes();
    for cut in [5, 20, frame.len() - 1, frame.len(), frame.len() + 50_000] {
        let mut client = Client::connect(&daemon);
        let bytes = [&frame[..], &body].concat();
        client.socket.write_all(&bytes[..cut]).unwrap();
        drop(client);
        daemon.logged("closed by the client inside a request");
    }
    bystander.output(&key, 0, 2, &[(0, b"whole")]);
    assert_eq!(
        bystander.partition(&key, 0),
        [(0, 2, Bytes::from_static(b"whole"))]
    );
}

#[test]
fn names_and_answers_without_measure_are_refused_and_take_no_memory() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let long = "x".repeat(257);
    let executor = |exec: &str, dirs: Vec<String>| RegisterExecutor {
        app: app(),
        exec_id: exec.to_owned(),
        local_dirs: dirs,
        sub_dirs_per_local_dir: 64,
        shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
    };
    let refused = client.failure(&executor(&long, vec!["/a".to_owned()]));
    assert_eq!(refused, "an executor id of 257 bytes: 256 are allowed");
    let refused = client.failure(&executor("1", vec![format!("/{}", "a".repeat(4_096))]));
    assert_eq!(refused, "a local directory of 4097 bytes");
    let blocks = OpenBlocks {
        app: app(),
        exec_id: long.clone(),
        block_ids: vec!["shuffle_0_0_0".to_owned()],
    };
    assert!(client.failure(&blocks).contains("an executor id of 257"));
    let shuffle = RegisterShuffle {
        key: key(&daemon, 1),
        spec: ShuffleSpec {
            mode: Mode::Merge,
            num_maps: 1,
            num_partitions: 1,
            format: long,
        },
    };
    let refused: Refused = client.ask(&shuffle);
    assert_eq!(refused.code, Code::Malformed);
    // A few bytes of a question for each megabyte of an answer.
    let dirs = (0..1_000).map(|n| format!("/{n:0>999}")).collect();
    let id = client.send_rpc(&executor("1", dirs));
    assert!(client.answer_to(id).is_empty());
    let ask = GetLocalDirsForExecutors {
        app: app(),
        exec_ids: vec!["1".to_owned(); 9],
    };
    assert!(client.failure(&ask).contains("ask in parts"));
    still_serves(&mut client);
}

#[test]
fn random_bytes_do_no_harm_and_take_no_memory() {
    let daemon = Daemon::start(&["--memory", "16MiB"]);
    let mut random = Random::any();
    let mut bystander = Client::connect(&daemon);
    let key = key(&daemon, 1);
    bystander.register(&key, 4, 4);
    bystander.output(&key, 0, 1, &[(0, b"kept")]);
    let before = daemon.resident_bytes();
    for round in 0..300 {
        let mut client = Client::connect(&daemon);
        let count = random.below(400) as usize;
        let mut bytes = random.bytes(count);
        if round % 2 == 0 {
            // A frame that is plausible up to its payload.
            let kind = random.below(14) as u8;
            let mut frame = with_prefix(bytes.len() as i64 + 9, kind);
            if round % 4 == 0 {
                // Small numbers look like counts and lengths that can be.
                bytes
                    .iter_mut()
                    .for_each(|byte| *byte = byte.saturating_sub(250));
            }
            frame.append(&mut bytes);
            bytes = frame;
        }
        // The daemon may close while we write.
        let _ = client.socket.write_all(&bytes);
    }
    still_serves(&mut bystander);
    assert_eq!(
        bystander.partition(&key, 0),
        [(0, 1, Bytes::from_static(b"kept"))]
    );
    let taken = daemon.peak_bytes().saturating_sub(before);
    assert!(taken < 32 << 20, "{taken} bytes");
    assert!(
        !daemon
            .log_so_far()
            .iter()
            .any(|line| line.contains("panicked")),
        "a panic"
    );
}

#[test]
fn many_half_sent_uploads_wait_for_memory_instead_of_taking_it() {
    let daemon = Daemon::start(&["--memory", "16MiB"]);
    let mut owner = Client::connect(&daemon);
    let key = key(&daemon, 1);
    owner.register(&key, 100, 1);
    let before = daemon.resident_bytes();
    let size = 1 << 20;
    let mut uploads: Vec<(Client, PushBatch, Vec<u8>)> = (0..40)
        .map(|map| {
            let mut client = Client::connect(&daemon);
            let bytes = vec![map as u8; size];
            let (meta, body) = batch(&key, map, 1, &[(0, &bytes)]);
            client.send(&Frame::UploadStream {
                request_id: 1,
                meta: meta.to_bytes(),
                body_bytes: body.len() as u64,
            });
            client.socket.write_all(&body[..size / 2]).unwrap();
            (client, meta, body)
        })
        .collect();
    // Requests that need none of that memory are served meanwhile.
    still_serves(&mut owner);
    std::thread::scope(|scope| {
        for (client, meta, body) in &mut uploads {
            scope.spawn(move || {
                client.socket.write_all(&body[size / 2..]).unwrap();
                client.answer_to(1);
                let _: Done = client.ask(&commit_of(std::slice::from_ref(meta)));
            });
        }
    });
    assert_eq!(owner.partition(&key, 0).len(), 40);
    let taken = daemon.peak_bytes() - before;
    assert!(taken < 40 << 20, "{taken} bytes");
}
