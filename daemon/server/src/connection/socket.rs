// SPDX-License-Identifier: Apache-2.0
//! The bytes of one connection. The system's sockets are one kind; a simulation brings its own.

use std::fmt::Debug;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Poll};

use bytes::BufMut;
use lodestone_store::Part;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::sendfile;

/// A read with more room is one of a large request, whose next bytes come soon: to ask for them
/// costs less than a wait. With waits, pushes took a tenth more of the CPU time.
const SHORT_READ_BYTES: usize = 16 << 10;

/// A socket that never blocks. One task reads from it, and one writes to it.
pub trait Socket: Debug + Send + Sync + 'static {
    /// Ready when there is something to read, or the client closed its side.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when there is room for bytes.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads what is there; 0 at the end.
    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize>;

    /// Writes as much of these slices as there is room for.
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends from the beginning of pieces, none of which is empty, as many bytes as there is room
    /// for. May wait for the disk of a piece.
    fn try_send(&self, pieces: &[Part]) -> io::Result<usize>;

    /// Returns true if nobody between the two ends can read the bytes.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Sends what was taken and has not left, as far as there is room. An error if something stays.
    fn try_flush(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for TcpStream {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }

    fn try_read(&self, mut into: &mut dyn BufMut) -> io::Result<usize> {
        let room = into.chunk_mut().len();
        moved(self, Interest::READABLE, || {
            let count = self.try_read_buf(&mut into)?;
            let is_empty = count > 0 && count < room && room <= SHORT_READ_BYTES;
            Ok((count, is_empty))
        })
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        moved(self, Interest::WRITABLE, || {
            let count = self.try_write_vectored(slices)?;
            let all: usize = slices.iter().map(|slice| slice.len()).sum();
            Ok((count, count < all))
        })
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        moved(self, Interest::WRITABLE, || {
            sendfile::step(self, pieces, true)
        })
    }
}

/// Moves bytes, and returns how many. If the call shows that the next one would move none, the
/// socket counts as not ready, and there is no next one before it is ready again.
fn moved(
    socket: &TcpStream,
    interest: Interest,
    call: impl FnOnce() -> io::Result<(usize, bool)>,
) -> io::Result<usize> {
    let mut count = None;
    let moved = socket.try_io(interest, || {
        let (bytes, was_last) = call()?;
        count = Some(bytes);
        match was_last {
            true => Err(ErrorKind::WouldBlock.into()),
            false => Ok(bytes),
        }
    });
    count.map_or(moved, Ok)
}

/// Returns true for a call that is to be repeated, once the socket is ready.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits until there is something to read.
pub(super) async fn readable(socket: &dyn Socket) -> io::Result<()> {
    poll_fn(|context| socket.poll_readable(context)).await
}

/// Waits until there is room for bytes.
pub(super) async fn writable(socket: &dyn Socket) -> io::Result<()> {
    poll_fn(|context| socket.poll_writable(context)).await
}

#[cfg(test)]
mod tests;
