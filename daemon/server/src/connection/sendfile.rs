// SPDX-License-Identifier: Apache-2.0
//! Bytes into a socket by one system call: from memory, or from a file without a copy through this
//! process. The socket does not block; the disk may.

use std::io;

use lodestone_store::Part;
use rustix::io::Errno;
use rustix::net::SendFlags;
use tokio::net::TcpStream;

/// Bytes read at once from files without a descriptor.
const COPY_BYTES: usize = 64 << 10;

/// Sends from the beginning of a piece, and returns the number of bytes. If `more` bytes follow at
/// once, a small piece waits for them, to travel in the same packet.
pub(super) fn step(socket: &TcpStream, piece: &Part, more: bool) -> io::Result<usize> {
    match piece {
        Part::Memory(bytes) => {
            let flags = SendFlags::NOSIGNAL;
            let flags = if more { flags | SendFlags::MORE } else { flags };
            Ok(rustix::net::send(socket, bytes, flags)?)
        }
        Part::File {
            file,
            offset,
            length,
        } => {
            let count = usize::try_from(*length).unwrap_or(usize::MAX);
            if let Some(fd) = file.fd() {
                let mut position = *offset;
                let sent = rustix::fs::sendfile(socket, fd, Some(&mut position), count)?;
                return Ok(sent);
            }
            let mut buffer = vec![0; count.min(COPY_BYTES)];
            let read = file.read_at(&mut buffer, *offset)?;
            match buffer.get(..read) {
                Some(bytes) if !bytes.is_empty() => {
                    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
                }
                _ => Ok(0),
            }
        }
    }
}

/// `sendfile` returns one error for both of its ends; sockets do not fail with these.
pub(super) fn is_of_disk(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    [Errno::IO, Errno::UCLEAN, Errno::STALE, Errno::NXIO]
        .map(Some)
        .contains(&errno)
}
