// SPDX-License-Identifier: Apache-2.0
//! A range of a file to a socket, without a copy through this process.
//!
//! `sendfile(2)` may wait for the disk, so it runs on the blocking pool; the socket does not block, so a
//! slow client gives the thread back at once and is waited for without one.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use lodestone_store::fs::File;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use super::CloseReason;
use super::writer::writable_in_time;

/// Bytes read at once from files without a descriptor.
const COPY_BYTES: usize = 64 << 10;

/// Sends the range. On an error part of it may be sent: the connection cannot go on.
pub(super) async fn send(
    socket: &Arc<TcpStream>,
    file: Arc<dyn File>,
    mut offset: u64,
    length: u64,
) -> Result<(), CloseReason> {
    let end = offset + length;
    while offset < end {
        writable_in_time(socket).await?;
        let (to, from) = (Arc::clone(socket), Arc::clone(&file));
        let burst = spawn_blocking(move || burst(&to, from.as_ref(), offset, end - offset)).await;
        offset += burst.map_err(|_| CloseReason::Panic)??;
    }
    Ok(())
}

/// Sends until the range ends or the socket is full, and says how many bytes.
fn burst(
    socket: &TcpStream,
    file: &dyn File,
    offset: u64,
    length: u64,
) -> Result<u64, CloseReason> {
    let mut sent = 0;
    while sent < length {
        let result = socket.try_io(Interest::WRITABLE, || {
            step(socket, file, offset + sent, length - sent)
        });
        match result {
            Ok(0) => return Err(CloseReason::Chunk(ErrorKind::UnexpectedEof.into())),
            Ok(count) => sent += count as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_of_disk(&error) => return Err(CloseReason::Chunk(error)),
            Err(error) => return Err(CloseReason::Socket(error)),
        }
    }
    Ok(sent)
}

/// `sendfile` has one error for both of its ends; sockets do not fail with these.
fn is_of_disk(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    [Errno::IO, Errno::UCLEAN, Errno::STALE, Errno::NXIO]
        .map(Some)
        .contains(&errno)
}

fn step(socket: &TcpStream, file: &dyn File, offset: u64, length: u64) -> io::Result<usize> {
    let count = usize::try_from(length).unwrap_or(usize::MAX);
    let Some(fd) = file.fd() else {
        let mut buffer = vec![0; count.min(COPY_BYTES)];
        let read = file.read_at(&mut buffer, offset)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        return match bytes {
            [] => Ok(0),
            _ => Ok(rustix::io::write(socket, bytes)?),
        };
    };
    let mut position = offset;
    Ok(rustix::fs::sendfile(
        socket,
        fd,
        Some(&mut position),
        count,
    )?)
}
