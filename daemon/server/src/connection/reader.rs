// SPDX-License-Identifier: Apache-2.0
//! From bytes to requests. Short requests are carried out here, if they need not wait, and all
//! others on a lane; meanwhile the reader continues, as far as permits and memory allow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lodestone_model::{Code, Refusal};
use lodestone_wire::extension::push::MAX_SEGMENTS;
use lodestone_wire::frame::{ChunkId, RpcFailure, StreamId};
use lodestone_wire::{Frame, FrameDecoder, Limits};
use tokio::sync::mpsc;

use super::burst::{Wanted, failure};
use super::pace::Pace;
use super::table::Place;
use super::watched::Watched;
use super::{ChunkHead, CloseReason, Hold, Outbound};
use crate::handler::{self, Answer, Call};
use crate::metrics::stopwatch::Stopwatch;
use crate::service::connection_share::ConnectionShare;
use crate::service::lanes::Kind;
use crate::service::pool::Pool;
use crate::streams::source::Job;

/// Bytes read at once. A thousand connections with a buffer each stay in the order of 16 MiB.
const READ_BYTES: usize = 16 << 10;

/// The longest stream id, and the bytes of a longer one that are echoed.
const MAX_NAME_BYTES: usize = 256;

mod blocks;
mod frame;
mod push;
mod removal;
mod rpc;
mod upload;

pub(super) struct Reader {
    socket: Arc<Watched>,
    call: Call,
    /// For requests that are carried out on the thread that reads them.
    now: Call,
    place: Place,
    outbound: mpsc::Sender<Outbound>,
    decoder: FrameDecoder,
    buffer: BytesMut,
    /// The permit and the memory of a large frame that is being read, until its request takes them
    /// over.
    frame: Option<Hold>,
    /// How fast the bytes come for which memory is reserved.
    pace: Option<Pace>,
    /// The connection's share of the memory for layouts.
    answers: ConnectionShare,
    /// The connection's shares of the memory for uploads, and for other large requests.
    uploads: Pool,
    requests: Pool,
    /// What its small requests may take without a share of any memory.
    own: Pool,
    /// What its long answers to pushes may take.
    replies: Pool,
}

/// The bytes of small requests that a connection may have in work without memory of a pool: a
/// thousand connections stay in the order of 32 MiB. As many of the smallest requests as half of
/// all that may be in work: see [`MAX_IN_WORK`](super::MAX_IN_WORK).
const OWN_BYTES: u64 = 32 << 10;

/// The longest answer to a push has about this size: one byte for each of its segments. So a
/// connection has one of these, or 63 of the shortest that count. A client that takes no answers
/// waits for itself.
const REPLY_BYTES: u64 = MAX_SEGMENTS as u64;

impl Reader {
    pub(super) fn new(
        socket: Arc<Watched>,
        call: Call,
        place: Place,
        outbound: mpsc::Sender<Outbound>,
        answers: ConnectionShare,
    ) -> Self {
        Self {
            answers,
            uploads: call.service.uploads.share(),
            requests: call.service.uploads.share_of_requests(),
            own: Pool::new(OWN_BYTES),
            replies: Pool::new(REPLY_BYTES),
            now: call.without_waiting(),
            socket,
            call,
            place,
            outbound,
            decoder: FrameDecoder::new(Limits::SERVER),
            buffer: BytesMut::new(),
            frame: None,
            pace: None,
        }
    }

    /// Reads until the connection cannot continue.
    pub(super) async fn run(mut self) -> CloseReason {
        loop {
            let frame = match self.next_frame().await {
                Ok(frame) => frame,
                Err(reason) => return reason,
            };
            if let Err(reason) = self.take(frame).await {
                return reason;
            }
        }
    }

    async fn take(&mut self, frame: Frame) -> Result<(), CloseReason> {
        if let Frame::UploadStream {
            request_id,
            meta,
            body_bytes,
        } = frame
        {
            return self.upload(request_id, meta, body_bytes).await;
        }
        self.pace = None;
        match frame {
            Frame::RpcRequest { request_id, body } => self.rpc(request_id, body).await,
            Frame::OneWay { body } => return self.one_way(body).await,
            Frame::ChunkFetchRequest(chunk) => self.chunk(chunk).await,
            Frame::StreamRequest(StreamId { name }) => self.stream(name).await,
            Frame::MergedBlockMetaRequest(request) => self.merged_meta(request).await,
            _ => return Err(CloseReason::NotARequest),
        }
        Ok(())
    }

    /// Waits for one of the permits of requests in work, unless the frame has one.
    async fn permit(&mut self) -> Hold {
        if let Some(hold) = self.frame.take() {
            return hold;
        }
        match Arc::clone(&self.place.entry.permits).acquire_owned().await {
            Ok(permit) => Hold {
                _permit: permit,
                memory: Vec::new(),
            },
            Err(_) => unreachable!("the semaphore is never closed"),
        }
    }

    /// The client does not learn when a one-way request is done. So it is done before the next
    /// request is read: later requests of the client see its effect.
    async fn one_way(&mut self, body: Bytes) -> Result<(), CloseReason> {
        let _hold = self.permit().await;
        let call = self.call.clone();
        let done = carry_out(call, Kind::Control, move |call| {
            handler::one_way(call, &body)
        });
        done.await
    }

    async fn chunk(&mut self, chunk: ChunkId) {
        let taken = self.call.streams.take(chunk.stream_id, chunk.chunk_index);
        self.fetch(ChunkHead::Fetch(chunk), taken).await;
    }

    async fn stream(&mut self, mut name: String) {
        let taken = match chunk_of(&name) {
            Some((stream, index)) if name.len() <= MAX_NAME_BYTES => {
                self.call.streams.take(stream, index)
            }
            _ => Err(Code::Malformed.because("a stream id is <streamId>_<chunkIndex>")),
        };
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        name.shrink_to_fit();
        self.fetch(ChunkHead::Stream(name), taken).await;
    }

    async fn fetch(&mut self, head: ChunkHead, taken: Result<Job, Refusal>) {
        let stopwatch = Stopwatch::start();
        let mut hold = self.permit().await;
        // Nothing is left of a frame that was large.
        hold.memory.clear();
        if let Ok(job) = &taken {
            self.place.entry.client.is_of(job.app());
        }
        let item = match taken {
            Ok(job) => Outbound::Chunk(Wanted {
                head,
                job,
                found: None,
                begun: None,
                _hold: hold,
                stopwatch,
            }),
            Err(refusal) => {
                let metrics = &self.call.service.metrics;
                metrics.count_fetch_failure(refusal.code);
                Outbound::Bytes {
                    bytes: failure(&head, &refusal),
                    hold,
                }
            }
        };
        put(&self.outbound, item);
    }
}

/// Carries out a call that does not wait, on this thread. If that panics, the connection closes.
fn at_once<T>(work: impl FnOnce() -> T) -> Result<T, CloseReason> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| CloseReason::Panic)
}

/// Carries out a call on a thread of its kind. If that panics, the connection closes.
async fn carry_out<T: Send + 'static>(
    call: Call,
    kind: Kind,
    work: impl FnOnce(&Call) -> T + Send + 'static,
) -> Result<T, CloseReason> {
    let call = call.on_thread_of(kind);
    let service = Arc::clone(&call.service);
    let done = service.lanes.run(kind, move || work(&call)).await;
    done.map_err(|_| CloseReason::Panic)
}

/// `<streamId>_<chunkIndex>`.
fn chunk_of(name: &str) -> Option<(i64, i32)> {
    let (stream, index) = name.split_once('_')?;
    Some((stream.parse().ok()?, index.parse().ok()?))
}

/// An error if the answer is the end of the connection.
fn answer_frame(request_id: i64, answer: Answer) -> Result<Bytes, CloseReason> {
    let frame = match answer {
        Answer::Response(body) => Frame::RpcResponse { request_id, body },
        Answer::Failure(error) => Frame::RpcFailure(RpcFailure { request_id, error }),
        Answer::Close => return Err(CloseReason::Overloaded),
    };
    Ok(frame.to_bytes())
}

/// Hands an answer to the writer, or the reason for which the connection closes.
fn send(outbound: &mpsc::Sender<Outbound>, answer: Result<Bytes, CloseReason>, hold: Hold) {
    let item = match answer {
        Ok(bytes) => Outbound::Bytes { bytes, hold },
        Err(reason) => Outbound::Close {
            reason,
            _hold: hold,
        },
    };
    put(outbound, item);
}

/// Every entry of the queue holds a permit, and there are as many places. So there is a place, and
/// a reader that ends now has handed its answer over.
fn put(outbound: &mpsc::Sender<Outbound>, item: Outbound) {
    // The queue is closed only after the writer gave up; the connection then ends anyway.
    let _ = outbound.try_send(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_names_are_a_stream_and_a_chunk() {
        assert_eq!(chunk_of("12345678901_7"), Some((12_345_678_901, 7)));
        assert_eq!(chunk_of("-5_0"), Some((-5, 0)));
        for bad in ["", "1", "1_", "_1", "1_2_3", "a_1", "1_99999999999"] {
            assert_eq!(chunk_of(bad), None, "{bad}");
        }
    }
}
