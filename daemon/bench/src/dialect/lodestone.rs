// SPDX-License-Identifier: Apache-2.0
//! The extension, as the plugin speaks it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use lodestone_model::{
    AppAttempt, AppId, Code, Crc32c, LaidRun, Ledger, MapId, MapIndex, Mode, ReduceId, Segment,
    SegmentRun, ShuffleSpec,
};
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::fetch::{
    FetchSegments, SegmentLayout, SegmentLayoutReply, WantedChunk,
};
use lodestone_wire::extension::hello::{Hello, HelloReply};
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::Done;
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress};
use lodestone_wire::{Frame, Message};

use super::{
    CHUNK_BYTES, Expect, FetchWords, Part, Planned, PushWords, Shuffle, Verdict, generation, read,
};
use crate::error::{LinkError, Wrong};
use crate::net::link::{ask_all, ask_message};
use crate::workload::blocks::BlockSet;
use crate::workload::payload::Payload;
use crate::workload::{Block, PushRange, Workload};

/// All maps.
const MAPS: (u32, u32) = (0, i32::MAX as u32);

/// The only segment of its block, and so the last one.
const ONLY: u32 = 1;

/// The longest lease that a daemon grants: it is not renewed while a phase is measured.
const LEASE_MS: i64 = 3_600_000;

/// Greets, takes a lease, registers the shuffle. Returns the server's incarnation.
pub(crate) async fn register(
    address: SocketAddr,
    app: &AppId,
    workload: Workload,
) -> Result<i64, LinkError> {
    let hello: HelloReply = ask_message(
        address,
        &Hello {
            protocol_version: PROTOCOL_VERSION,
            client_name: concat!("lodestone-bench/", env!("CARGO_PKG_VERSION")).to_owned(),
        },
    )
    .await?;
    let key = key(app, hello.incarnation, workload);
    let _: Done = ask_message(
        address,
        &RegisterShuffle {
            key,
            spec: ShuffleSpec {
                mode: Mode::Merge,
                num_maps: workload.maps,
                num_partitions: workload.partitions,
                format: "spark-stream".to_owned(),
            },
        },
    )
    .await?;
    let _: LeaseReply = ask_message(
        address,
        &RenewLease {
            app: app.clone(),
            app_attempt: AppAttempt::NONE,
            incarnation: hello.incarnation,
            ttl_ms: LEASE_MS,
        },
    )
    .await?;
    Ok(hello.incarnation)
}

fn key(app: &AppId, incarnation: i64, workload: Workload) -> ShuffleAddress {
    ShuffleAddress {
        shuffle: generation(app, workload),
        incarnation,
    }
}

/// Returns the commits of all map attempts, with the ledger of what the server has acknowledged to
/// each.
pub(crate) fn commits(shuffle: &Shuffle, merged: &BlockSet) -> Vec<Bytes> {
    let Shuffle {
        workload, payload, ..
    } = shuffle;
    let key = key(&shuffle.app, shuffle.incarnation, *workload);
    let commit = |map| {
        let all = PushRange {
            map,
            from: 0,
            to: workload.partitions,
        };
        let acknowledged = all.blocks().filter(|block| merged.contains(*block));
        let one = |block| {
            let segment = segment(*workload, payload, block);
            let laid = segment.laid(MapIndex(map), MapId(map.into()));
            Ledger::of(segment.reduce_id, [laid])
        };
        let pushed = acknowledged.map(one).fold(Ledger::default(), Ledger::and);
        CommitMap {
            key: key.clone(),
            map_index: MapIndex(map),
            map_id: MapId(map.into()),
            pushed,
        }
        .to_bytes()
    };
    (0..workload.maps).map(commit).collect()
}

/// Commits. The server refuses if it has anything else than it acknowledged.
pub(crate) async fn commit(shuffle: &Shuffle, commits: &[Bytes]) -> Result<(), LinkError> {
    for answer in ask_all(shuffle.address, commits).await? {
        let _: Done = read("a commit", &answer)?;
    }
    Ok(())
}

/// A block, which is one segment.
fn segment(workload: Workload, payload: &Payload, block: Block) -> Segment {
    Segment {
        reduce_id: ReduceId(block.reduce),
        sequence: ONLY,
        length: workload.block_bytes(block),
        records: -1,
        crc32c: Crc32c(payload.crc32c(workload, block)),
    }
}

/// Requests about one shuffle.
#[derive(Debug)]
pub struct Words {
    key: ShuffleAddress,
    workload: Workload,
    payload: Payload,
}

impl Words {
    /// About this one.
    pub fn of(shuffle: &Shuffle) -> Self {
        Self {
            key: key(&shuffle.app, shuffle.incarnation, shuffle.workload),
            workload: shuffle.workload,
            payload: shuffle.payload.clone(),
        }
    }
}

impl PushWords for Words {
    fn one_by_one(&self) -> bool {
        false
    }

    fn meta(&self, _connection: u32, range: PushRange) -> Bytes {
        let segment = |block| segment(self.workload, &self.payload, block);
        PushBatch {
            key: self.key.clone(),
            map_index: MapIndex(range.map),
            map_id: MapId(range.map.into()),
            // Every block is pushed once: its number among those of its map is that of its
            // partition.
            first_segment: range.from,
            is_whole: false,
            segments: range.blocks().map(segment).collect(),
        }
        .to_bytes()
    }

    fn verdicts(&self, range: PushRange, answer: &[u8]) -> Result<Vec<Verdict>, Wrong> {
        let answer: PushBatchReply = read("a batch", answer)?;
        if answer.codes.len() != range.blocks().len() {
            let message = format!(
                "{} codes for {} blocks",
                answer.codes.len(),
                range.blocks().len()
            );
            return Err(Wrong::Unexpected(message));
        }
        let verdict = |code: &Code| match code {
            Code::Ok => Verdict::Merged,
            other => Verdict::Refused(other.name()),
        };
        Ok(answer.codes.iter().map(verdict).collect())
    }
}

impl FetchWords for Words {
    fn layout(&self, part: Part, request_id: i64) -> Option<Frame> {
        let message = SegmentLayout {
            key: self.key.clone(),
            map_start: MAPS.0,
            map_end: MAPS.1,
            reduce_ids: vec![ReduceId(part.partition)],
        };
        let body = message.to_bytes();
        Some(Frame::RpcRequest { request_id, body })
    }

    fn planned(&self, part: Part, answer: Option<Frame>) -> Result<Vec<Planned>, Wrong> {
        let body = match answer {
            Some(Frame::RpcResponse { body, .. }) => body,
            other => return Err(Wrong::Unexpected(format!("{other:?}"))),
        };
        let reply: SegmentLayoutReply = read("the layout of a partition", &body)?;
        let layout = match <[_; 1]>::try_from(reply.partitions) {
            Ok([layout]) if layout.reduce_id.0 == part.partition => layout,
            _ => {
                return Err(Wrong::Unexpected(
                    "the layout of another partition".to_owned(),
                ));
            }
        };
        if layout.code != Code::Ok {
            return Err(Wrong::Refused {
                request: "the layout of a partition",
                why: layout.code.name().to_owned(),
            });
        }
        let planned: Vec<Planned> = layout.runs.iter().flat_map(cut).collect();
        let wanted = part.range_of(planned.len() as u32);
        let planned = (0..).zip(planned).filter(|(at, _)| wanted.contains(at));
        Ok(planned.map(|(_, chunk)| chunk).collect())
    }

    fn open(&self, part: Part, planned: &[Planned]) -> Bytes {
        let chunk = |chunk: &Planned| WantedChunk {
            reduce_id: ReduceId(part.partition),
            runs: vec![SegmentRun {
                first: chunk.index,
                count: chunk.expect.count(),
            }],
        };
        FetchSegments {
            key: self.key.clone(),
            chunks: planned.iter().map(chunk).collect(),
        }
        .to_bytes()
    }
}

/// Chunks of the size that the plugin asks for.
fn cut(run: &LaidRun) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    for (slot, segment) in (run.first..).zip(&run.segments) {
        if planned.last().is_none_or(|last| last.bytes >= CHUNK_BYTES) {
            planned.push(Planned {
                index: slot,
                bytes: 0,
                expect: Expect::Segments(VecDeque::new()),
            });
        }
        if let Some(last) = planned.last_mut() {
            last.bytes += u64::from(segment.length);
            last.expect.add(segment.map_index.0, segment.length);
        }
    }
    planned
}
