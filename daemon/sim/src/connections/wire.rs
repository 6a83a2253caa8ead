// SPDX-License-Identifier: Apache-2.0
//! A connection without a system: two pipes. A pipe has limited room. A call moves all bytes that
//! it can, some of them, or none.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, BytesMut};
use lodestone_server::connection::socket::Socket;
use lodestone_store::Part;

use crate::dice::Dice;

/// What the buffers of two systems hold in one direction.
const PIPE_BYTES: usize = 64 << 10;

/// So many percent of all reads and writes find less than there is, or nothing.
const PARTIAL_PERCENT: usize = 30;
const SPURIOUS_PERCENT: usize = 3;

/// The bytes of one direction.
#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug)]
struct Both {
    requests: Pipe,
    answers: Pipe,
    dice: Dice,
}

/// The end of the daemon.
#[derive(Debug)]
pub(super) struct ServerEnd(Arc<Mutex<Both>>);

/// The end of the client. The connection closes when this is dropped.
#[derive(Debug)]
pub(super) struct ClientEnd(Arc<Mutex<Both>>);

/// A new connection.
pub(super) fn connection(seed: u64) -> (ClientEnd, ServerEnd) {
    let both = Arc::new(Mutex::new(Both {
        requests: Pipe::default(),
        answers: Pipe::default(),
        dice: Dice::new(seed),
    }));
    (ClientEnd(Arc::clone(&both)), ServerEnd(both))
}

fn lock(both: &Mutex<Both>) -> MutexGuard<'_, Both> {
    both.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    fn poll_readable(&mut self, context: &Context<'_>) -> Poll<()> {
        if !self.bytes.is_empty() || self.is_closed {
            return Poll::Ready(());
        }
        self.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_writable(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.room() > 0 || self.is_closed {
            return Poll::Ready(());
        }
        self.writer = Some(context.waker().clone());
        Poll::Pending
    }

    fn room(&self) -> usize {
        PIPE_BYTES - self.bytes.len()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    fn take(&mut self, count: usize, into: &mut dyn BufMut) {
        for byte in self.bytes.drain(..count) {
            into.put_u8(byte);
        }
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.reader.take().into_iter().for_each(Waker::wake);
        self.writer.take().into_iter().for_each(Waker::wake);
    }
}

/// How many of `all` bytes a call moves. An error if it moves none.
fn some(all: usize, dice: &mut Dice) -> io::Result<usize> {
    if all == 0 || dice.chance(SPURIOUS_PERCENT) {
        return Err(ErrorKind::WouldBlock.into());
    }
    Ok(match dice.chance(PARTIAL_PERCENT) {
        true => 1 + dice.below(all),
        false => all,
    })
}

impl ServerEnd {
    fn write<'a>(&self, slices: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let Both { answers, dice, .. } = &mut *lock(&self.0);
        if answers.is_closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut left = some(answers.room(), dice)?;
        let mut written = 0;
        for slice in slices {
            let (now, _) = slice.split_at(slice.len().min(left));
            answers.put(now);
            written += now.len();
            left -= now.len();
        }
        Ok(written)
    }
}

impl Socket for ServerEnd {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).requests.poll_readable(context).map(Ok)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).answers.poll_writable(context).map(Ok)
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        let Both { requests, dice, .. } = &mut *lock(&self.0);
        if requests.bytes.is_empty() && requests.is_closed {
            return Ok(0);
        }
        let count = some(requests.bytes.len().min(into.chunk_mut().len()), dice)?;
        requests.take(count, into);
        Ok(count)
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write(slices.iter().map(|slice| &**slice))
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        let Some(Part::File {
            file,
            offset,
            length,
        }) = pieces.first()
        else {
            let memory = pieces.iter().map_while(|piece| match piece {
                Part::Memory(bytes) => Some(&**bytes),
                Part::File { .. } => None,
            });
            return self.write(memory);
        };
        // Like `sendfile`, which reads no more than there is room for.
        let room = lock(&self.0).answers.room();
        let mut bytes = vec![0; room.min(*length as usize)];
        if bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let read = file.read_at(&mut bytes, *offset)?;
        match bytes.get(..read) {
            Some(bytes) if !bytes.is_empty() => self.write([bytes].into_iter()),
            _ => Ok(0),
        }
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        let mut both = lock(&self.0);
        both.requests.close();
        both.answers.close();
    }
}

impl ClientEnd {
    /// Sends bytes when there is room. Returns false if the daemon has closed the connection.
    pub(super) async fn send(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            poll_fn(|context| lock(&self.0).requests.poll_writable(context)).await;
            let Both { requests, .. } = &mut *lock(&self.0);
            if requests.is_closed {
                return false;
            }
            let (now, later) = rest.split_at(rest.len().min(requests.room()));
            requests.put(now);
            rest = later;
        }
        true
    }

    /// Receives what is there. Returns false at the end.
    pub(super) async fn receive(&self, into: &mut BytesMut) -> bool {
        poll_fn(|context| lock(&self.0).answers.poll_readable(context)).await;
        let Both { answers, .. } = &mut *lock(&self.0);
        let count = answers.bytes.len();
        answers.take(count, into);
        count > 0
    }

    /// Waits until the daemon closes the connection. Takes nothing that it sends.
    pub(super) async fn closed(&self) {
        poll_fn(|context| {
            let Both { requests, .. } = &mut *lock(&self.0);
            if requests.is_closed {
                return Poll::Ready(());
            }
            requests.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        let mut both = lock(&self.0);
        both.requests.close();
        both.answers.close();
    }
}
