// SPDX-License-Identifier: Apache-2.0
//! From answers to bytes, in the order of the queue. Small answers are written together; chunks are
//! opened when their turn comes.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use lodestone_planted::{self as planted, Bug};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::answer_wait::AnswerWait;
use super::burst::{self, Burst, MAX_BYTES_AT_ONCE, Wanted};
use super::socket::Socket;
use super::watched::Watched;
use super::{CloseReason, Hold, Outbound};
use crate::service::Service;

/// Answers are written together up to this size.
const GATHER_BYTES: usize = 64 << 10;

/// Buffers handed to one call of `writev`.
const MAX_SLICES: usize = 64;

pub(super) struct Writer {
    socket: Arc<Watched>,
    queue: mpsc::Receiver<Outbound>,
    /// Taken from the queue, and not looked at yet.
    next: Option<Outbound>,
    service: Arc<Service>,
    answer_wait: AnswerWait,
    /// Bytes that are to be written next.
    pending: VecDeque<Bytes>,
    pending_bytes: usize,
    /// The permits and memory of the requests behind those bytes.
    holds: Vec<Hold>,
    /// Bytes of chunks that this thread sends before it serves others.
    left_at_once: u64,
}

impl Writer {
    pub(super) fn new(
        socket: Arc<Watched>,
        queue: mpsc::Receiver<Outbound>,
        service: Arc<Service>,
        answer_wait: AnswerWait,
    ) -> Self {
        Self {
            socket,
            queue,
            next: None,
            service,
            answer_wait,
            pending: VecDeque::new(),
            pending_bytes: 0,
            holds: Vec::new(),
            left_at_once: MAX_BYTES_AT_ONCE,
        }
    }

    /// Writes until the queue ends (`None`) or the connection cannot continue.
    pub(super) async fn run(mut self) -> Option<CloseReason> {
        self.write_queue().await.err()
    }

    async fn write_queue(&mut self) -> Result<(), CloseReason> {
        loop {
            let taken = self.next.take().map_or_else(|| self.queue.try_recv(), Ok);
            let item = match taken {
                Ok(item) => item,
                Err(TryRecvError::Disconnected) => return self.flush().await,
                Err(TryRecvError::Empty) => {
                    self.flush().await?;
                    self.socket.sent_all();
                    match self.queue.recv().await {
                        Some(item) => item,
                        None => return Ok(()),
                    }
                }
            };
            match item {
                Outbound::Bytes { bytes, hold } => {
                    self.push(bytes);
                    self.holds.push(hold);
                    if self.pending_bytes >= GATHER_BYTES {
                        self.flush().await?;
                    }
                }
                Outbound::Chunk(wanted) => self.chunks(wanted).await?,
                Outbound::Close { reason, .. } => {
                    // Other requests were carried out: their clients need not repeat them.
                    self.flush().await?;
                    return Err(reason);
                }
            }
        }
    }

    fn push(&mut self, bytes: Bytes) {
        self.pending_bytes += bytes.len();
        if !bytes.is_empty() {
            self.pending.push_back(bytes);
        }
    }

    /// Writes what is pending, and releases the permits and memory of its requests.
    async fn flush(&mut self) -> Result<(), CloseReason> {
        while self.pending_bytes > 0 {
            let written = {
                let mut slices = [IoSlice::new(&[]); MAX_SLICES];
                let mut count = 0;
                for (slice, bytes) in slices.iter_mut().zip(&self.pending) {
                    *slice = IoSlice::new(bytes);
                    count += 1;
                }
                let slices = slices.get(..count).unwrap_or_default();
                self.socket.try_write(slices)
            };
            match written {
                Ok(0) => return Err(CloseReason::Socket(ErrorKind::WriteZero.into())),
                Ok(_) if planted::is(Bug::RestOfAnswerForgotten) => {
                    self.advance(self.pending_bytes);
                }
                Ok(written) => self.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.answer_wait.writable(&self.socket).await?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
        self.flush_socket().await?;
        if !planted::is(Bug::AnswersHeld) {
            self.holds.clear();
        }
        Ok(())
    }

    /// Sends what the socket took and still has, if it is one that encrypts.
    async fn flush_socket(&mut self) -> Result<(), CloseReason> {
        loop {
            match self.socket.try_flush() {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.answer_wait.writable(&self.socket).await?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
    }

    fn advance(&mut self, mut written: usize) {
        self.pending_bytes -= written;
        while let Some(first) = self.pending.front_mut() {
            if first.len() > written {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.pending.pop_front();
        }
    }

    /// Sends a chunk, and the requested chunks directly behind it.
    async fn chunks(&mut self, first: Wanted) -> Result<(), CloseReason> {
        let mut wanted = VecDeque::from([first]);
        while wanted.len() < burst::MAX_CHUNKS {
            match self.queue.try_recv() {
                Ok(Outbound::Chunk(next)) => wanted.push_back(next),
                Ok(other) => {
                    self.next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        // Acks must not wait for the disk.
        self.flush().await?;
        let (socket, service) = (Arc::clone(&self.socket), Arc::clone(&self.service));
        let burst = Burst::new(socket, service, wanted);
        burst
            .run(&mut self.answer_wait, &mut self.left_at_once)
            .await
    }
}
