// SPDX-License-Identifier: Apache-2.0
//! Spark's push-merge, as its clients speak it.

use std::net::SocketAddr;
use std::path::Path;

use bytes::Bytes;
use lodestone_model::{AppId, MapIndex, ReduceId, ShuffleKey};
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::fetch::FetchShuffleBlockChunks;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};
use lodestone_wire::spark::register::RegisterExecutor;
use lodestone_wire::{Frame, Message};
use roaring::RoaringBitmap;

use super::{CHUNK_BYTES, Expect, FetchWords, Part, Planned, PushWords, Shuffle, Verdict, read};
use crate::error::{LinkError, Wrong};
use crate::net::link::{ask, ask_message};
use crate::workload::{Block, PushRange};

/// Spark's default.
pub const SUB_DIRS: u32 = 64;

/// The executor that registers.
pub const EXECUTOR: &str = "1";

/// Where an executor keeps its blocks, below its directory.
pub const LOCAL_DIR: &str = "blockmgr-bench";

/// Where the service keeps merged blocks, beside that.
pub const MERGE_DIR: &str = "merge_manager";

pub(crate) async fn register(
    address: SocketAddr,
    app: &AppId,
    dir: &Path,
) -> Result<(), LinkError> {
    let local_dir = dir.join(LOCAL_DIR).to_string_lossy().into_owned();
    let sort = "org.apache.spark.shuffle.sort.SortShuffleManager";
    let request = RegisterExecutor {
        app: app.clone(),
        exec_id: EXECUTOR.to_owned(),
        local_dirs: vec![local_dir],
        sub_dirs_per_local_dir: SUB_DIRS,
        shuffle_manager: format!(r#"{sort}:{{"mergeDir":"{MERGE_DIR}"}}"#),
    };
    ask(address, request.to_bytes()).await.map(drop)
}

pub(crate) async fn finalize(shuffle: &Shuffle) -> Result<u64, LinkError> {
    let key = shuffle.spark_key();
    let merged: MergeStatuses = ask_message(shuffle.address, &FinalizeShuffleMerge { key }).await?;
    Ok(merged.partitions.iter().map(|one| one.maps.len()).sum())
}

/// Requests about one shuffle.
#[derive(Debug)]
pub struct Words(ShuffleKey);

impl Words {
    /// About this one.
    pub fn of(shuffle: &Shuffle) -> Self {
        Self(shuffle.spark_key())
    }
}

impl PushWords for Words {
    fn one_by_one(&self) -> bool {
        true
    }

    fn meta(&self, _connection: u32, range: PushRange) -> Bytes {
        PushBlockStream {
            key: self.0.clone(),
            map_index: MapIndex(range.map),
            reduce_id: ReduceId(range.from),
            index: 0,
        }
        .to_bytes()
    }

    fn verdicts(&self, _range: PushRange, answer: &[u8]) -> Result<Vec<Verdict>, Wrong> {
        let answer: BlockPushReturnCode = read("a block", answer)?;
        Ok(vec![match answer.code {
            PushCode::Success => Verdict::Merged,
            PushCode::TooLate => Verdict::Refused("TOO_LATE_BLOCK_PUSH"),
            PushCode::Collision => Verdict::Refused(COLLISION),
            PushCode::Stale => Verdict::Refused("STALE_BLOCK_PUSH"),
            PushCode::TooOldAttempt => Verdict::Refused("TOO_OLD_ATTEMPT_PUSH"),
        }])
    }
}

/// Spark gives up a block that arrives while another is being appended to its partition. That is no
/// failure.
pub const COLLISION: &str = "BLOCK_APPEND_COLLISION_DETECTED";

impl FetchWords for Words {
    fn layout(&self, part: Part, request_id: i64) -> Option<Frame> {
        Some(Frame::MergedBlockMetaRequest(MergedBlockMetaRequest {
            request_id,
            app: self.0.app.clone(),
            shuffle_id: self.0.shuffle,
            shuffle_merge_id: self.0.generation,
            reduce_id: ReduceId(part.partition),
        }))
    }

    fn planned(&self, part: Part, answer: Option<Frame>) -> Result<Vec<Planned>, Wrong> {
        let (num_chunks, body) = match answer {
            Some(Frame::MergedBlockMetaSuccess {
                num_chunks, body, ..
            }) => (num_chunks, body),
            other => return Err(Wrong::Unexpected(format!("{other:?}"))),
        };
        let mut rest = &body[..];
        let mut chunk = |index| {
            let maps = RoaringBitmap::deserialize_from(&mut rest);
            let maps = maps.map_err(|error| Wrong::Unexpected(format!("bitmaps: {error}")))?;
            Ok(Planned {
                index,
                bytes: CHUNK_BYTES,
                expect: Expect::Maps(maps),
            })
        };
        let chunks: Result<Vec<_>, Wrong> = (0..num_chunks).map(&mut chunk).collect();
        let wanted = part.range_of(num_chunks);
        let is_wanted = |chunk: &Planned| wanted.contains(&chunk.index);
        Ok(chunks?.into_iter().filter(is_wanted).collect())
    }

    fn open(&self, part: Part, planned: &[Planned]) -> Bytes {
        let chunks = planned.iter().map(|chunk| chunk.index).collect();
        FetchShuffleBlockChunks {
            app: self.0.app.clone(),
            exec_id: MERGER_EXECUTOR.to_owned(),
            shuffle_id: self.0.shuffle,
            shuffle_merge_id: self.0.generation,
            chunks: vec![(ReduceId(part.partition), chunks)],
        }
        .to_bytes()
    }
}

/// Block `map` of the partition alone.
pub(crate) fn alone(block: Block) -> PushRange {
    PushRange {
        map: block.map,
        from: block.reduce,
        to: block.reduce + 1,
    }
}
