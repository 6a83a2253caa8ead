// SPDX-License-Identifier: Apache-2.0
//! Chunks on their way into one socket, as many in one go as the client asks for and the socket
//! takes. Chunks in memory are sent by the thread that serves the connection: to hand a block of
//! some kilobytes to another thread costs more than to send it. All others are opened and sent on
//! a lane.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use lodestone_model::{Code, Refusal};
use lodestone_planted::{self as planted, Bug};
use lodestone_store::{ChunkData, Part, Wait};
use lodestone_wire::Frame;
use lodestone_wire::frame::{self, ChunkFailure, StreamFailure, StreamHead};
use tokio::task::yield_now;

use super::socket::Socket;
use super::watched::Watched;
use super::writer::writable_in_time;
use super::{ChunkHead, CloseReason, Hold, sendfile};
use crate::metrics::stopwatch::Stopwatch;
use crate::service::Service;
use crate::streams::source::{Job, Opened};

/// Chunks of one burst.
pub(super) const MAX_CHUNKS: usize = 32;

/// After this many bytes the thread goes back to the pool: other connections wait for it too.
const MAX_BYTES: u64 = 8 << 20;

/// The same for a thread that serves connections. Each chunk counts as [`LEAST_BYTES`] or more.
pub(super) const MAX_BYTES_AT_ONCE: u64 = 1 << 20;

/// To find a chunk and to call the system takes as long as to send so many bytes.
const LEAST_BYTES: u64 = 16 << 10;

/// The kernel gets an announcement for file ranges of this size or more, and reads them in one go
/// instead of in steps of its read-ahead window. If a chunk has several ranges, smaller ones are
/// announced too, so that the disk can read them in its own order.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// One chunk that the client asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) head: ChunkHead,
    pub(super) job: Job,
    pub(super) hold: Hold,
    /// Since the request came.
    pub(super) stopwatch: Stopwatch,
}

pub(super) struct Burst {
    socket: Arc<Watched>,
    service: Arc<Service>,
    waiting: VecDeque<Wanted>,
    /// The next chunk, and the places where it was. It is looked for again when there is a turn at
    /// each: until then it must not hold memory of the store.
    elsewhere: Option<(Wanted, Vec<usize>)>,
    current: Option<Current>,
}

/// The rest of the chunk that is being sent.
struct Current {
    job: Job,
    /// Where the thread that sends it reads from.
    places: Vec<usize>,
    pieces: VecDeque<Part>,
    /// Bytes of the chunk; `None` for an answer that says why there is none.
    length: Option<u64>,
    stopwatch: Stopwatch,
    _hold: Hold,
}

enum State {
    Done,
    /// The client has to take something first.
    Full,
    /// Others have waited long enough, or the next chunk is elsewhere.
    Pause,
}

impl Burst {
    pub(super) fn new(
        socket: Arc<Watched>,
        service: Arc<Service>,
        waiting: VecDeque<Wanted>,
    ) -> Self {
        Self {
            socket,
            service,
            waiting,
            elsewhere: None,
            current: None,
        }
    }

    /// Sends all chunks. This thread sends so many bytes before it serves others; the rest is for
    /// the next burst. After an error the connection cannot continue.
    pub(super) async fn run(mut self, left_at_once: &mut u64) -> Result<(), CloseReason> {
        loop {
            let state = match self.places() {
                None => {
                    if *left_at_once == 0 {
                        yield_now().await;
                        *left_at_once = MAX_BYTES_AT_ONCE;
                    }
                    self.go(Wait::Never, &[], left_at_once)
                }
                Some(places) => {
                    let (burst, state) = self.go_on_the_pool(places).await?;
                    self = burst;
                    state
                }
            };
            match state? {
                State::Done => return Ok(()),
                State::Pause => {}
                State::Full => writable_in_time(&self.socket).await?,
            }
        }
    }

    async fn go_on_the_pool(
        mut self,
        places: Vec<usize>,
    ) -> Result<(Self, Result<State, CloseReason>), CloseReason> {
        let service = Arc::clone(&self.service);
        let at = places.clone();
        let going = service.lanes.read(&at, move || {
            let mut left = MAX_BYTES;
            let state = self.go(Wait::InTime, &places, &mut left);
            (self, state)
        });
        going.await.map_err(|_| CloseReason::Panic)
    }

    /// Where the next chunk is, if it may be necessary to wait for it.
    fn places(&self) -> Option<Vec<usize>> {
        match (&self.current, &self.elsewhere) {
            (Some(current), _) if current.places.is_empty() => None,
            (Some(current), _) => Some(current.places.clone()),
            (None, Some((_, places))) => Some(places.clone()),
            (None, None) => None,
        }
    }

    /// Waits for disks at these places only, and never for the client.
    fn go(&mut self, wait: Wait, places: &[usize], left: &mut u64) -> Result<State, CloseReason> {
        loop {
            if *left == 0 {
                return Ok(State::Pause);
            }
            let mut current = match self.current.take() {
                Some(current) => current,
                None => match self.next(wait, places)? {
                    Some(current) => current,
                    None if self.elsewhere.is_some() => return Ok(State::Pause),
                    None => return Ok(State::Done),
                },
            };
            let sent = current.send(&*self.socket, *left).inspect_err(|reason| {
                if let (CloseReason::Chunk(_), Some(name)) = (reason, current.job.name()) {
                    let now_ms = self.service.store.now_ms();
                    self.service.unreadable.mark(name, now_ms);
                }
            })?;
            *left = left.saturating_sub(sent.max(LEAST_BYTES));
            if !current.pieces.is_empty() {
                self.current = Some(current);
                return Ok(match *left {
                    0 => State::Pause,
                    _ => State::Full,
                });
            }
            if let Some(length) = current.length {
                let metrics = &self.service.metrics;
                metrics.fetch_chunks_total.inc();
                metrics.fetch_bytes_total.inc_by(length);
                metrics.fetch_seconds.observe(current.stopwatch.seconds());
            }
        }
    }

    /// Opens the next chunk, unless it is elsewhere, or this thread would have to wait for it.
    fn next(&mut self, wait: Wait, places: &[usize]) -> Result<Option<Current>, CloseReason> {
        let next = self.elsewhere.take().map(|(wanted, _)| wanted);
        let Some(wanted) = next.or_else(|| self.waiting.pop_front()) else {
            return Ok(None);
        };
        match opened(wait, places, &wanted.job, &self.service) {
            Opened::Here(opened, places) => self.begin(wanted, opened, places).map(Some),
            Opened::Elsewhere(places) => {
                self.elsewhere = Some((wanted, places));
                Ok(None)
            }
        }
    }

    /// Returns the answer to a request: the chunk, or the reason why there is none. An error if
    /// Spark has to repeat the request: see [`CloseReason::Overloaded`].
    fn begin(
        &self,
        wanted: Wanted,
        opened: Result<ChunkData, Refusal>,
        places: Vec<usize>,
    ) -> Result<Current, CloseReason> {
        let Wanted {
            head,
            job,
            hold,
            stopwatch,
        } = wanted;
        let (pieces, length) = match opened {
            Ok(data) => {
                read_ahead(&data);
                let length = data.length();
                let head = Part::Memory(success(head, length));
                let parts = data.parts.into_iter().filter(|part| part.length() > 0);
                let pieces = std::iter::once(head).chain(parts).collect();
                (pieces, Some(length))
            }
            Err(refusal) => {
                self.service.metrics.fetch_failures_total.inc();
                tracing::debug!(%refusal, "chunk not sent");
                if refusal.code == Code::Overloaded && job.is_sparks_own() {
                    return Err(CloseReason::Overloaded);
                }
                (
                    VecDeque::from([Part::Memory(failure(head, &refusal))]),
                    None,
                )
            }
        };
        Ok(Current {
            job,
            places,
            pieces,
            length,
            stopwatch,
            _hold: hold,
        })
    }
}

impl Current {
    /// Sends until nothing is left, the socket is full or so many bytes are sent, and returns the
    /// number of bytes.
    fn send(&mut self, socket: &dyn Socket, most: u64) -> Result<u64, CloseReason> {
        let mut sent = 0;
        while !self.pieces.is_empty() && sent < most {
            let pieces = self.pieces.make_contiguous();
            match socket.try_send(pieces) {
                Ok(0) => return Err(CloseReason::Chunk(ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    sent += count as u64;
                    self.advance(count);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(sent),
                    ErrorKind::Interrupted => {}
                    _ if sendfile::is_of_disk(&error) => return Err(CloseReason::Chunk(error)),
                    _ => return Err(CloseReason::Socket(error)),
                },
            }
        }
        Ok(sent)
    }

    /// Forgets the bytes that were sent.
    fn advance(&mut self, mut count: usize) {
        while let Some(piece) = self.pieces.pop_front() {
            let length = piece.length();
            if length > count as u64 {
                let count = match planted::is(Bug::PartOfChunkRepeated) {
                    true => 0,
                    false => count,
                };
                self.pieces.push_front(after(piece, count));
                return;
            }
            count -= length as usize;
        }
    }
}

/// Returns the rest of a piece.
fn after(piece: Part, count: usize) -> Part {
    match piece {
        Part::Memory(mut bytes) => {
            bytes.advance(count);
            Part::Memory(bytes)
        }
        Part::File {
            file,
            offset,
            length,
        } => Part::File {
            file,
            offset: offset + count as u64,
            length: length - count as u64,
        },
    }
}

fn opened(wait: Wait, places: &[usize], job: &Job, service: &Service) -> Opened {
    if service
        .unreadable
        .has(|| job.name(), || service.store.now_ms())
    {
        let refusal = Code::DiskFailed.because("the disk did not give these bytes before");
        return Opened::Here(Err(refusal), Vec::new());
    }
    job.open_at(wait, places, &service.store)
}

fn read_ahead(data: &ChunkData) {
    let is_file = |part: &&Part| matches!(part, Part::File { .. });
    let several = data.parts.iter().filter(is_file).nth(1).is_some();
    for part in &data.parts {
        if let Part::File {
            file,
            offset,
            length,
        } = part
            && (several || *length >= READ_AHEAD_BYTES)
            && let Some(fd) = file.fd()
        {
            // Only advice: its errors do not matter.
            let advice = rustix::fs::Advice::WillNeed;
            let _ = rustix::fs::fadvise(fd, *offset, std::num::NonZeroU64::new(*length), advice);
        }
    }
}

fn success(head: ChunkHead, length: u64) -> Bytes {
    match head {
        ChunkHead::Fetch(chunk) => frame::chunk_fetch_success_head(chunk, length),
        ChunkHead::Stream(name) => {
            let byte_count = i64::try_from(length).unwrap_or(i64::MAX);
            Frame::StreamResponse(StreamHead { name, byte_count }).to_bytes()
        }
    }
}

/// The frame has no place for a code, so the text begins with it.
pub(super) fn failure(head: ChunkHead, refusal: &Refusal) -> Bytes {
    let error = format!("[{}] {}", refusal.code.name(), refusal.detail);
    match head {
        ChunkHead::Fetch(chunk) => Frame::ChunkFetchFailure(ChunkFailure { chunk, error }),
        ChunkHead::Stream(name) => Frame::StreamFailure(StreamFailure { name, error }),
    }
    .to_bytes()
}
