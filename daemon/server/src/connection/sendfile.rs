// SPDX-License-Identifier: Apache-2.0
//! Bytes into a socket by one system call: from memory, or from a file without a copy through this
//! process. The socket does not block; the disk may.

use std::io::{self, IoSlice};

use lodestone_store::Part;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::net::TcpStream;

/// Bytes read at once from files without a descriptor.
const COPY_BYTES: usize = 64 << 10;

/// Pieces in memory that are sent together.
const MAX_SLICES: usize = 64;

/// Sends from the beginning of the first pieces, none of which is empty, and returns the number of
/// bytes: of several pieces in memory, or of one in a file.
pub(super) fn step(socket: &TcpStream, pieces: &[Part]) -> io::Result<usize> {
    match pieces.first() {
        None => Ok(0),
        Some(Part::Memory(_)) => send_memory(socket, pieces),
        Some(Part::File {
            file,
            offset,
            length,
        }) => {
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

/// If other pieces follow, a small one waits for them, to travel in the same packet.
fn send_memory(socket: &TcpStream, pieces: &[Part]) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); MAX_SLICES];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        let Part::Memory(bytes) = piece else { break };
        *slice = IoSlice::new(bytes);
        count += 1;
    }
    let flags = match count < pieces.len() {
        true => SendFlags::NOSIGNAL | SendFlags::MORE,
        false => SendFlags::NOSIGNAL,
    };
    let slices = slices.get(..count).unwrap_or_default();
    let mut control = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, slices, &mut control, flags)?)
}

/// `sendfile` returns one error for both of its ends; sockets do not fail with these.
pub(super) fn is_of_disk(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    [Errno::IO, Errno::UCLEAN, Errno::STALE, Errno::NXIO]
        .map(Some)
        .contains(&errno)
}
