// SPDX-License-Identifier: Apache-2.0
//! Chunks on their way into one socket: opened and sent on the blocking pool, as many in one go as
//! the client asks for and the socket takes. To hand a block of some kilobytes from thread to
//! thread costs more than to send it.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use lodestone_model::{Code, Refusal};
use lodestone_store::{ChunkData, Part};
use lodestone_wire::Frame;
use lodestone_wire::frame::{self, ChunkFailure, StreamFailure, StreamHead};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use super::writer::writable_in_time;
use super::{ChunkHead, CloseReason, Hold, sendfile};
use crate::metrics::stopwatch::Stopwatch;
use crate::service::Service;
use crate::streams::source::{Found, Job};

/// Chunks of one burst.
pub(super) const MAX_CHUNKS: usize = 32;

/// After this many bytes the thread goes back to the pool: other connections wait for it too.
const MAX_BYTES: u64 = 8 << 20;

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
    socket: Arc<TcpStream>,
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
        socket: Arc<TcpStream>,
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

    /// Sends all chunks. After an error the connection cannot continue.
    pub(super) async fn run(mut self) -> Result<(), CloseReason> {
        let service = Arc::clone(&self.service);
        loop {
            let places = self.places();
            let turns = service.lanes.reading(&places).await;
            let going = spawn_blocking(move || {
                let state = self.go(&places);
                drop(turns);
                (self, state)
            });
            let (burst, state) = going.await.map_err(|_| CloseReason::Panic)?;
            self = burst;
            match state? {
                State::Done => return Ok(()),
                State::Pause => {}
                State::Full => writable_in_time(&self.socket).await?,
            }
        }
    }

    /// Where the next chunk is, as far as known.
    fn places(&self) -> Vec<usize> {
        match (&self.current, &self.elsewhere) {
            (Some(current), _) => current.places.clone(),
            (None, Some((_, places))) => places.clone(),
            (None, None) => Vec::new(),
        }
    }

    /// Waits for disks at these places only, and never for the client.
    fn go(&mut self, places: &[usize]) -> Result<State, CloseReason> {
        let mut left = MAX_BYTES;
        loop {
            let mut current = match self.current.take() {
                Some(current) => current,
                None if left == 0 => return Ok(State::Pause),
                None => match self.next(places)? {
                    Some(current) => current,
                    None if self.elsewhere.is_some() => return Ok(State::Pause),
                    None => return Ok(State::Done),
                },
            };
            let sent = current.send(&self.socket).inspect_err(|reason| {
                if let (CloseReason::Chunk(_), Some(name)) = (reason, current.job.name()) {
                    let now_ms = self.service.store.now_ms();
                    self.service.unreadable.mark(name, now_ms);
                }
            })?;
            left = left.saturating_sub(sent);
            if !current.pieces.is_empty() {
                self.current = Some(current);
                return Ok(State::Full);
            }
            if let Some(length) = current.length {
                let metrics = &self.service.metrics;
                metrics.fetch_chunks_total.inc();
                metrics.fetch_bytes_total.inc_by(length);
                metrics.fetch_seconds.observe(current.stopwatch.seconds());
            }
        }
    }

    /// Opens the next chunk, unless it is elsewhere.
    fn next(&mut self, places: &[usize]) -> Result<Option<Current>, CloseReason> {
        let next = self.elsewhere.take().map(|(wanted, _)| wanted);
        let Some(wanted) = next.or_else(|| self.waiting.pop_front()) else {
            return Ok(None);
        };
        let found = found(&wanted.job, &self.service);
        let needed = found
            .as_ref()
            .map_or_else(|_| Vec::new(), |found| found.places(&self.service.store));
        if needed.iter().all(|place| places.contains(place)) {
            return self.open(wanted, found, needed).map(Some);
        }
        self.elsewhere = Some((wanted, needed));
        Ok(None)
    }

    /// Returns the answer to a request: the chunk, or the reason why there is none. An error if
    /// Spark has to repeat the request: see [`CloseReason::Overloaded`].
    fn open(
        &self,
        wanted: Wanted,
        found: Result<Found, Refusal>,
        places: Vec<usize>,
    ) -> Result<Current, CloseReason> {
        let Wanted {
            head,
            job,
            hold,
            stopwatch,
        } = wanted;
        let opened = found.and_then(|found| job.open(found, &self.service.store));
        let (pieces, length) = match opened {
            Ok(data) => {
                read_ahead(&data);
                let length = data.length();
                let head = Part::Memory(success(head, length));
                let pieces = std::iter::once(head).chain(data.parts).collect();
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
    /// Sends until nothing is left or the socket is full, and returns the number of bytes.
    fn send(&mut self, socket: &TcpStream) -> Result<u64, CloseReason> {
        let mut sent = 0;
        while let Some(piece) = self.pieces.pop_front() {
            if piece.length() == 0 {
                continue;
            }
            let more = !self.pieces.is_empty();
            let step = socket.try_io(Interest::WRITABLE, || sendfile::step(socket, &piece, more));
            match step {
                Ok(0) => return Err(CloseReason::Chunk(ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    sent += count as u64;
                    self.pieces.push_front(after(piece, count));
                }
                Err(error) => {
                    self.pieces.push_front(piece);
                    match error.kind() {
                        ErrorKind::WouldBlock => return Ok(sent),
                        ErrorKind::Interrupted => {}
                        _ if sendfile::is_of_disk(&error) => return Err(CloseReason::Chunk(error)),
                        _ => return Err(CloseReason::Socket(error)),
                    }
                }
            }
        }
        Ok(sent)
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

fn found(job: &Job, service: &Service) -> Result<Found, Refusal> {
    if service
        .unreadable
        .has(|| job.name(), || service.store.now_ms())
    {
        return Err(Code::DiskFailed.because("the disk did not give these bytes before"));
    }
    job.find(&service.store)
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
