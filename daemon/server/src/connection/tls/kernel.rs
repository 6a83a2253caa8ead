// SPDX-License-Identifier: Apache-2.0
//! A socket whose TLS the kernel does, after this process has agreed upon keys. Its bytes are read
//! and sent as without TLS.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::BufMut;
use lodestone_store::Part;
use rustix::io::Errno;
use rustls::ServerConnection;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::RECORD_BYTES;
use crate::connection::sendfile;
use crate::connection::socket::Socket;
use crate::service::kernel_tls;

/// The kernel counts the records of a key, and does not say when it has had enough. AES-GCM is safe
/// up to 2^24 of them, with some more to spare.
const RECORDS_MAX: u64 = 1 << 24;

/// A connection that has sent so many reads no further request: it ends with the answers to those
/// that it has read, and the client connects again.
const RECORDS_ENOUGH: u64 = 1 << 23;

/// A socket with keys in the kernel.
#[derive(Debug)]
pub(super) struct KernelTls {
    socket: Arc<TcpStream>,
    /// Records that were sent, or more.
    records: AtomicU64,
}

impl KernelTls {
    /// Takes a connection over that the kernel takes, and of which nothing is left in this process:
    /// no bytes that came after the handshake, and none that are to leave.
    pub(super) fn of(socket: Arc<TcpStream>, connection: ServerConnection) -> io::Result<Self> {
        let secrets = connection.dangerous_extract_secrets();
        kernel_tls::give(&*socket, secrets.map_err(io::Error::other)?)?;
        Ok(Self::over(socket))
    }

    fn over(socket: Arc<TcpStream>) -> Self {
        Self {
            socket,
            records: AtomicU64::new(0),
        }
    }

    /// Sends once.
    fn sent(&self, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        if self.records.load(Relaxed) >= RECORDS_MAX {
            return Err(io::Error::other(
                "the kernel has no new keys for more bytes",
            ));
        }
        let sent = call()?;
        let records = 1 + (sent / RECORD_BYTES) as u64;
        self.records.fetch_add(records, Relaxed);
        Ok(sent)
    }
}

impl Socket for KernelTls {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_read_ready(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(context)
    }

    fn is_encrypted(&self) -> bool {
        true
    }

    // A short read or write of such a socket does not show that the next one would move nothing: a
    // read ends at a record of another kind.
    fn try_read(&self, mut into: &mut dyn BufMut) -> io::Result<usize> {
        if self.records.load(Relaxed) >= RECORDS_ENOUGH {
            tracing::info!("a connection ends: its keys have had enough records");
            return Ok(0);
        }
        match self.socket.try_read_buf(&mut into) {
            // A record that has no data: the client closes its side, or wants to change its keys,
            // which Java's does after 128 GiB. The kernel gives it to nobody else.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.sent(|| self.socket.try_write_vectored(slices))
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        self.sent(|| {
            let step = || sendfile::step(&self.socket, pieces, false).map(|(sent, _)| sent);
            self.socket.try_io(Interest::WRITABLE, step)
        })
    }
}

#[cfg(test)]
mod tests;
