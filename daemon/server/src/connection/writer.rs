// SPDX-License-Identifier: Apache-2.0
//! From answers to bytes, in the order of the queue. Small answers are written together; a chunk is
//! opened when its turn comes, on the blocking pool.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use lodestone_store::{ChunkData, Code, Part, Refusal, WRITE_OUT_BYTES};
use lodestone_wire::Frame;
use lodestone_wire::frame::{self, ChunkFailure, StreamFailure, StreamHead};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::streams::Job;
use super::{ChunkHead, CloseReason, Hold, Outbound, STALL_TIMEOUT, sendfile};
use crate::service::Service;

/// Answers are written together up to this size.
const GATHER_BYTES: usize = 64 << 10;

/// Buffers handed to one call of `writev`.
const MAX_SLICES: usize = 64;

/// File ranges from this size on are announced to the kernel, which then reads them in one go instead of
/// in steps of its read-ahead window.
const READ_AHEAD_BYTES: u64 = 128 << 10;

pub(super) struct Writer {
    socket: Arc<TcpStream>,
    queue: mpsc::Receiver<Outbound>,
    service: Arc<Service>,
    /// Bytes that are to be written next.
    pending: VecDeque<Bytes>,
    pending_bytes: usize,
    /// What the requests of those bytes hold.
    holds: Vec<Hold>,
}

impl Writer {
    pub(super) fn new(
        socket: Arc<TcpStream>,
        queue: mpsc::Receiver<Outbound>,
        service: Arc<Service>,
    ) -> Self {
        Self {
            socket,
            queue,
            service,
            pending: VecDeque::new(),
            pending_bytes: 0,
            holds: Vec::new(),
        }
    }

    /// Writes until the queue ends (`None`) or the connection cannot go on.
    pub(super) async fn run(mut self) -> Option<CloseReason> {
        self.write_queue().await.err()
    }

    async fn write_queue(&mut self) -> Result<(), CloseReason> {
        loop {
            let item = match self.queue.try_recv() {
                Ok(item) => item,
                Err(TryRecvError::Disconnected) => return self.flush().await,
                Err(TryRecvError::Empty) => {
                    self.flush().await?;
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
                Outbound::Chunk { head, job, hold } => self.chunk(head, job, hold).await?,
                Outbound::Close(reason) => return Err(reason),
            }
        }
    }

    fn push(&mut self, bytes: Bytes) {
        self.pending_bytes += bytes.len();
        if !bytes.is_empty() {
            self.pending.push_back(bytes);
        }
    }

    /// Writes what is pending, and lets go of what its requests hold.
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
                self.socket.try_write_vectored(slices)
            };
            match written {
                Ok(0) => return Err(CloseReason::Socket(ErrorKind::WriteZero.into())),
                Ok(written) => self.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    writable_in_time(&self.socket).await?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
        self.holds.clear();
        Ok(())
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

    async fn chunk(
        &mut self,
        head: ChunkHead,
        job: Job,
        mut hold: Hold,
    ) -> Result<(), CloseReason> {
        // Acks must not wait for the disk.
        self.flush().await?;
        // The store copies at most one memory tail into a chunk.
        let mut memory = self.service.chunks.reserve(WRITE_OUT_BYTES as u64).await;
        let service = Arc::clone(&self.service);
        let name = job.name();
        let opened = spawn_blocking(move || open(&job, &service)).await;
        let data = match opened.map_err(|_| CloseReason::Panic)? {
            Ok(data) => data,
            Err(refusal) => {
                self.service.metrics.fetch_failures_total.add(1);
                tracing::debug!(%refusal, "chunk not sent");
                self.push(failure(head, refusal));
                self.holds.push(hold);
                return Ok(());
            }
        };
        memory.shrink_to(in_memory(&data));
        hold.memory.push(memory);
        let sent = self.send(head, data).await;
        if let (Err(CloseReason::Chunk(_)), Some(name)) = (&sent, name) {
            self.service.unreadable.note(name);
        }
        self.holds.push(hold);
        sent
    }

    async fn send(&mut self, head: ChunkHead, data: ChunkData) -> Result<(), CloseReason> {
        let length = data.length();
        self.push(match head {
            ChunkHead::Fetch(chunk) => frame::chunk_fetch_success_head(chunk, length),
            ChunkHead::Stream(name) => {
                let byte_count = i64::try_from(length).unwrap_or(i64::MAX);
                Frame::StreamResponse(StreamHead { name, byte_count }).to_bytes()
            }
        });
        for part in data.parts {
            match part {
                Part::Memory(bytes) => self.push(bytes),
                Part::File {
                    file,
                    offset,
                    length,
                } => {
                    self.flush().await?;
                    sendfile::send(&self.socket, file, offset, length).await?;
                }
            }
        }
        self.service.metrics.fetch_chunks_total.add(1);
        self.service.metrics.fetch_bytes_total.add(length);
        Ok(())
    }
}

/// Waits until the socket takes bytes again, but not for ever.
pub(super) async fn writable_in_time(socket: &TcpStream) -> Result<(), CloseReason> {
    match timeout(STALL_TIMEOUT, socket.writable()).await {
        Ok(writable) => writable.map_err(CloseReason::Socket),
        Err(_) => Err(CloseReason::StalledAnswer),
    }
}

fn open(job: &Job, service: &Service) -> Result<ChunkData, Refusal> {
    if job.name().is_some_and(|name| service.unreadable.has(&name)) {
        return Err(Code::DiskFailed.because("the disk did not give these bytes before"));
    }
    let data = job.open(&service.store)?;
    for part in &data.parts {
        if let Part::File {
            file,
            offset,
            length,
        } = part
            && *length >= READ_AHEAD_BYTES
            && let Some(fd) = file.fd()
        {
            // Only advice: what it says about errors is of no use to anyone.
            let advice = rustix::fs::Advice::WillNeed;
            let _ = rustix::fs::fadvise(fd, *offset, std::num::NonZeroU64::new(*length), advice);
        }
    }
    Ok(data)
}

fn in_memory(data: &ChunkData) -> u64 {
    let memory = |part: &Part| match part {
        Part::Memory(bytes) => bytes.len() as u64,
        Part::File { .. } => 0,
    };
    data.parts.iter().map(memory).sum()
}

fn failure(head: ChunkHead, refusal: Refusal) -> Bytes {
    let error = refusal.detail;
    match head {
        ChunkHead::Fetch(chunk) => Frame::ChunkFetchFailure(ChunkFailure { chunk, error }),
        ChunkHead::Stream(name) => Frame::StreamFailure(StreamFailure { name, error }),
    }
    .to_bytes()
}
