// SPDX-License-Identifier: Apache-2.0
//! Bytes into a socket by one system call: from memory, or from a file without a copy through this
//! process. A small range of a file is copied: then it goes with its neighbours, and one call sends
//! several blocks. The socket does not block; the disk may.

use std::cell::RefCell;
use std::io::{self, IoSlice};

use lodestone_store::Part;
use lodestone_store::fs::File;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::net::TcpStream;

/// Bytes that a thread reads from files for one call. It keeps this memory.
pub(super) const COPY_BYTES: usize = 64 << 10;

/// To copy a range of this size costs less than a call of its own.
const SMALL_BYTES: usize = 32 << 10;

/// Pieces that are sent together.
const MAX_SLICES: usize = 64;

/// `sendfile` returns one error for both of its ends; sockets do not fail with these.
const OF_DISKS: [Errno; 4] = [Errno::IO, Errno::UCLEAN, Errno::STALE, Errno::NXIO];

thread_local! {
    /// Empty until this thread reads from a file.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends from the beginning of the first pieces, none of which is empty, and returns the number of
/// bytes: of several pieces, or of one large one in a file. Returns also whether the socket is full
/// for certain. What others follow may wait for them, to travel in the same packet: the system lets
/// it go after 200 ms, but not if it makes records.
pub(super) fn step(
    socket: &TcpStream,
    pieces: &[Part],
    may_wait: bool,
) -> io::Result<(usize, bool)> {
    match pieces.first() {
        None => Ok((0, false)),
        Some(Part::File {
            file,
            offset,
            length,
        }) if *length > SMALL_BYTES as u64
            && let Some(fd) = file.fd() =>
        {
            let count = usize::try_from(*length).unwrap_or(usize::MAX);
            let mut position = *offset;
            // The end of the file may be nearer than it was.
            let sent = rustix::fs::sendfile(socket, fd, Some(&mut position), count);
            match sent {
                Ok(bytes) => file.count_read(Some(bytes)),
                Err(errno) if OF_DISKS.contains(&errno) => file.count_read(None),
                // The socket's.
                Err(_) => {}
            }
            Ok((sent?, false))
        }
        Some(_) => BUFFER.with_borrow_mut(|buffer| send_together(socket, pieces, buffer, may_wait)),
    }
}

fn send_together(
    socket: &TcpStream,
    pieces: &[Part],
    buffer: &mut Vec<u8>,
    may_wait: bool,
) -> io::Result<(usize, bool)> {
    let is_file = |piece: &Part| matches!(piece, Part::File { .. });
    if pieces.iter().take(MAX_SLICES).any(is_file) {
        buffer.resize(COPY_BYTES, 0);
    }
    let mut slices = [IoSlice::new(&[]); MAX_SLICES];
    let count = gather(pieces, buffer, &mut slices)?;
    let slices = slices.get(..count).unwrap_or_default();
    if slices.is_empty() {
        return Ok((0, false));
    }
    let flags = match may_wait && count < pieces.len() {
        true => SendFlags::NOSIGNAL | SendFlags::MORE,
        false => SendFlags::NOSIGNAL,
    };
    let mut control = SendAncillaryBuffer::default();
    let sent = rustix::net::sendmsg(socket, slices, &mut control, flags)?;
    let all = slices.iter().map(|slice| slice.len()).sum();
    Ok((sent, sent < all))
}

/// Returns how many slices one call can send. Reads small ranges of files into the buffer. An
/// error, or no slice, if the first piece cannot be read.
fn gather<'a>(
    pieces: &'a [Part],
    mut buffer: &'a mut [u8],
    slices: &mut [IoSlice<'a>],
) -> io::Result<usize> {
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        let bytes = match piece {
            Part::Memory(bytes) => bytes,
            Part::File {
                file,
                offset,
                length,
            } => {
                let wanted = usize::try_from(*length).unwrap_or(usize::MAX);
                if count > 0 && wanted > buffer.len().min(SMALL_BYTES) {
                    break;
                }
                match read(file.as_ref(), *offset, wanted, &mut buffer) {
                    Ok(bytes) if !bytes.is_empty() => bytes,
                    Err(error) if count == 0 => return Err(error),
                    // What is before it can be sent.
                    _ => break,
                }
            }
        };
        *slice = IoSlice::new(bytes);
        count += 1;
        if (bytes.len() as u64) < piece.length() {
            break;
        }
    }
    Ok(count)
}

/// Reads into the beginning of the buffer, which is shorter by this afterwards.
fn read<'a>(
    file: &dyn File,
    offset: u64,
    wanted: usize,
    buffer: &mut &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let all = std::mem::take(buffer);
    let (into, rest) = all.split_at_mut(wanted.min(all.len()));
    *buffer = rest;
    let count = file.read_at(into, offset)?;
    Ok(into.get(..count).unwrap_or_default())
}

/// True for an error of the end that is read from: see [`OF_DISKS`].
pub(super) fn is_of_disk(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    errno.is_some_and(|errno| OF_DISKS.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bytes::Bytes;
    use lodestone_store::fs::fake::FakeFs;
    use lodestone_store::fs::{Fs, Open};

    use super::*;

    /// A block of a file of this content, and its head.
    fn block(content: &[u8], length: usize) -> [Part; 2] {
        let fs = FakeFs::default();
        fs.add_file(Path::new("/file"), content);
        let file = fs.open(Path::new("/file"), Open::Read).unwrap();
        let (offset, length) = (0, length as u64);
        let data = Part::File {
            file,
            offset,
            length,
        };
        [Part::Memory(Bytes::from_static(b"head")), data]
    }

    /// The bytes that one call sends, and how many pieces these are.
    fn gathered(pieces: &[Part]) -> (Vec<u8>, usize) {
        let mut buffer = vec![0; COPY_BYTES];
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = gather(pieces, &mut buffer, &mut slices).unwrap();
        let bytes = slices[..count].iter().flat_map(|slice| slice.to_vec());
        (bytes.collect(), count)
    }

    #[test]
    fn small_blocks_of_several_files_are_sent_by_one_call_with_their_heads() {
        let pieces = [block(b"one", 3), block(b"two", 3), block(b"three", 5)].concat();
        let (bytes, count) = gathered(&pieces);
        assert_eq!(
            (bytes.as_slice(), count),
            (&b"headoneheadtwoheadthree"[..], 6)
        );
    }

    #[test]
    fn a_large_block_is_not_copied_if_something_is_sent_before_it() {
        let large = vec![7; SMALL_BYTES + 1];
        let pieces = [block(b"one", 3), block(&large, large.len())].concat();
        assert_eq!(gathered(&pieces), (b"headonehead".to_vec(), 3));
    }

    #[test]
    fn no_more_is_read_than_the_buffer_has_room_for() {
        let content = vec![7; SMALL_BYTES];
        let pieces = [(); 4].map(|()| block(&content, SMALL_BYTES)).concat();
        let whole = COPY_BYTES / SMALL_BYTES;
        let (bytes, count) = gathered(&pieces);
        assert_eq!(bytes.len(), whole * (4 + SMALL_BYTES) + 4);
        assert_eq!(count, 2 * whole + 1, "and the head of the next one");
    }

    #[test]
    fn what_comes_before_the_end_of_a_file_that_was_cut_is_sent_and_nothing_behind_it() {
        let pieces = [block(b"one", 3), block(b"tw", 3), block(b"three", 5)].concat();
        assert_eq!(gathered(&pieces), (b"headoneheadtw".to_vec(), 4));
        let [head, data] = block(b"", 3);
        let pieces = [head, data.clone()];
        assert_eq!(gathered(&pieces), (b"head".to_vec(), 1));
        assert_eq!(gathered(&[data]), (Vec::new(), 0), "an end in the middle");
    }
}
