// SPDX-License-Identifier: Apache-2.0
//! A client of a daemon in the same process, over a pipe, on the clock of the test: a test measures
//! how long the daemon lets it wait, and decides how many bytes it takes.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use lodestone_server::connection::socket::Socket;
use lodestone_server::connection::table::ConnectionTable;
use lodestone_server::connection::{self, CloseReason};
use lodestone_server::service::Service;
use lodestone_store::Part;
use lodestone_wire::frame::ChunkId;
use lodestone_wire::{Frame, FrameDecoder};
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::client::LIMITS;

/// The two directions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    ends: Mutex<Ends>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Ends {
    requests: BytesMut,
    answers: BytesMut,
    /// Bytes that the client has room for.
    room: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap()
    }

    fn write<'a>(&self, slices: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let mut ends = self.ends();
        let mut written = 0;
        for slice in slices {
            let count = slice.len().min(ends.room);
            ends.answers.extend_from_slice(&slice[..count]);
            ends.room -= count;
            written += count;
        }
        match written {
            0 => Err(ErrorKind::WouldBlock.into()),
            written => {
                self.came.notify_one();
                Ok(written)
            }
        }
    }
}

impl Socket for Pipe {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        if !ends.requests.is_empty() {
            return Poll::Ready(Ok(()));
        }
        ends.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        if ends.room > 0 {
            return Poll::Ready(Ok(()));
        }
        ends.writer = Some(context.waker().clone());
        Poll::Pending
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        let mut ends = self.ends();
        let count = ends.requests.len().min(into.remaining_mut());
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into.put_slice(&ends.requests.split_to(count));
        Ok(count)
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write(slices.iter().map(|slice| &**slice))
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        self.write(pieces.iter().map(|piece| match piece {
            Part::Memory(bytes) => &**bytes,
            Part::File { .. } => panic!("the tests of this client keep all bytes in memory"),
        }))
    }
}

/// A client, which takes all bytes unless a test says otherwise.
pub(crate) struct PipeClient {
    pipe: Arc<Pipe>,
    next_request: i64,
    serving: JoinHandle<CloseReason>,
    closed: Option<CloseReason>,
    _stop: watch::Sender<bool>,
}

impl PipeClient {
    pub(crate) async fn connect(
        table: &Arc<ConnectionTable>,
        number: u64,
        service: &Arc<Service>,
    ) -> Self {
        let pipe = Arc::new(Pipe::default());
        pipe.ends().room = usize::MAX;
        let place = table.enter(number).await.unwrap();
        let (socket, service) = (Arc::clone(&pipe), Arc::clone(service));
        let (stop, stopped) = watch::channel(false);
        let serving =
            tokio::spawn(async move { connection::run(socket, place, &service, stopped).await });
        Self {
            pipe,
            next_request: 1,
            serving,
            closed: None,
            _stop: stop,
        }
    }

    /// Has room for so many more bytes, and no others.
    pub(crate) fn take_only(&self, bytes: usize) {
        let mut ends = self.pipe.ends();
        ends.room = bytes;
        if let Some(writer) = ends.writer.take() {
            writer.wake();
        }
    }

    fn send(&self, frame: &Frame) {
        let mut ends = self.pipe.ends();
        ends.requests.extend_from_slice(&frame.to_bytes());
        if let Some(reader) = ends.reader.take() {
            reader.wake();
        }
    }

    /// Returns the next frame; `None` if the daemon closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Frame> {
        let decoder = FrameDecoder::new(LIMITS);
        loop {
            if let Some(frame) = decoder.next(&mut self.pipe.ends().answers).unwrap() {
                return Some(frame);
            }
            if self.closed.is_some() {
                return None;
            }
            select! {
                () = self.pipe.came.notified() => {}
                reason = &mut self.serving => self.closed = Some(reason.unwrap()),
            }
        }
    }

    pub(crate) fn request(&mut self, body: Bytes) {
        let request_id = self.next_request;
        self.next_request += 1;
        self.send(&Frame::RpcRequest { request_id, body });
    }

    /// Returns the answer to the only request; `None` if the daemon closed the connection.
    pub(crate) async fn answer(&mut self) -> Option<Bytes> {
        match self.receive().await? {
            Frame::RpcResponse { body, .. } => Some(body),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn request_chunk(&mut self, stream_id: i64, chunk_index: i32) {
        self.send(&Frame::ChunkFetchRequest(ChunkId {
            stream_id,
            chunk_index,
        }));
    }

    /// True if the daemon closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some() || self.serving.is_finished()
    }
}
