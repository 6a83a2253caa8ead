// SPDX-License-Identifier: Apache-2.0
//! Chunks that one client asked for, as many in one go as its socket takes. Chunks in memory are
//! sent by the thread that serves the connection: to hand a block of some kilobytes to another
//! thread costs more than to send it. All others are opened and sent on a lane.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lodestone_model::{Code, Refusal};
use lodestone_store::{ChunkData, FoundOriginal, Part, Wait};
use lodestone_wire::Frame;
use lodestone_wire::frame::{self, ChunkFailure, StreamFailure, StreamHead};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::answer_wait::AnswerWait;
use super::sending::{Begun, GATHERED_CHUNKS, OpenChunk, Sending};
use super::watched::Watched;
use super::{ChunkHead, CloseReason, Hold, MAX_IN_WORK};
use crate::metrics::stopwatch::Stopwatch;
use crate::service::{Service, clock};
use crate::streams::source::{Job, Opened};
use ahead::read_ahead;
use waits::LOOK;

mod ahead;
mod waits;

/// Chunks of one burst: all that a client may ask for at once.
pub(super) const MAX_CHUNKS: usize = MAX_IN_WORK;

/// After this many bytes the thread goes back to the pool: other connections wait for it too.
const MAX_BYTES: u64 = 8 << 20;

/// The same for a thread that serves connections. Each chunk counts as [`LEAST_BYTES`] or more.
pub(super) const MAX_BYTES_AT_ONCE: u64 = 1 << 20;

/// To find a chunk and to call the system takes as long as to send so many bytes.
const LEAST_BYTES: u64 = 16 << 10;

/// One chunk that the client asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) head: ChunkHead,
    pub(super) job: Job,
    /// What was found of it before: a block of an executor.
    pub(super) found: Option<FoundOriginal>,
    /// If a part of the answer was sent already.
    pub(super) begun: Option<Begun>,
    pub(super) _hold: Hold,
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
    sending: Sending,
    /// The client may take nothing for so long before the memory of the first chunk is looked at.
    look_in: Duration,
    /// Since when another thread holds up the rest of a chunk.
    held_up_since: Option<Instant>,
}

enum State {
    Done,
    /// The client has to take something first.
    Full,
    /// Others have waited long enough, or the next chunk is elsewhere.
    Pause,
    /// Another thread holds up the partition of a chunk of which a part was sent.
    HeldUp,
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
            sending: Sending::default(),
            look_in: LOOK,
            held_up_since: None,
        }
    }

    /// Sends all chunks. This thread sends so many bytes before it serves others; the rest is for
    /// the next burst. After an error the connection cannot continue.
    pub(super) async fn run(
        mut self,
        answer_wait: &mut AnswerWait,
        left_at_once: &mut u64,
    ) -> Result<(), CloseReason> {
        loop {
            while self.keeps_bytes() {
                self.wait_for_client(answer_wait).await?;
            }
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
                State::HeldUp if self.keeps_bytes() => {}
                State::HeldUp => self.wait_for_partition().await?,
                State::Full => self.wait_for_client(answer_wait).await?,
            }
        }
    }

    /// Opens these chunks again before all others that wait.
    fn wait_again_for(&mut self, closed: impl DoubleEndedIterator<Item = Wanted>) {
        let next = self.elsewhere.take().map(|(wanted, _)| wanted);
        let again = closed.chain(next).rev();
        again.for_each(|wanted| self.waiting.push_front(wanted));
    }

    async fn go_on_the_pool(
        mut self,
        places: Vec<usize>,
    ) -> Result<(Self, Result<State, CloseReason>), CloseReason> {
        let service = Arc::clone(&self.service);
        let next = self.next_places();
        let going = service.lanes.read(places, &next, move |places| {
            let mut left = MAX_BYTES;
            let state = self.go(Wait::Chunk, places, &mut left);
            (self, state)
        });
        going.await.map_err(|_| CloseReason::Panic)
    }

    /// Where the next blocks of executors are, of which some may be sent together: an executor has
    /// them on all of its disks in turn. Asks no disk, and finds each block once.
    fn next_places(&mut self) -> Vec<usize> {
        let mut places = BTreeSet::new();
        for wanted in self.waiting.iter_mut().take(GATHERED_CHUNKS - 1) {
            let known = wanted.found.take();
            let found = known.or_else(|| wanted.job.find_original(&self.service.store));
            let Some(found) = found else {
                break;
            };
            places.extend(found.places(&self.service.store));
            wanted.found = Some(found);
        }
        places.into_iter().collect()
    }

    /// Where the next bytes are, if it may be necessary to wait for them.
    fn places(&self) -> Option<Vec<usize>> {
        if !self.sending.is_empty() {
            return Some(self.sending.places()).filter(|places| !places.is_empty());
        }
        self.elsewhere.as_ref().map(|(_, places)| places.clone())
    }

    /// Waits for disks at these places only, and never for the client.
    fn go(&mut self, wait: Wait, places: &[usize], left: &mut u64) -> Result<State, CloseReason> {
        let state = self.send(wait, places, left);
        let closed = self.sending.close_unbegun();
        if !closed.is_empty() {
            self.wait_again_for(closed.into_iter());
        }
        state
    }

    fn send(&mut self, wait: Wait, places: &[usize], left: &mut u64) -> Result<State, CloseReason> {
        loop {
            if *left == 0 {
                return Ok(State::Pause);
            }
            let opened = self.open(wait, places)?;
            if self.sending.is_empty() {
                return Ok(match self.elsewhere {
                    Some(_) if self.held_up_since.is_some() => State::HeldUp,
                    Some(_) => State::Pause,
                    None => State::Done,
                });
            }
            let sent = self.send_open(*left)?;
            *left = left.saturating_sub(sent.max(opened.max(1) * LEAST_BYTES));
            if !self.sending.is_empty() {
                return Ok(match *left {
                    0 => State::Pause,
                    _ => State::Full,
                });
            }
        }
    }

    fn send_open(&mut self, most: u64) -> Result<u64, CloseReason> {
        let metrics = &self.service.metrics;
        let look_in = &mut self.look_in;
        let sent = self.sending.send(&*self.socket, most, |chunk| {
            *look_in = LOOK;
            match chunk.length {
                Ok(length) => {
                    let seconds = chunk.wanted.stopwatch.seconds();
                    metrics.fetch_chunks_total.inc();
                    metrics.fetch_bytes_total.inc_by(length);
                    metrics.fetch_seconds.observe(seconds);
                }
                // Not when it is opened: it may be opened again.
                Err(code) => metrics.count_fetch_failure(code),
            }
        });
        sent.inspect_err(|reason| {
            if !matches!(reason, CloseReason::Chunk(_)) {
                return;
            }
            metrics.count_fetch_failure(Code::DiskFailed);
            if let Some(name) = self
                .sending
                .first()
                .and_then(|first| first.wanted.job.name())
            {
                let now_ms = self.service.store.now_ms();
                self.service.unreadable.mark(name, now_ms);
            }
        })
    }

    /// Opens as many chunks as are sent together, and returns how many these are.
    fn open(&mut self, wait: Wait, places: &[usize]) -> Result<u64, CloseReason> {
        let mut opened = 0;
        while self.sending.has_room() && self.open_next(wait, places)? {
            opened += 1;
        }
        Ok(opened)
    }

    /// Opens the next chunk, unless there is none, or it is elsewhere, or this thread would have to
    /// wait for it.
    fn open_next(&mut self, wait: Wait, places: &[usize]) -> Result<bool, CloseReason> {
        let wanted = match self.elsewhere.take() {
            Some(known) if !self.sending.is_empty() => {
                self.elsewhere = Some(known);
                return Ok(false);
            }
            known => known
                .map(|(wanted, _)| wanted)
                .or_else(|| self.waiting.pop_front()),
        };
        let Some(mut wanted) = wanted else {
            return Ok(false);
        };
        // What is open does not wait for the lock of the next one, nor for its descriptor.
        let wait = match self.sending.is_empty() {
            true => wait,
            false => Wait::Never,
        };
        match opened(wait, places, &mut wanted, &self.service) {
            // A part of the answer is sent: there is no way to refuse the rest.
            Opened::Here(Err(refusal), places)
                if refusal.code == Code::Overloaded && wanted.begun.is_some() =>
            {
                self.held_up_since.get_or_insert_with(clock::now);
                self.elsewhere = Some((wanted, places));
                Ok(false)
            }
            Opened::Here(opened, places) => {
                self.held_up_since = None;
                self.begin(wanted, opened, places)?;
                Ok(true)
            }
            Opened::Elsewhere(places, found) => {
                wanted.found = found;
                self.elsewhere = Some((wanted, places));
                Ok(false)
            }
        }
    }

    /// Begins the answer to a request: the chunk, or the reason why there is none. An error if
    /// Spark has to repeat the request: see [`CloseReason::Overloaded`].
    fn begin(
        &mut self,
        mut wanted: Wanted,
        opened: Result<ChunkData, Refusal>,
        places: Vec<usize>,
    ) -> Result<(), CloseReason> {
        let begun = wanted.begun.take();
        match opened {
            Ok(data) => {
                if begun.is_none() {
                    read_ahead(&data);
                }
                let length = data.length();
                let head = Part::Memory(success(&wanted.head, length));
                let parts = data.parts.into_iter().filter(|part| part.length() > 0);
                let chunk = OpenChunk::new(wanted, places, Ok(length));
                let pieces = std::iter::once(head).chain(parts);
                match begun {
                    None => self.sending.add(chunk, pieces),
                    Some(begun) => {
                        let going_on = self.sending.go_on(chunk, pieces, &begun);
                        going_on.map_err(|error| {
                            self.service.metrics.count_fetch_failure(Code::Internal);
                            CloseReason::Chunk(error)
                        })?;
                    }
                }
            }
            Err(refusal) => {
                tracing::debug!(%refusal, "chunk not sent");
                if begun.is_some() {
                    self.service.metrics.count_fetch_failure(refusal.code);
                    return Err(CloseReason::Chunk(std::io::Error::other(
                        refusal.to_string(),
                    )));
                }
                if wanted.job.closes(&refusal) {
                    self.service.metrics.count_fetch_failure(refusal.code);
                    return Err(CloseReason::Overloaded);
                }
                let answer = Part::Memory(failure(&wanted.head, &refusal));
                let chunk = OpenChunk::new(wanted, places, Err(refusal.code));
                self.sending.add(chunk, std::iter::once(answer));
            }
        }
        Ok(())
    }
}

fn opened(wait: Wait, places: &[usize], wanted: &mut Wanted, service: &Service) -> Opened {
    let (job, known) = (&wanted.job, wanted.found.take());
    if service
        .unreadable
        .has(|| job.name(), || service.store.now_ms())
    {
        let refusal = Code::DiskFailed.because("the disk did not give these bytes before");
        return Opened::Here(Err(refusal), Vec::new());
    }
    job.open_at(wait, places, known, &service.store)
}

fn success(head: &ChunkHead, length: u64) -> Bytes {
    match head {
        ChunkHead::Fetch(chunk) => frame::chunk_fetch_success_head(*chunk, length),
        ChunkHead::Stream(name) => {
            let (name, byte_count) = (name.clone(), i64::try_from(length).unwrap_or(i64::MAX));
            Frame::StreamResponse(StreamHead { name, byte_count }).to_bytes()
        }
    }
}

/// The frame has no place for a code, so the text begins with it.
pub(super) fn failure(head: &ChunkHead, refusal: &Refusal) -> Bytes {
    let error = format!("[{}] {}", refusal.code.name(), refusal.detail);
    match head {
        ChunkHead::Fetch(chunk) => Frame::ChunkFetchFailure(ChunkFailure {
            chunk: *chunk,
            error,
        }),
        ChunkHead::Stream(name) => Frame::StreamFailure(StreamFailure {
            name: name.clone(),
            error,
        }),
    }
    .to_bytes()
}

#[cfg(test)]
mod tests;
