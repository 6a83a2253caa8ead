// SPDX-License-Identifier: Apache-2.0
//! One connection's fetches: part by part, as reducers read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lodestone_wire::Frame;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::spark::fetch::StreamHandle;

use super::fetch_work::FetchWork;
use crate::dialect::{Part, Planned, read};
use crate::error::Wrong;
use crate::measure::clock::Moment;
use crate::net::link::first_line;
use crate::net::outbox::Outbox;
use crate::net::{Next, Pace, Talk};
use crate::workload::Block;
use crate::workload::payload::BlockCheck;

/// How far the current part is.
#[derive(Debug)]
enum Stage {
    /// The layout was asked for.
    Layout { part: Part, request_id: i64 },
    /// The stream has to be asked for.
    Planned { part: Part, planned: Vec<Planned> },
    /// The stream was asked for.
    Open {
        planned: VecDeque<Planned>,
        request_id: i64,
    },
    /// Chunks are on their way.
    Chunks {
        stream_id: i64,
        next_index: i32,
        not_asked: VecDeque<Planned>,
    },
}

/// A chunk that was asked for.
#[derive(Debug)]
struct Asked {
    chunk: ChunkId,
    planned: Planned,
    check: BlockCheck,
    sent: Moment,
}

/// One connection's part.
#[derive(Debug)]
pub struct FetchTalk {
    work: Arc<FetchWork>,
    /// Bytes a second, and how many parts it has had.
    slow: Option<(u64, usize)>,
    partition: u32,
    stage: Option<Stage>,
    asked: VecDeque<Asked>,
    asked_bytes: u64,
    last_id: i64,
}

impl FetchTalk {
    /// A connection that does its share.
    pub fn of(work: &Arc<FetchWork>) -> Self {
        Self {
            work: Arc::clone(work),
            slow: None,
            partition: 0,
            stage: None,
            asked: VecDeque::new(),
            asked_bytes: 0,
            last_id: 0,
        }
    }

    /// A connection that reads slowly, repeatedly, until the others are done. Its bytes are checked
    /// too.
    pub fn slow(work: &Arc<FetchWork>, bytes_a_second: u64, number: usize) -> Self {
        Self {
            slow: Some((bytes_a_second, number)),
            ..Self::of(work)
        }
    }

    fn take(&mut self) -> Option<Part> {
        match &mut self.slow {
            None => self.work.queue.take(),
            Some((_, number)) => {
                *number += 1;
                self.work.queue.any(*number)
            }
        }
    }

    fn new_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends the next request. Returns the stage after that, and whether to continue or to wait.
    fn step(&mut self, stage: Option<Stage>, out: &mut Outbox) -> (Option<Stage>, Step) {
        match stage {
            None => self.begin(out),
            Some(Stage::Planned { planned, .. }) if planned.is_empty() => (None, Step::GoOn),
            Some(Stage::Planned { part, planned }) => {
                let request_id = self.new_id();
                let body = self.work.words.open(part, &planned);
                out.frame(&Frame::RpcRequest { request_id, body });
                let planned = planned.into();
                let open = Stage::Open {
                    planned,
                    request_id,
                };
                (Some(open), Step::Is(Next::Send))
            }
            Some(Stage::Chunks {
                stream_id,
                next_index,
                not_asked,
            }) => self.ask(stream_id, next_index, not_asked, out),
            waiting => (waiting, Step::Is(Next::Wait)),
        }
    }

    /// Starts the next part.
    fn begin(&mut self, out: &mut Outbox) -> (Option<Stage>, Step) {
        let Some(part) = self.take() else {
            return (None, Step::Is(Next::Done));
        };
        self.partition = part.partition;
        let request_id = self.new_id();
        if let Some(frame) = self.work.words.layout(part, request_id) {
            out.frame(&frame);
            let layout = Stage::Layout { part, request_id };
            return (Some(layout), Step::Is(Next::Send));
        }
        let planned = self.work.words.planned(part, None).unwrap_or_default();
        (Some(Stage::Planned { part, planned }), Step::GoOn)
    }

    /// Asks for as many chunks as fit the window.
    fn ask(
        &mut self,
        stream_id: i64,
        mut next_index: i32,
        mut not_asked: VecDeque<Planned>,
        out: &mut Outbox,
    ) -> (Option<Stage>, Step) {
        let before = next_index;
        while let Some(planned) = not_asked.front() {
            let is_full = self.asked_bytes + planned.bytes > self.work.window_bytes;
            if is_full && !self.asked.is_empty() {
                break;
            }
            let chunk = ChunkId {
                stream_id,
                chunk_index: next_index,
            };
            next_index += 1;
            out.frame(&Frame::ChunkFetchRequest(chunk));
            self.asked_bytes += planned.bytes;
            self.asked
                .extend(not_asked.pop_front().map(|planned| Asked {
                    chunk,
                    planned,
                    check: BlockCheck::default(),
                    sent: Moment::now(),
                }));
        }
        if not_asked.is_empty() && self.asked.is_empty() {
            return (None, Step::GoOn);
        }
        let stage = Stage::Chunks {
            stream_id,
            next_index,
            not_asked,
        };
        let next = if next_index > before {
            Next::Send
        } else {
            Next::Wait
        };
        (Some(stage), Step::Is(next))
    }

    fn current(&mut self, chunk: ChunkId) -> Result<&mut Asked, Wrong> {
        match self.asked.front_mut() {
            Some(asked) if asked.chunk == chunk => Ok(asked),
            _ => Err(Wrong::Unexpected(format!("{chunk:?}"))),
        }
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Another step at once.
    GoOn,
    /// This.
    Is(Next),
}

impl Talk for FetchTalk {
    fn next(&mut self, out: &mut Outbox) -> Next {
        loop {
            let stage = self.stage.take();
            let (stage, step) = self.step(stage, out);
            self.stage = stage;
            if let Step::Is(next) = step {
                return next;
            }
        }
    }

    fn answer(&mut self, frame: Frame) -> Result<(), Wrong> {
        let id = match &frame {
            Frame::RpcResponse { request_id, .. }
            | Frame::MergedBlockMetaSuccess { request_id, .. } => *request_id,
            Frame::RpcFailure(failure) => {
                let (request, why) = ("a request to fetch", first_line(&failure.error));
                return Err(Wrong::Refused { request, why });
            }
            Frame::ChunkFetchFailure(failure) => {
                let (request, why) = ("a chunk", first_line(&failure.error));
                return Err(Wrong::Refused { request, why });
            }
            other => return Err(Wrong::Unexpected(format!("{other:?}"))),
        };
        self.stage = Some(match (self.stage.take(), frame) {
            (Some(Stage::Layout { part, request_id }), frame) if request_id == id => {
                let planned = self.work.words.planned(part, Some(frame))?;
                Stage::Planned { part, planned }
            }
            (
                Some(Stage::Open {
                    planned: not_asked,
                    request_id,
                }),
                Frame::RpcResponse { body, .. },
            ) if request_id == id => opened(&read("a stream", &body)?, not_asked)?,
            (_, frame) => return Err(Wrong::Unexpected(format!("{frame:?}"))),
        });
        Ok(())
    }

    fn piece(&mut self, chunk: ChunkId, bytes: &[u8]) -> Result<(), Wrong> {
        let work = Arc::clone(&self.work);
        let (partition, is_slow) = (self.partition, self.slow.is_some());
        let Asked { planned, check, .. } = self.current(chunk)?;
        let mut each = |block: Block| {
            let length = work.workload.block_bytes(block);
            planned.expect.take(block, length)?;
            let is_of_partition = block.reduce == partition || !work.words.by_partition();
            if !is_of_partition {
                return Err(Wrong::Misplaced(block));
            }
            if !work.merged.contains(block) {
                return Err(Wrong::NotMerged(block));
            }
            if !is_slow && !work.fetched.insert(block) {
                return Err(Wrong::Twice(block));
            }
            Ok(())
        };
        check.feed(&work.payload, work.workload, bytes, &mut each)?;
        let count = bytes.len() as u64;
        if is_slow {
            work.tally.slow_bytes.fetch_add(count, Ordering::Relaxed);
        } else {
            work.tally.progress.add(count);
        }
        Ok(())
    }

    fn chunk_end(&mut self, chunk: ChunkId) -> Result<(), Wrong> {
        let asked = self.current(chunk)?;
        if !asked.check.is_at_an_end() || !asked.planned.expect.is_complete() {
            return Err(Wrong::Short);
        }
        let (bytes, latency) = (asked.planned.bytes, asked.sent.elapsed());
        self.asked.pop_front();
        self.asked_bytes -= bytes;
        if self.slow.is_none() {
            self.work.tally.latencies.record(latency);
        }
        Ok(())
    }

    fn pace(&self) -> Pace {
        Pace {
            read: self.slow.map(|(bytes_a_second, _)| bytes_a_second),
            ..Pace::default()
        }
    }
}

fn opened(handle: &StreamHandle, not_asked: VecDeque<Planned>) -> Result<Stage, Wrong> {
    if handle.num_chunks as usize != not_asked.len() {
        let message = format!(
            "{} chunks instead of {}",
            handle.num_chunks,
            not_asked.len()
        );
        return Err(Wrong::Unexpected(message));
    }
    Ok(Stage::Chunks {
        stream_id: handle.stream_id,
        next_index: 0,
        not_asked,
    })
}
