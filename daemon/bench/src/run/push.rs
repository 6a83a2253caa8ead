// SPDX-License-Identifier: Apache-2.0
//! One connection's pushes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lodestone_wire::Frame;
use lodestone_wire::frame::ChunkId;

use super::fetch_work::Shape;
use super::tally::{Queue, Tally};
use crate::dialect::spark::alone;
use crate::dialect::{PushWords, Shuffle, Verdict};
use crate::error::Wrong;
use crate::measure::clock::Moment;
use crate::net::link::first_line;
use crate::net::outbox::Outbox;
use crate::net::{Next, Pace, Talk};
use crate::workload::blocks::BlockSet;
use crate::workload::payload::Payload;
use crate::workload::{Block, PushRange, Workload};

/// Most bytes of one batch, as in the plugin.
pub const BATCH_BYTES: u64 = 4 << 20;

/// The state that all connections push from.
#[derive(Debug)]
pub struct PushWork {
    /// The blocks.
    pub workload: Workload,
    /// Their bytes.
    pub payload: Payload,
    /// How requests are made.
    pub words: Arc<dyn PushWords>,
    /// The ranges that are left to be pushed.
    pub queue: Queue<PushRange>,
    /// The blocks that the server reports as merged.
    pub merged: Arc<BlockSet>,
    /// Bytes that one connection sends before it waits for an answer.
    pub window_bytes: u64,
    /// Counters.
    pub tally: Arc<Tally>,
}

impl PushWork {
    /// Returns all blocks, in ranges small enough for each connection to get some.
    pub fn all(shuffle: &Shuffle, shape: Shape, tally: Arc<Tally>) -> Self {
        let workload = shuffle.workload;
        let part_bytes = workload.total().div_ceil(shape.connections.into());
        Self {
            workload,
            payload: shuffle.payload.clone(),
            words: shuffle.push_words(),
            queue: Queue::of(workload.ranges(part_bytes.min(BATCH_BYTES))),
            merged: Arc::new(BlockSet::of(workload)),
            // Otherwise the first connections would take the part of the others.
            window_bytes: shape.window_bytes.min(part_bytes),
            tally,
        }
    }

    /// Returns the blocks that were not merged, one by one.
    pub fn again(&self, tally: Arc<Tally>) -> Self {
        let all = BlockSet::all(self.workload);
        let left = all.blocks().filter(|block| !self.merged.contains(*block));
        Self {
            workload: self.workload,
            payload: self.payload.clone(),
            words: Arc::clone(&self.words),
            queue: Queue::of(left.map(alone).collect()),
            merged: Arc::clone(&self.merged),
            window_bytes: self.window_bytes,
            tally,
        }
    }
}

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    range: PushRange,
    bytes: u64,
    sent: Moment,
}

/// One connection's part.
#[derive(Debug)]
pub struct PushTalk {
    work: Arc<PushWork>,
    connection: u32,
    /// Bytes a second.
    slow: Option<u64>,
    current: Option<PushRange>,
    pending: HashMap<i64, Pending>,
    pending_bytes: u64,
    last_id: i64,
}

impl PushTalk {
    /// The connection with this number.
    pub fn of(work: &Arc<PushWork>, connection: u32) -> Self {
        Self {
            work: Arc::clone(work),
            connection,
            slow: None,
            current: None,
            pending: HashMap::new(),
            pending_bytes: 0,
            last_id: 0,
        }
    }

    /// A connection that pushes slowly: the server waits in the middle of a batch.
    pub fn slow(work: &Arc<PushWork>, connection: u32, bytes_a_second: u64) -> Self {
        Self {
            slow: Some(bytes_a_second),
            ..Self::of(work, connection)
        }
    }

    /// Returns the range of the next request.
    fn upcoming(&mut self) -> Option<PushRange> {
        let range = self.current.or_else(|| self.work.queue.take())?;
        self.current = Some(range);
        Some(if self.work.words.one_by_one() {
            let to = range.from + 1;
            PushRange { to, ..range }
        } else {
            range
        })
    }

    fn put(&mut self, range: PushRange, bytes: u64, out: &mut Outbox) {
        self.last_id += 1;
        let (work, request_id) = (&self.work, self.last_id);
        out.frame(&Frame::UploadStream {
            request_id,
            meta: work.words.meta(self.connection, range),
            body_bytes: bytes,
        });
        for block in range.blocks() {
            out.copy(&Payload::head(work.workload, block));
            out.body(work.payload.body(work.workload, block));
        }
        let sent = Moment::now();
        self.pending
            .insert(request_id, Pending { range, bytes, sent });
        self.pending_bytes += bytes;
        self.current = self.current.and_then(|current| {
            let from = range.to;
            (from < current.to).then_some(PushRange { from, ..current })
        });
    }

    fn answered(&mut self, request_id: i64) -> Result<Pending, Wrong> {
        let Some(pending) = self.pending.remove(&request_id) else {
            return Err(Wrong::Unexpected(format!("an answer to {request_id}")));
        };
        self.pending_bytes -= pending.bytes;
        self.work.tally.latencies.record(pending.sent.elapsed());
        Ok(pending)
    }

    fn count(&self, block: Block, verdict: Verdict) -> Result<(), Wrong> {
        match verdict {
            Verdict::Refused(reason) => self.work.tally.refused.add(reason, 1),
            Verdict::Merged if !self.work.merged.insert(block) => return Err(Wrong::Twice(block)),
            Verdict::Merged => {
                let bytes = self.work.workload.block_bytes(block);
                self.work.tally.progress.add(bytes.into());
            }
        }
        Ok(())
    }
}

impl Talk for PushTalk {
    fn next(&mut self, out: &mut Outbox) -> Next {
        let Some(range) = self.upcoming() else {
            return if self.pending.is_empty() {
                Next::Done
            } else {
                Next::Wait
            };
        };
        let bytes = self.work.workload.range_bytes(range);
        if !self.pending.is_empty() && self.pending_bytes + bytes > self.work.window_bytes {
            return Next::Wait;
        }
        self.put(range, bytes, out);
        Next::Send
    }

    fn answer(&mut self, frame: Frame) -> Result<(), Wrong> {
        match frame {
            Frame::RpcResponse { request_id, body } => {
                let range = self.answered(request_id)?.range;
                let verdicts = self.work.words.verdicts(range, &body)?;
                let mut each = range.blocks().zip(verdicts);
                each.try_for_each(|(block, verdict)| self.count(block, verdict))
            }
            Frame::RpcFailure(failure) => {
                let range = self.answered(failure.request_id)?.range;
                let reason = first_line(&failure.error);
                let blocks = range.blocks().len() as u64;
                self.work.tally.refused.add(&reason, blocks);
                Ok(())
            }
            other => Err(Wrong::Unexpected(format!("{other:?}"))),
        }
    }

    fn piece(&mut self, chunk: ChunkId, _bytes: &[u8]) -> Result<(), Wrong> {
        Err(Wrong::Unexpected(format!("{chunk:?} while pushing")))
    }

    fn chunk_end(&mut self, chunk: ChunkId) -> Result<(), Wrong> {
        Err(Wrong::Unexpected(format!("{chunk:?} while pushing")))
    }

    fn pace(&self) -> Pace {
        Pace {
            write: self.slow,
            ..Pace::default()
        }
    }

    fn wrote(&mut self, bytes: u64) {
        let sum = &self.work.tally.slow_bytes;
        sum.fetch_add(bytes, Ordering::Relaxed);
    }
}
