// SPDX-License-Identifier: Apache-2.0
//! Every request, with the application of another client, and without a proof: a service with
//! secrets refuses it, whichever way its clients authenticate in.

use std::collections::BTreeSet;

use bytes::Bytes;
use lodestone_auth::exchange::Version;
use lodestone_model::{
    AppAttempt, AppId, GenerationId, Ledger, MapId, MapIndex, Mode, ReduceId, ShuffleId,
    ShuffleKey, ShuffleSpec, SuspectBlock,
};
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::drain::Drain;
use lodestone_wire::extension::explain::{ExplainApplication, ReportApplication};
use lodestone_wire::extension::fetch::{FetchSegments, SegmentLayout};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::lease::RenewLease;
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Refused;
use lodestone_wire::frame::{ChunkId, MergedBlockMetaRequest, StreamId};
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::fetch::FetchShuffleBlockChunks;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::originals::{DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks};
use lodestone_wire::spark::push::PushBlockStream;
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};
use lodestone_wire::spark::remove::{RemoveBlocks, RemoveShuffleMerge};
use lodestone_wire::{Frame, Message, REQUESTS};

use crate::support::certified::Made;
use crate::support::client::{app, batch, hello, key, read};
use crate::support::proof::{
    SECRET, authenticated, authenticated_with_gcm, next, other, secrets, start, with_sasl,
};
use crate::support::{Client, Daemon};

/// What a request about another application is answered with.
const NOT_THEIRS: &str = "authenticated as";

fn address(daemon: &Daemon, app: AppId) -> ShuffleAddress {
    let mut address = key(daemon, 1);
    address.shuffle.app = app;
    address
}

fn sparks(app: &AppId) -> ShuffleKey {
    ShuffleKey {
        app: app.clone(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(1),
        generation: GenerationId(0),
    }
}

fn named<M: Message>(message: &M) -> (&'static str, Bytes) {
    (M::NAME, message.to_bytes())
}

/// Every request of an application that gets an answer, by its name.
fn requests(daemon: &Daemon, app: &AppId) -> Vec<(&'static str, Bytes)> {
    let end = EndApplication {
        app: app.clone(),
        app_attempt: AppAttempt::NONE,
    };
    let all = extension_requests(daemon, app).into_iter();
    all.chain(spark_requests(app))
        .chain([named(&end)])
        .collect()
}

fn extension_requests(daemon: &Daemon, app: &AppId) -> Vec<(&'static str, Bytes)> {
    let (key, app) = (address(daemon, app.clone()), app.clone());
    let (map_index, map_id, app_attempt) = (MapIndex(0), MapId(0), AppAttempt::NONE);
    vec![
        named(&RenewLease {
            app: app.clone(),
            app_attempt,
            incarnation: 0,
            ttl_ms: 60_000,
        }),
        named(&RegisterShuffle {
            key: key.clone(),
            spec: ShuffleSpec {
                mode: Mode::Merge,
                num_maps: 1,
                num_partitions: 1,
                format: "spark-stream".to_owned(),
            },
        }),
        named(&CommitMap {
            key: key.clone(),
            map_index,
            map_id,
            pushed: Ledger::default(),
        }),
        named(&AbortMap {
            key: key.clone(),
            map_index,
            map_id,
        }),
        named(&SegmentLayout {
            key: key.clone(),
            map_start: 0,
            map_end: 1,
            reduce_ids: vec![ReduceId(0)],
        }),
        named(&FetchSegments {
            key: key.clone(),
            chunks: Vec::new(),
        }),
        named(&ReportApplication {
            app: app.clone(),
            app_attempt,
            ended: false,
            report: "{}".to_owned(),
        }),
        named(&ExplainApplication {
            app: app.as_str().to_owned(),
        }),
    ]
}

fn spark_requests(app: &AppId) -> Vec<(&'static str, Bytes)> {
    let executor = || "1".to_owned();
    let (shuffle_id, map_id, reduce_id) = (ShuffleId(1), MapId(0), ReduceId(0));
    vec![
        named(&RegisterExecutor {
            app: app.clone(),
            exec_id: executor(),
            local_dirs: vec!["/tmp".to_owned()],
            sub_dirs_per_local_dir: 64,
            shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
        }),
        named(&GetLocalDirsForExecutors {
            app: app.clone(),
            exec_ids: vec![executor()],
        }),
        named(&FinalizeShuffleMerge { key: sparks(app) }),
        named(&FetchShuffleBlockChunks {
            app: app.clone(),
            exec_id: MERGER_EXECUTOR.to_owned(),
            shuffle_id,
            shuffle_merge_id: GenerationId(0),
            chunks: vec![(reduce_id, vec![0])],
        }),
        named(&FetchShuffleBlocks {
            app: app.clone(),
            exec_id: executor(),
            shuffle_id,
            blocks: vec![(map_id, vec![reduce_id])],
            batch: false,
        }),
        named(&OpenBlocks {
            app: app.clone(),
            exec_id: executor(),
            block_ids: vec!["rdd_1_1".to_owned()],
        }),
        named(&DiagnoseCorruption {
            app: app.clone(),
            exec_id: executor(),
            block: SuspectBlock {
                shuffle: shuffle_id,
                map: map_id,
                reduce: reduce_id,
                reader_checksum: 0,
            },
            algorithm: "CRC32C".to_owned(),
        }),
        named(&RemoveBlocks {
            app: app.clone(),
            exec_id: executor(),
            block_ids: vec!["rdd_1_1".to_owned()],
        }),
    ]
}

/// The text of an answer that refuses, or nothing.
fn refusal(answer: Result<Bytes, String>) -> String {
    match answer {
        Err(text) => text,
        Ok(body) if body.first() == Some(&Refused::ID) => read::<Refused>(&body).detail,
        Ok(_) => String::new(),
    }
}

/// A frame with a request, and the bytes after it, by the name of the request.
type Sent = (&'static str, Frame, Vec<u8>);

/// Every request of an application that gets an answer.
fn frames(daemon: &Daemon, app: &AppId) -> Vec<Sent> {
    let request_id = 77;
    let (push, body) = batch(&address(daemon, app.clone()), 0, 0, &[(0, b"bytes")]);
    let block = PushBlockStream {
        key: sparks(app),
        map_index: MapIndex(0),
        reduce_id: ReduceId(0),
        index: 0,
    };
    let meta = Frame::MergedBlockMetaRequest(MergedBlockMetaRequest {
        request_id,
        app: app.clone(),
        shuffle_id: ShuffleId(1),
        shuffle_merge_id: GenerationId(0),
        reduce_id: ReduceId(0),
    });
    // Before the application ends.
    let mut frames = vec![
        upload(&push, body),
        upload(&block, b"bytes".to_vec()),
        ("MergedBlockMetaRequest", meta, Vec::new()),
    ];
    for (name, body) in requests(daemon, app) {
        frames.push((name, Frame::RpcRequest { request_id, body }, Vec::new()));
    }
    frames
}

fn upload<M: Message>(meta: &M, body: Vec<u8>) -> Sent {
    let frame = Frame::UploadStream {
        request_id: 77,
        meta: meta.to_bytes(),
        body_bytes: body.len() as u64,
    };
    (M::NAME, frame, body)
}

/// What each request of an application is refused with, by the name of the request.
fn refusals(daemon: &Daemon, client: &mut Client, app: &AppId) -> Vec<(&'static str, String)> {
    let mut refusals = Vec::new();
    for (name, frame, body) in frames(daemon, app) {
        client.send(&frame);
        client.write(&body);
        refusals.push((name, refusal(next(client))));
    }
    refusals
}

/// Tries every request of a client of `app-1`.
fn assert_it_reaches_its_own(way: &str, daemon: &Daemon, mut client: Client) {
    for (name, refusal) in refusals(daemon, &mut client, &other()) {
        assert!(
            refusal.contains(NOT_THEIRS),
            "{way}: {name} of another: {refusal:?}"
        );
    }
    // As Spark names it, and as the plugin does.
    let ours = AppId::new("app-1~0123456789abcdef").unwrap();
    let refused = [app(), ours].map(|app| refusals(daemon, &mut client, &app));
    for (name, refusal) in refused.into_iter().flatten() {
        assert!(
            !refusal.contains(NOT_THEIRS),
            "{way}: {name} of its own: {refusal:?}"
        );
    }
}

#[test]
fn a_client_reaches_its_own_application_and_no_other_with_any_request() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let client = with_sasl(Client::connect(&daemon), &app(), SECRET).unwrap();
    assert_it_reaches_its_own("SASL", &daemon, client);
    for version in [Version::One, Version::Two] {
        let client = authenticated(&daemon, &app(), SECRET, version).unwrap();
        assert_it_reaches_its_own("counter mode", &daemon, client);
        let client = authenticated_with_gcm(&daemon, &app(), SECRET, version).unwrap();
        assert_it_reaches_its_own("Galois/counter mode", &daemon, client);
    }
}

#[test]
fn a_client_in_tls_reaches_its_own_application_and_no_other_with_any_request() {
    let (secrets, made) = (secrets(), Made::new());
    let path = secrets.path().to_str().unwrap();
    let daemon = made.start(&["--secrets", path, "--encrypted-only"]);
    let client = with_sasl(made.connect(&daemon), &app(), SECRET).unwrap();
    assert_it_reaches_its_own("TLS", &daemon, client);
}

/// Handlers decode no message that is not in the list of requests.
#[test]
fn each_request_is_tried() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let mut tried: BTreeSet<_> = frames(&daemon, &app())
        .into_iter()
        .map(|(name, ..)| name)
        .collect();
    assert!(tried.remove("MergedBlockMetaRequest"), "it is a frame");
    // This one has no answer. The others name no application.
    tried.extend([RemoveShuffleMerge::NAME, Hello::NAME, Drain::NAME]);
    assert_eq!(tried, REQUESTS.iter().copied().collect());
}

#[test]
fn a_one_way_request_about_another_application_has_no_effect() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let address = address(&daemon, app());
    let mut owner = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    owner.register(&address, 1, 1);
    owner.output(&address, 0, 0, &[(0, b"bytes")]);
    let mut stranger = authenticated(&daemon, &other(), "another", Version::One).unwrap();
    let key = sparks(&app());
    let body = RemoveShuffleMerge { key }.to_bytes();
    stranger.send(&Frame::OneWay { body });
    // Requests of one connection are carried out in order.
    let _: HelloReply = stranger.ask(&hello());
    let layout = owner.layout(&address, (0, 1), &[0]);
    assert_eq!(layout.partitions.len(), 1, "it is still there");
}

#[test]
fn chunks_of_a_stream_come_only_on_the_connection_that_opened_it() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let address = address(&daemon, app());
    let mut owner = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    owner.register(&address, 1, 1);
    owner.output(&address, 0, 0, &[(0, b"bytes")]);
    let (handle, _) = owner.open_partition(&address, 0, 1);
    let mut stranger = authenticated(&daemon, &other(), "another", Version::One).unwrap();
    for frame in chunk_of(handle.stream_id) {
        stranger.send(&frame);
        let answer = stranger.receive();
        assert!(
            matches!(
                answer,
                Some(Frame::ChunkFetchFailure(_) | Frame::StreamFailure(_))
            ),
            "{answer:?}"
        );
    }
    assert_eq!(owner.take(&handle).concat(), b"bytes");
}

/// Both ways to ask for the first chunk of a stream.
fn chunk_of(stream_id: i64) -> [Frame; 2] {
    let name = format!("{stream_id}_0");
    let chunk_index = 0;
    let chunk = ChunkId {
        stream_id,
        chunk_index,
    };
    [
        Frame::ChunkFetchRequest(chunk),
        Frame::StreamRequest(StreamId { name }),
    ]
}

/// Whether a client without a proof learns why it is not served. A kind of frame that is added has
/// its answer here.
fn learns_why(frame: &Frame) -> bool {
    match frame {
        Frame::RpcRequest { .. }
        | Frame::UploadStream { .. }
        | Frame::MergedBlockMetaRequest(_) => true,
        Frame::OneWay { .. } | Frame::ChunkFetchRequest(_) | Frame::StreamRequest(_) => false,
        Frame::ChunkFetchSuccess { .. }
        | Frame::ChunkFetchFailure(_)
        | Frame::RpcResponse { .. }
        | Frame::RpcFailure(_)
        | Frame::StreamResponse(_)
        | Frame::StreamFailure(_)
        | Frame::MergedBlockMetaSuccess { .. } => unreachable!("a service sends it"),
    }
}

#[test]
fn no_request_without_a_proof_is_carried_out() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let address = address(&daemon, app());
    let mut owner = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    owner.register(&address, 1, 1);
    owner.output(&address, 0, 0, &[(0, b"bytes")]);
    let (handle, _) = owner.open_partition(&address, 0, 1);
    let key = sparks(&app());
    let body = RemoveShuffleMerge { key }.to_bytes();
    let mut all: Vec<_> = frames(&daemon, &app())
        .into_iter()
        .map(|(name, frame, _)| (name, frame))
        .collect();
    all.push((RemoveShuffleMerge::NAME, Frame::OneWay { body }));
    all.extend(chunk_of(handle.stream_id).map(|frame| ("a chunk", frame)));
    for (name, frame) in all {
        // On a connection of its own: one is all that it gets. The body of an upload would come to
        // one that is closed.
        let mut nobody = Client::connect(&daemon);
        nobody.send(&frame);
        if learns_why(&frame) {
            let error = next(&mut nobody).unwrap_err();
            let remedy = "set spark.authenticate=true";
            assert!(error.contains(remedy), "{name}: {error}");
        }
        assert_eq!(nobody.receive_to_the_end(), 0, "{name}: closed");
    }
    let layout = owner.layout(&address, (0, 1), &[0]);
    assert_eq!(layout.partitions.len(), 1, "it is still there");
    assert_eq!(owner.take(&handle).concat(), b"bytes");
}
