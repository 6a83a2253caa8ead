// SPDX-License-Identifier: Apache-2.0
//! Spark's messages against bytes that Spark's own classes made:
//! `protocol/vectors/spark-messages.txt`.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod vectors;

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use lodestone_model::{
    AppAttempt, AppId, Cause, GenerationId, MapId, MapIndex, MergeStatus, ReduceId, ShuffleId,
    ShuffleKey, SuspectBlock,
};
use lodestone_wire::Message;
use lodestone_wire::frame::{self, ChunkId, Frame, FrameDecoder, Limits};
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::authenticate::{AuthMessage, SaslMessage};
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

const FILE: &str = "spark-messages.txt";

fn app() -> AppId {
    AppId::new("app").unwrap()
}

fn key(shuffle_merge_id: i32) -> ShuffleKey {
    ShuffleKey {
        app: app(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(5),
        generation: GenerationId(shuffle_merge_id),
    }
}

fn check<M: Message + PartialEq + Debug>(name: &str, message: M) {
    let golden = vectors::read(FILE)
        .remove(name)
        .unwrap_or_else(|| panic!("no vector {name}"));
    assert_eq!(
        vectors::to_hex(&message.to_bytes()),
        vectors::to_hex(&golden),
        "{name}: encoding"
    );
    assert_eq!(M::from_bytes(&golden).unwrap(), message, "{name}: decoding");
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn registration_has_the_bytes_of_spark() {
    check(
        "RegisterExecutor",
        RegisterExecutor {
            app: app(),
            exec_id: "1".into(),
            local_dirs: strings(&["/a", "/b"]),
            sub_dirs_per_local_dir: 64,
            shuffle_manager: r#"org.X:{"mergeDir":"merge_manager_1","attemptId":"1"}}}"#.into(),
        },
    );
    let exec_ids = strings(&["1", MERGER_EXECUTOR]);
    check(
        "GetLocalDirs",
        GetLocalDirsForExecutors {
            app: app(),
            exec_ids,
        },
    );
    let executors = vec![("1".to_owned(), strings(&["/a", "/b"]))];
    check("LocalDirs", LocalDirsForExecutors { executors });
}

#[test]
fn push_has_the_bytes_of_spark() {
    check(
        "PushBlockStream",
        PushBlockStream {
            key: key(0),
            map_index: MapIndex(3),
            reduce_id: ReduceId(2),
            index: 9,
        },
    );
    let code = PushCode::Success;
    check(
        "BlockPushReturnCode0",
        BlockPushReturnCode {
            code,
            failure_block_id: String::new(),
        },
    );
    let failure_block_id = "shufflePush_5_0_3_2".to_owned();
    check(
        "BlockPushReturnCode1",
        BlockPushReturnCode {
            code: PushCode::TooLate,
            failure_block_id,
        },
    );
}

#[test]
fn finalize_has_the_bytes_of_spark() {
    check("FinalizeShuffleMerge", FinalizeShuffleMerge { key: key(0) });
    let none = MergeStatuses {
        shuffle_id: ShuffleId(5),
        shuffle_merge_id: GenerationId(0),
        partitions: vec![],
    };
    check("MergeStatusesEmpty", none);
    // Both bitmaps are as Spark left them: run-length encoded if that is shorter.
    let mut first: roaring::RoaringBitmap = [1, 2, 3, 5].into();
    first.optimize();
    let golden = vectors::read(FILE).remove("MergeStatuses").unwrap();
    let decoded = MergeStatuses::from_bytes(&golden).unwrap();
    assert_eq!(decoded.partitions.len(), 2);
    let reduce_ids: Vec<u32> = decoded
        .partitions
        .iter()
        .map(|status| status.reduce_id.0)
        .collect();
    let sizes: Vec<u64> = decoded
        .partitions
        .iter()
        .map(|status| status.bytes)
        .collect();
    assert_eq!((reduce_ids, sizes), (vec![1, 2], vec![100, 200]));
    let rebuilt = decoded.partitions.iter().map(|status| {
        let mut maps: roaring::RoaringBitmap = status.maps.iter().collect();
        maps.optimize();
        MergeStatus {
            reduce_id: status.reduce_id,
            maps,
            bytes: status.bytes,
        }
    });
    let rebuilt = MergeStatuses {
        shuffle_id: ShuffleId(5),
        shuffle_merge_id: GenerationId(0),
        partitions: rebuilt.collect(),
    };
    check("MergeStatuses", rebuilt);
}

#[test]
fn bitmaps_have_the_bytes_of_spark_with_and_without_runs() {
    let all = vectors::read(FILE);
    let plain: roaring::RoaringBitmap = (0..100).collect();
    let mut bytes = Vec::new();
    plain.serialize_into(&mut bytes).unwrap();
    assert_eq!(bytes, all["metafile.bitmap.0-99.noRunOpt"]);
    let mut runs = plain.clone();
    runs.optimize();
    bytes.clear();
    runs.serialize_into(&mut bytes).unwrap();
    assert!(all["bitmap.0-99.runOpt"].starts_with(&bytes));
}

#[test]
fn fetch_has_the_bytes_of_spark() {
    check(
        "StreamHandle",
        StreamHandle {
            stream_id: 1_234_567_890_123,
            num_chunks: 7,
        },
    );
    check(
        "FetchShuffleBlockChunks",
        FetchShuffleBlockChunks {
            app: app(),
            exec_id: MERGER_EXECUTOR.into(),
            shuffle_id: ShuffleId(5),
            shuffle_merge_id: GenerationId(0),
            chunks: vec![(ReduceId(0), vec![0, 1]), (ReduceId(1), vec![0])],
        },
    );
}

#[test]
fn originals_have_the_bytes_of_spark() {
    let block_ids = strings(&["shuffle_0_1_2", "shuffle_0_3_4"]);
    check(
        "OpenBlocks",
        OpenBlocks {
            app: app(),
            exec_id: "1".into(),
            block_ids,
        },
    );
    let blocks = |second: [u32; 2], first: [u32; 2], batch| FetchShuffleBlocks {
        app: app(),
        exec_id: "1".into(),
        shuffle_id: ShuffleId(5),
        blocks: vec![
            (MapId(10), first.map(ReduceId).to_vec()),
            (MapId(11), second.map(ReduceId).to_vec()),
        ],
        batch,
    };
    check("FetchShuffleBlocks", blocks([2, 3], [0, 1], false));
    check("FetchShuffleBlocksBatch", blocks([2, 3], [0, 4], true));
    check(
        "DiagnoseCorruption",
        DiagnoseCorruption {
            app: app(),
            exec_id: "1".into(),
            block: SuspectBlock {
                shuffle: ShuffleId(5),
                map: MapId(10),
                reduce: ReduceId(2),
                reader_checksum: 12345,
            },
            algorithm: "ADLER32".into(),
        },
    );
    for (name, cause) in [
        ("DISK_ISSUE", Cause::DiskIssue),
        ("NETWORK_ISSUE", Cause::NetworkIssue),
        ("UNKNOWN_ISSUE", Cause::UnknownIssue),
        ("CHECKSUM_VERIFY_PASS", Cause::ChecksumVerifyPass),
        (
            "UNSUPPORTED_CHECKSUM_ALGORITHM",
            Cause::UnsupportedChecksumAlgorithm,
        ),
    ] {
        check(
            &format!("CorruptionCause.{name}"),
            CorruptionCause { cause },
        );
    }
}

#[test]
fn removal_has_the_bytes_of_spark() {
    let block_ids = strings(&["rdd_1_2"]);
    check(
        "RemoveBlocks",
        RemoveBlocks {
            app: app(),
            exec_id: "1".into(),
            block_ids,
        },
    );
    check("BlocksRemoved", BlocksRemoved { count: 3 });
    check("RemoveShuffleMerge", RemoveShuffleMerge { key: key(-1) });
}

/// A frame that the vectors hold, its name, and the bytes that follow it.
type Named = (&'static str, Frame, &'static [u8]);

const CHUNK: ChunkId = ChunkId {
    stream_id: 9,
    chunk_index: 1,
};

fn boom() -> String {
    "boom".to_owned()
}

fn stream_name() -> String {
    "9_1".to_owned()
}

fn rpc_frames() -> Vec<Named> {
    let push = PushBlockStream {
        key: key(0),
        map_index: MapIndex(3),
        reduce_id: ReduceId(2),
        index: 9,
    };
    let stream_handle = Bytes::from_static(&[3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
    let failure = frame::RpcFailure {
        request_id: 77,
        error: boom(),
    };
    let meta = push.to_bytes();
    let one_way = RemoveShuffleMerge { key: key(-1) }.to_bytes();
    vec![
        (
            "RpcRequest",
            Frame::RpcRequest {
                request_id: 77,
                body: stream_handle,
            },
            b"",
        ),
        (
            "RpcResponseEmpty",
            Frame::RpcResponse {
                request_id: 77,
                body: Bytes::new(),
            },
            b"",
        ),
        ("RpcFailure", Frame::RpcFailure(failure), b""),
        ("OneWay", Frame::OneWay { body: one_way }, b""),
        (
            "UploadStream+body",
            Frame::UploadStream {
                request_id: 77,
                meta,
                body_bytes: 4,
            },
            b"data",
        ),
    ]
}

fn fetch_frames() -> Vec<Named> {
    let data = Bytes::from_static(b"data");
    let chunk_failure = frame::ChunkFailure {
        chunk: CHUNK,
        error: boom(),
    };
    let head = frame::StreamHead {
        name: stream_name(),
        byte_count: 4,
    };
    let stream_failure = frame::StreamFailure {
        name: stream_name(),
        error: boom(),
    };
    let (request_id, num_chunks, body) = (77, 1, Bytes::from_static(&[1, 2, 3]));
    let meta_request = frame::MergedBlockMetaRequest {
        request_id: 77,
        app: app(),
        shuffle_id: ShuffleId(5),
        shuffle_merge_id: GenerationId(0),
        reduce_id: ReduceId(2),
    };
    let meta = Frame::MergedBlockMetaSuccess {
        request_id,
        num_chunks,
        body,
    };
    vec![
        ("ChunkFetchRequest", Frame::ChunkFetchRequest(CHUNK), b""),
        (
            "ChunkFetchSuccess",
            Frame::ChunkFetchSuccess {
                chunk: CHUNK,
                body: data,
            },
            b"",
        ),
        (
            "ChunkFetchFailure",
            Frame::ChunkFetchFailure(chunk_failure),
            b"",
        ),
        (
            "StreamRequest",
            Frame::StreamRequest(frame::StreamId {
                name: stream_name(),
            }),
            b"",
        ),
        ("StreamResponse+body", Frame::StreamResponse(head), b"data"),
        ("StreamFailure", Frame::StreamFailure(stream_failure), b""),
        (
            "MergedBlockMetaRequest",
            Frame::MergedBlockMetaRequest(meta_request),
            b"",
        ),
        ("MergedBlockMetaSuccess", meta, b""),
    ]
}

#[test]
fn every_frame_has_the_bytes_of_spark() {
    let all = vectors::read(FILE);
    let mut expected: Vec<_> = all
        .keys()
        .filter(|name| name.starts_with("Frame."))
        .collect();
    let decoder = FrameDecoder::new(Limits::SERVER);
    for (name, frame, after) in rpc_frames().into_iter().chain(fetch_frames()) {
        let name = format!("Frame.{name}");
        expected.retain(|&other| *other != name);
        let mut bytes = frame.to_bytes().to_vec();
        bytes.extend_from_slice(after);
        assert_eq!(
            vectors::to_hex(&bytes),
            vectors::to_hex(&all[&name]),
            "{name}: encoding"
        );
        let mut buffer = BytesMut::from(&all[&name][..]);
        assert_eq!(
            decoder.next(&mut buffer).unwrap().unwrap(),
            frame,
            "{name}: decoding"
        );
        assert_eq!(&buffer[..], after, "{name}: what follows the frame stays");
    }
    assert_eq!(
        expected,
        Vec::<&String>::new(),
        "vectors that no test looks at"
    );
}

#[test]
fn the_head_of_a_chunk_is_the_start_of_its_frame() {
    let chunk = ChunkId {
        stream_id: 9,
        chunk_index: 1,
    };
    let golden = &vectors::read(FILE)["Frame.ChunkFetchSuccess"];
    let head = frame::chunk_fetch_success_head(chunk, 4);
    assert_eq!([&head[..], b"data"].concat(), *golden);
}

#[test]
fn handshakes_have_sparks_bytes() {
    let token = |text: &str| SaslMessage {
        app: app(),
        token: text.as_bytes().to_vec(),
    };
    check("SaslMessageFirst", token(""));
    check("SaslMessage", token("token"));
    check(
        "AuthMessage",
        AuthMessage {
            app: app(),
            salt: vec![1, 2, 3, 4],
            ciphertext: vec![5, 6, 7],
        },
    );
}
