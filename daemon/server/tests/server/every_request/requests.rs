// SPDX-License-Identifier: Apache-2.0
//! Every request about an application. Each has an effect, or an answer with data, if it is carried
//! out.

use lodestone_model::{
    AppAttempt, Code, MapId, MapIndex, Mode, ReduceId, SegmentRun, ShuffleSpec, SuspectBlock,
};
use lodestone_wire::extension::commit::AbortMap;
use lodestone_wire::extension::explain::{ExplainApplication, Explanation, ReportApplication};
use lodestone_wire::extension::fetch::{FetchSegments, SegmentLayoutReply, WantedChunk};
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::push::PushBatchReply;
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::fetch::{FetchShuffleBlockChunks, StreamHandle};
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::originals::{
    CorruptionCause, DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks,
};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushCode};
use lodestone_wire::spark::register::LocalDirsForExecutors;
use lodestone_wire::spark::remove::{BlocksRemoved, RemoveBlocks, RemoveShuffleMerge};
use lodestone_wire::{Frame, Message};

use super::application::{Application, NUM_MAPS, PERSISTED, TO_ABORT, TO_COMMIT, TO_PUSH};
use crate::support::client::commit_of;

/// The name of the request that is a frame of its own.
pub(super) const META: &str = "MergedBlockMetaRequest";

const REQUEST_ID: i64 = 77;

/// Far from the blocks that the application pushes itself.
const OTHER_BLOCK: u32 = 1_000_000;

/// Whether the body of an answer is what the application expects.
pub(super) type Expected = fn(&[u8]) -> bool;

pub(super) struct Sent {
    pub(super) name: &'static str,
    pub(super) frame: Frame,
    /// The bytes after the frame.
    pub(super) body: Vec<u8>,
    /// `None`: no answer comes.
    pub(super) expected: Option<Expected>,
}

/// In an order in which each is carried out.
pub(super) fn requests(of: &Application) -> Vec<Sent> {
    let parts = [
        of_plugin(of),
        of_executors(of),
        of_sparks_push(of),
        of_originals(of),
        ends(of),
    ];
    parts.into_iter().flatten().collect()
}

fn is<A: Message>(body: &[u8]) -> bool {
    A::from_bytes(body).is_ok()
}

fn opens_stream(body: &[u8]) -> bool {
    StreamHandle::from_bytes(body).is_ok_and(|stream| stream.num_chunks == 1)
}

fn rpc<M: Message>(message: &M, expected: Expected) -> Sent {
    let frame = Frame::RpcRequest {
        request_id: REQUEST_ID,
        body: message.to_bytes(),
    };
    Sent {
        name: M::NAME,
        frame,
        body: Vec::new(),
        expected: Some(expected),
    }
}

fn upload<M: Message>(meta: &M, body: Vec<u8>, expected: Expected) -> Sent {
    let frame = Frame::UploadStream {
        request_id: REQUEST_ID,
        meta: meta.to_bytes(),
        body_bytes: body.len() as u64,
    };
    Sent {
        name: M::NAME,
        frame,
        body,
        expected: Some(expected),
    }
}

fn of_plugin(of: &Application) -> Vec<Sent> {
    let (key, app, app_attempt) = (&of.address, &of.app, AppAttempt::NONE);
    let renewal = RenewLease {
        app: app.clone(),
        app_attempt,
        incarnation: 0,
        ttl_ms: 60_000,
    };
    let shuffle = RegisterShuffle {
        key: of.new_shuffle(),
        spec: ShuffleSpec {
            mode: Mode::Merge,
            num_maps: NUM_MAPS,
            num_partitions: 1,
            format: "spark-stream".to_owned(),
        },
    };
    let (mut pushed, body) = of.batch(TO_PUSH);
    pushed.is_whole = true;
    let (waiting, _) = of.batch(TO_COMMIT);
    let abort = AbortMap {
        key: key.clone(),
        map_index: MapIndex(TO_ABORT),
        map_id: MapId(TO_ABORT.into()),
    };
    let first = SegmentRun { first: 0, count: 1 };
    let chunks = FetchSegments {
        key: key.clone(),
        chunks: vec![WantedChunk {
            reduce_id: ReduceId(0),
            runs: vec![first],
        }],
    };
    let report = ReportApplication {
        app: app.clone(),
        app_attempt,
        ended: true,
        report: "{}".to_owned(),
    };
    let app = app.as_str().to_owned();
    vec![
        rpc(&renewal, is::<LeaseReply>),
        rpc(&shuffle, is::<Done>),
        upload(&pushed, body, |answer| {
            PushBatchReply::from_bytes(answer).is_ok_and(|reply| reply.is_committed)
        }),
        rpc(&commit_of(&[waiting]), is::<Done>),
        rpc(&abort, is::<Done>),
        rpc(&of.layout_of(key.clone()), |answer| {
            let layout = SegmentLayoutReply::from_bytes(answer);
            layout.is_ok_and(|layout| layout.partitions[0].code == Code::Ok)
        }),
        rpc(&chunks, opens_stream),
        rpc(&report, is::<Done>),
        rpc(&ExplainApplication { app }, |answer| {
            Explanation::from_bytes(answer).is_ok_and(|reports| reports.applications.len() == 1)
        }),
    ]
}

fn of_executors(of: &Application) -> Vec<Sent> {
    vec![
        rpc(&of.executor("2"), <[u8]>::is_empty),
        rpc(&of.dirs_of("1"), |answer| {
            LocalDirsForExecutors::from_bytes(answer).is_ok_and(|dirs| dirs.executors.len() == 1)
        }),
    ]
}

fn of_sparks_push(of: &Application) -> Vec<Sent> {
    let key = of.sparks();
    let (shuffle_id, reduce_id) = (key.shuffle, ReduceId(0));
    let meta = MergedBlockMetaRequest {
        request_id: REQUEST_ID,
        app: of.app.clone(),
        shuffle_id,
        shuffle_merge_id: key.generation,
        reduce_id,
    };
    let chunks = FetchShuffleBlockChunks {
        app: of.app.clone(),
        exec_id: MERGER_EXECUTOR.to_owned(),
        shuffle_id,
        shuffle_merge_id: key.generation,
        chunks: vec![(reduce_id, vec![0])],
    };
    vec![
        upload(&of.block(OTHER_BLOCK), b"bytes".to_vec(), |answer| {
            let pushed = BlockPushReturnCode::from_bytes(answer);
            pushed.is_ok_and(|pushed| pushed.code == PushCode::Success)
        }),
        rpc(&FinalizeShuffleMerge { key }, |answer| {
            MergeStatuses::from_bytes(answer).is_ok_and(|merged| merged.partitions.len() == 1)
        }),
        Sent {
            name: META,
            frame: Frame::MergedBlockMetaRequest(meta),
            body: Vec::new(),
            expected: Some(|bitmaps| !bitmaps.is_empty()),
        },
        rpc(&chunks, opens_stream),
    ]
}

fn of_originals(of: &Application) -> Vec<Sent> {
    let (app, exec_id) = (|| of.app.clone(), || "1".to_owned());
    let (shuffle, map, reduce) = (of.address.shuffle.shuffle, MapId(0), ReduceId(0));
    let block_ids = || vec![PERSISTED.to_owned()];
    let blocks = FetchShuffleBlocks {
        app: app(),
        exec_id: exec_id(),
        shuffle_id: shuffle,
        blocks: vec![(map, vec![reduce])],
        batch: false,
    };
    let named = OpenBlocks {
        app: app(),
        exec_id: exec_id(),
        block_ids: block_ids(),
    };
    let suspect = DiagnoseCorruption {
        app: app(),
        exec_id: exec_id(),
        block: SuspectBlock {
            shuffle,
            map,
            reduce,
            reader_checksum: 0,
        },
        algorithm: "CRC32C".to_owned(),
    };
    let removed = RemoveBlocks {
        app: app(),
        exec_id: exec_id(),
        block_ids: block_ids(),
    };
    vec![
        rpc(&blocks, opens_stream),
        rpc(&named, opens_stream),
        rpc(&suspect, is::<CorruptionCause>),
        rpc(&removed, |answer| {
            BlocksRemoved::from_bytes(answer).is_ok_and(|removed| removed.count == 1)
        }),
    ]
}

fn ends(of: &Application) -> Vec<Sent> {
    let key = of.address.shuffle.clone();
    let body = RemoveShuffleMerge { key }.to_bytes();
    let end = EndApplication {
        app: of.app.clone(),
        app_attempt: AppAttempt::NONE,
    };
    vec![
        Sent {
            name: RemoveShuffleMerge::NAME,
            frame: Frame::OneWay { body },
            body: Vec::new(),
            expected: None,
        },
        rpc(&end, is::<Done>),
    ]
}
