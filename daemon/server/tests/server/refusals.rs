// SPDX-License-Identifier: Apache-2.0
//! A daemon refuses with a code, and the connection continues.

use crate::support::client::{ALL_MAPS, batch, commit_of, generation, key, read};
use crate::support::{Client, Daemon};
use lodestone_model::{AppId, Code, Mode, ReduceId, SegmentRun, ShuffleSpec};
use lodestone_wire::extension::fetch::{FetchSegments, SegmentLayout, WantedChunk};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::Refused;
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};
use lodestone_wire::frame::{ChunkId, StreamId};
use lodestone_wire::spark::authenticate::SaslMessage;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::remove::RemoveShuffleMerge;
use lodestone_wire::{Frame, Message};

fn layout_of(key: &ShuffleAddress, reduce_id: u32) -> SegmentLayout {
    let (map_start, map_end) = ALL_MAPS;
    SegmentLayout {
        key: key.clone(),
        map_start,
        map_end,
        reduce_ids: vec![ReduceId(reduce_id)],
    }
}

fn fetch_of(key: &ShuffleAddress, reduce_id: u32, runs: &[(u32, u32)]) -> FetchSegments {
    let run = |&(first, count): &(u32, u32)| SegmentRun { first, count };
    let runs = runs.iter().map(run).collect();
    FetchSegments {
        key: key.clone(),
        chunks: vec![WantedChunk {
            reduce_id: ReduceId(reduce_id),
            runs,
        }],
    }
}

fn push_refusal(client: &mut Client, meta: &PushBatch, body: &[u8]) -> Code {
    let id = client.send_upload(meta, body);
    read::<Refused>(&client.answer_to(id)).code
}

/// The connection still works.
fn still_talks(client: &mut Client) {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: String::new(),
    };
    let _: HelloReply = client.ask(&hello);
}

#[test]
fn another_protocol_version_is_refused_and_both_are_named() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let hello = Hello {
        protocol_version: 99,
        client_name: "future".to_owned(),
    };
    let refused: Refused = client.ask(&hello);
    assert_eq!(refused.code, Code::VersionMismatch);
    let ours = format!("version {PROTOCOL_VERSION}");
    assert!(refused.detail.contains("99") && refused.detail.contains(&ours));
    still_talks(&mut client);
}

#[test]
fn the_unknown_is_refused_and_never_empty() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let known = key(&daemon, 1);
    let mut stranger = known.clone();
    stranger.shuffle.app = AppId::new("stranger").unwrap();
    assert_eq!(
        client.refusal(&layout_of(&stranger, 0)),
        Code::UnknownApplication
    );
    client.register(&known, 4, 4);
    let other = key(&daemon, 2);
    assert_eq!(client.refusal(&layout_of(&other, 0)), Code::UnknownShuffle);
    let (meta, body) = batch(&other, 0, 1, &[(0, b"bytes")]);
    let commit = commit_of(std::slice::from_ref(&meta));
    assert_eq!(client.refusal(&commit), Code::UnknownShuffle);
    assert_eq!(
        push_refusal(&mut client, &meta, &body),
        Code::UnknownShuffle
    );
    client.output(&known, 0, 1, &[(0, b"bytes")]);
    let layout = client.layout(&known, ALL_MAPS, &[1]);
    assert_eq!(layout.partitions[0].code, Code::UnknownPartition);
    assert_eq!(
        client.refusal(&fetch_of(&known, 1, &[(0, 1)])),
        Code::UnknownPartition
    );
    still_talks(&mut client);
}

#[test]
fn slots_without_a_segment_are_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 4, 4);
    for map in 0..3 {
        client.output(&key, map, 1, &[(0, b"bytes")]);
    }
    let bad: [&[(u32, u32)]; 6] = [
        &[(0, 4)],
        &[(3, 1)],
        &[],
        &[(0, 0)],
        &[(1, 1), (0, 1)],
        &[(0, 2), (1, i32::MAX as u32)],
    ];
    for runs in bad {
        let refused = client.refusal(&fetch_of(&key, 0, runs));
        assert_eq!(refused, Code::Malformed, "{runs:?}");
    }
    still_talks(&mut client);
}

#[test]
fn a_request_for_another_incarnation_is_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let ours = key(&daemon, 1);
    client.register(&ours, 4, 4);
    let stale = ShuffleAddress {
        incarnation: ours.incarnation ^ 1,
        ..ours.clone()
    };
    assert_eq!(
        client.refusal(&layout_of(&stale, 0)),
        Code::StaleIncarnation
    );
    let format = "spark-stream".to_owned();
    let register = RegisterShuffle {
        key: stale.clone(),
        spec: ShuffleSpec {
            mode: Mode::Merge,
            num_maps: 4,
            num_partitions: 4,
            format,
        },
    };
    assert_eq!(client.refusal(&register), Code::StaleIncarnation);
    let (meta, body) = batch(&stale, 0, 1, &[(0, &[7; 100_000])]);
    let commit = commit_of(std::slice::from_ref(&meta));
    assert_eq!(client.refusal(&commit), Code::StaleIncarnation);
    assert_eq!(
        push_refusal(&mut client, &meta, &body),
        Code::StaleIncarnation
    );
    // The refused body was drained: the next push is understood.
    assert_eq!(client.push(&ours, 0, 1, &[(0, b"bytes")]), [Code::Ok]);
}

#[test]
fn each_segment_of_a_batch_gets_its_own_code_and_an_operator_sees_it() {
    let daemon = Daemon::start(&["--admin", "127.0.0.1:0"]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 4, 4);
    assert_eq!(client.push(&key, 0, 1, &[(0, b"first")]), [Code::Ok]);
    let again = client.push(&key, 0, 1, &[(0, b"first"), (1, b"second")]);
    assert_eq!(again, [Code::Duplicate, Code::Ok]);
    let other = client.push(&key, 0, 1, &[(0, b"other"), (1, b"second")]);
    assert_eq!(other, [Code::OtherContent; 2]);
    assert_eq!(client.push(&key, 0, 2, &[(0, b"other")]), [Code::Ok]);
    let (mut meta, body) = batch(&key, 1, 1, &[(0, b"good"), (1, b"bad!")]);
    meta.segments[1].crc32c.0 ^= 1;
    let id = client.send_upload(&meta, &body);
    let codes = read::<PushBatchReply>(&client.answer_to(id)).codes;
    assert_eq!(codes, [Code::Ok, Code::ChecksumMismatch]);
    let removed = RemoveShuffleMerge { key: generation(1) };
    client.send(&Frame::OneWay {
        body: removed.to_bytes(),
    });
    assert_eq!(client.push(&key, 2, 1, &[(0, b"late")]), [Code::TooLate]);
    for (code, count) in [
        ("OTHER_CONTENT", 2.0),
        ("CHECKSUM_MISMATCH", 1.0),
        ("TOO_LATE", 1.0),
    ] {
        let counted = format!("lodestone_merge_rejected_total{{code=\"{code}\"}}");
        daemon.reaches(&counted, count);
    }
}

/// Both sides of the wire know that these numbers are of an earlier version.
#[test]
fn messages_that_were_retired_are_refused_like_any_that_is_unknown() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (request_id, id) in [(1, 72), (2, 95)] {
        let body = vec![id].into();
        client.send(&Frame::RpcRequest { request_id, body });
        let refused = read::<Refused>(&client.answer_to(request_id));
        assert_eq!(refused.code, Code::Malformed, "{id}");
    }
    still_talks(&mut client);
}

#[test]
fn a_batch_that_contradicts_itself_has_no_effect() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 4, 4);
    let (meta, body) = batch(&key, 0, 1, &[(0, b"four")]);
    assert_eq!(
        push_refusal(&mut client, &meta, b"fourteen"),
        Code::Malformed
    );
    let (empty, nothing) = batch(&key, 0, 1, &[(0, b"")]);
    assert_eq!(push_refusal(&mut client, &empty, &nothing), Code::Malformed);
    let (beyond, bytes) = batch(&key, 4, 1, &[(0, b"four")]);
    assert_eq!(push_refusal(&mut client, &beyond, &bytes), Code::Malformed);
    let id = client.send_upload(&meta, &body);
    assert_eq!(
        read::<PushBatchReply>(&client.answer_to(id)).codes,
        [Code::Ok]
    );
}

#[test]
fn payloads_that_do_not_decode_are_answered_and_the_connection_stays() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let rpc = |client: &mut Client, id: i64, body: &'static [u8]| {
        client.send(&Frame::RpcRequest {
            request_id: id,
            body: body.into(),
        });
    };
    rpc(&mut client, 901, &[74, 1, 2]);
    assert_eq!(
        read::<Refused>(&client.answer_to(901)).code,
        Code::Malformed
    );
    rpc(&mut client, 902, &[100]);
    assert_eq!(
        read::<Refused>(&client.answer_to(902)).code,
        Code::Malformed
    );
    rpc(&mut client, 903, &[2, 1, 2]);
    assert!(client.failure_of(903).contains("RegisterExecutor"));
    rpc(&mut client, 904, &[50]);
    assert!(client.failure_of(904).contains("unknown message type: 50"));
    rpc(&mut client, 905, &[]);
    assert!(client.failure_of(905).contains("empty"));
    rpc(&mut client, 906, &[SaslMessage::ID, 0, 0]);
    assert!(
        client
            .failure_of(906)
            .contains("this service has no secrets")
    );
    let key = generation(1);
    let failure = client.failure(&FinalizeShuffleMerge { key });
    assert!(failure.contains("app-1"), "{failure}");
    still_talks(&mut client);
}

#[test]
fn chunks_come_in_order_from_streams_that_are_open() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 1, 2);
    client.output(&key, 0, 1, &[(0, b"zero"), (1, b"one")]);
    let handle = client.open(&key, &[(0, &[(0, 1)]), (1, &[(0, 1)])]);
    let chunk = |chunk_index| ChunkId {
        stream_id: handle.stream_id,
        chunk_index,
    };
    let failure = |client: &mut Client, chunk: ChunkId| {
        client.send(&Frame::ChunkFetchRequest(chunk));
        match client.receive() {
            Some(Frame::ChunkFetchFailure(failure)) if failure.chunk == chunk => failure.error,
            other => panic!("instead of a failure: {other:?}"),
        }
    };
    let too_early = failure(&mut client, chunk(1));
    assert!(too_early.contains("out-of-order"), "{too_early}");
    assert!(too_early.starts_with("[MALFORMED] "), "{too_early}");
    // A stream belongs to its connection.
    let mut other = Client::connect(&daemon);
    assert!(failure(&mut other, chunk(0)).contains("is closed"));
    assert_eq!(client.take(&handle), ["zero", "one"]);
    assert!(failure(&mut client, chunk(2)).contains("is closed"));
    client.send(&Frame::StreamRequest(StreamId {
        name: "nonsense".to_owned(),
    }));
    assert!(matches!(client.receive(), Some(Frame::StreamFailure(_))));
    still_talks(&mut client);
}
