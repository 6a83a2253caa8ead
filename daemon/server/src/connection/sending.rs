// SPDX-License-Identifier: Apache-2.0
//! Open chunks, and their bytes on the way into the socket. Small ones go together: a call of the
//! system costs more than the copy of some kilobytes.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind};

use bytes::Buf;
use lodestone_model::Code;
use lodestone_planted::{self as planted, Bug};
use lodestone_store::Part;

use super::burst::Wanted;
use super::socket::Socket;
use super::{CloseReason, sendfile};

/// No other chunk is opened while so many bytes are there to be sent: as many as one call takes.
const GATHERED_BYTES: u64 = sendfile::COPY_BYTES as u64;

/// The most that are open at once: each may need a descriptor.
pub(crate) const GATHERED_CHUNKS: usize = 16;

/// Chunks that are being sent, in order. All but the first have not begun.
#[derive(Default)]
pub(super) struct Sending {
    chunks: VecDeque<OpenChunk>,
    pieces: VecDeque<Part>,
    bytes: u64,
    /// Bytes of the first chunk's answer that were sent.
    sent: u64,
}

/// The answer with a chunk of which a part was sent, and which is to be opened again for the rest.
#[derive(Debug)]
pub(super) struct Begun {
    /// Bytes of the answer that were sent.
    sent: u64,
    /// Bytes of the chunk.
    length: u64,
}

/// One of them.
pub(super) struct OpenChunk {
    pub(super) wanted: Wanted,
    /// Where the thread that sends it reads from.
    pub(super) places: Vec<usize>,
    /// Bytes of the chunk; an error for an answer that says why there is none.
    pub(super) length: Result<u64, Code>,
    /// How many of the pieces are left.
    pieces: usize,
}

impl OpenChunk {
    pub(super) fn new(wanted: Wanted, places: Vec<usize>, length: Result<u64, Code>) -> Self {
        Self {
            wanted,
            places,
            length,
            pieces: 0,
        }
    }
}

impl Sending {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The chunk of which the next bytes are.
    pub(super) fn first(&self) -> Option<&OpenChunk> {
        self.chunks.front()
    }

    /// True if one call can send another chunk too.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < GATHERED_BYTES && self.chunks.len() < GATHERED_CHUNKS
    }

    /// Adds a chunk, and its pieces, none of which is empty.
    pub(super) fn add(&mut self, mut chunk: OpenChunk, pieces: impl Iterator<Item = Part>) {
        let before = self.pieces.len();
        self.pieces
            .extend(pieces.inspect(|piece| self.bytes += piece.length()));
        chunk.pieces = self.pieces.len() - before;
        self.chunks.push_back(chunk);
    }

    /// Adds the rest of a chunk that was set aside. Fails if it is another one now: then the
    /// answer has no right end.
    pub(super) fn go_on(
        &mut self,
        chunk: OpenChunk,
        pieces: impl Iterator<Item = Part>,
        begun: &Begun,
    ) -> io::Result<()> {
        if !self.is_empty() || chunk.length != Ok(begun.length) {
            return Err(io::Error::other("it has another length than before"));
        }
        self.add(chunk, pieces);
        self.advance(begun.sent as usize, &mut |_| {});
        Ok(())
    }

    /// Closes the first chunk if it holds memory of the store. A block of an executor stays open:
    /// its file may have other bytes when it is opened again.
    pub(super) fn set_aside(&mut self) -> Option<Wanted> {
        let first = self.chunks.front()?;
        let length = first
            .length
            .ok()
            .filter(|_| !first.wanted.job.is_sparks_own())?;
        // Before anything was sent, the first piece is the head of the answer.
        let heads = usize::from(self.sent == 0);
        let mut pieces = self.pieces.iter().take(first.pieces).skip(heads);
        if !pieces.any(|piece| matches!(piece, Part::Memory(_))) {
            return None;
        }
        let mut first = self.chunks.pop_front()?;
        let closed = self.pieces.drain(..first.pieces);
        self.bytes -= closed.map(|piece| piece.length()).sum::<u64>();
        let sent = std::mem::take(&mut self.sent);
        // A client that has nothing of it can still hear that the chunk is gone.
        first.wanted.begun = (sent > 0).then_some(Begun { sent, length });
        Some(first.wanted)
    }

    /// Where the thread reads from that sends all of them, in ascending order.
    pub(super) fn places(&self) -> Vec<usize> {
        let all = self.chunks.iter().flat_map(|chunk| &chunk.places);
        let all: BTreeSet<usize> = all.copied().collect();
        all.into_iter().collect()
    }

    /// Sends until nothing is left, the socket is full or so many bytes are sent, and returns the
    /// number of bytes. Calls `done` with each chunk that is sent.
    pub(super) fn send(
        &mut self,
        socket: &dyn Socket,
        most: u64,
        mut done: impl FnMut(&OpenChunk),
    ) -> Result<u64, CloseReason> {
        let mut sent = 0;
        while !self.pieces.is_empty() && sent < most {
            let pieces = self.pieces.make_contiguous();
            match socket.try_send(pieces) {
                Ok(0) => return Err(CloseReason::Chunk(ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    sent += count as u64;
                    self.advance(count, &mut done);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(sent),
                    ErrorKind::Interrupted => {}
                    _ if sendfile::is_of_disk(&error) => return Err(CloseReason::Chunk(error)),
                    _ => return Err(CloseReason::Socket(error)),
                },
            }
        }
        Ok(sent)
    }

    /// Forgets the bytes that were sent.
    fn advance(&mut self, mut count: usize, done: &mut impl FnMut(&OpenChunk)) {
        while let Some(piece) = self.pieces.pop_front() {
            let length = piece.length();
            if length > count as u64 {
                let count = match planted::is(Bug::PartOfChunkRepeated) {
                    true => 0,
                    false => count,
                };
                self.bytes -= count as u64;
                self.sent += count as u64;
                self.pieces.push_front(after(piece, count));
                return;
            }
            self.bytes -= length;
            self.sent += length;
            count -= length as usize;
            self.count_piece(done);
        }
    }

    fn count_piece(&mut self, done: &mut impl FnMut(&OpenChunk)) {
        let Some(chunk) = self.chunks.front_mut() else {
            return;
        };
        chunk.pieces -= 1;
        if chunk.pieces == 0
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.sent = 0;
            done(&chunk);
        }
    }

    /// Closes all chunks that have not begun, and returns these. A client that takes its bytes
    /// slowly must not hold a descriptor, or a part of a tail, for each chunk.
    pub(super) fn close_unbegun(&mut self) -> Vec<Wanted> {
        let closed = self.chunks.split_off(self.chunks.len().min(1));
        let pieces: usize = closed.iter().map(|chunk| chunk.pieces).sum();
        let dropped = self.pieces.split_off(self.pieces.len() - pieces);
        self.bytes -= dropped.iter().map(Part::length).sum::<u64>();
        closed.into_iter().map(|chunk| chunk.wanted).collect()
    }
}

/// Returns the rest of a piece.
fn after(piece: Part, count: usize) -> Part {
    match piece {
        Part::Memory(mut bytes) => {
            bytes.advance(count);
            Part::Memory(bytes)
        }
        Part::File {
            file,
            offset,
            length,
        } => Part::File {
            file,
            offset: offset + count as u64,
            length: length - count as u64,
        },
    }
}

#[cfg(test)]
pub(super) mod tests;
