// SPDX-License-Identifier: Apache-2.0
//! Open chunks, and their bytes on the way into the socket. Small ones go together: a call of the
//! system costs more than the copy of some kilobytes.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;

use bytes::Buf;
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
}

/// One of them.
pub(super) struct OpenChunk {
    pub(super) wanted: Wanted,
    /// Where the thread that sends it reads from.
    pub(super) places: Vec<usize>,
    /// Bytes of the chunk; `None` for an answer that says why there is none.
    pub(super) length: Option<u64>,
    /// How many of the pieces are left.
    pieces: usize,
}

impl OpenChunk {
    pub(super) fn new(wanted: Wanted, places: Vec<usize>, length: Option<u64>) -> Self {
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
                self.pieces.push_front(after(piece, count));
                return;
            }
            self.bytes -= length;
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
mod tests {
    use std::io::{self, IoSlice};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};

    use bytes::{BufMut, Bytes};
    use lodestone_model::AppId;
    use lodestone_store::fs::fake::FakeFs;
    use lodestone_store::fs::{Fs, Open};
    use lodestone_wire::frame::ChunkId;
    use tokio::sync::Semaphore;

    use super::super::{ChunkHead, Hold};
    use super::*;
    use crate::metrics::stopwatch::Stopwatch;
    use crate::streams::items::Items;
    use crate::streams::source::Source;
    use crate::streams::{SharedStreams, StreamItem};

    /// A client that takes so many bytes.
    #[derive(Debug)]
    struct Client {
        room: Mutex<usize>,
    }

    impl Socket for Client {
        fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn try_read(&self, _: &mut dyn BufMut) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }

        fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
            Err(ErrorKind::WouldBlock.into())
        }

        fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
            let mut room = self.room.lock().unwrap();
            let all: u64 = pieces.iter().map(Part::length).sum();
            let sent = (all as usize).min(*room);
            *room -= sent;
            match sent {
                0 => Err(ErrorKind::WouldBlock.into()),
                sent => Ok(sent),
            }
        }
    }

    /// The requests for the chunks of one stream.
    fn wanted(count: i32) -> Vec<Wanted> {
        let item = |split| StreamItem::Rdd { rdd: 1, split };
        let source = Source {
            app: AppId::new("app").unwrap(),
            attempt: None,
            exec: String::new(),
            items: Items::Mixed((0..count).map(item).collect()),
        };
        let streams = SharedStreams::default();
        let memory = |_: &AppId, _| Some(Box::new(()) as _);
        streams.open(1, source, memory).unwrap();
        let permits = Arc::new(Semaphore::new(count as usize));
        let one = |chunk_index| Wanted {
            head: ChunkHead::Fetch(ChunkId {
                stream_id: 1,
                chunk_index,
            }),
            job: streams.take(1, chunk_index).unwrap(),
            found: None,
            _hold: Hold {
                _permit: Arc::clone(&permits).try_acquire_owned().unwrap(),
                memory: Vec::new(),
            },
            stopwatch: Stopwatch::start(),
        };
        (0..count).map(one).collect()
    }

    fn index(wanted: &Wanted) -> i32 {
        match &wanted.head {
            ChunkHead::Fetch(chunk) => chunk.chunk_index,
            ChunkHead::Stream(name) => panic!("{name}"),
        }
    }

    #[test]
    fn a_client_that_takes_blocks_slowly_holds_one_open_file() {
        let fs = FakeFs::default();
        fs.add_file(std::path::Path::new("/file"), b"block");
        let mut sending = Sending::default();
        for wanted in wanted(4) {
            let file = fs.open(std::path::Path::new("/file"), Open::Read).unwrap();
            let data = Part::File {
                file,
                offset: 0,
                length: 5,
            };
            let head = Part::Memory(Bytes::from_static(b"head"));
            let chunk = OpenChunk::new(wanted, vec![1], Some(5));
            sending.add(chunk, [head, data].into_iter());
        }
        // The first block, and a part of the second one.
        let client = Client { room: 12.into() };
        let mut done = Vec::new();
        let sent = sending.send(&client, 100, |chunk| done.push(index(&chunk.wanted)));
        assert_eq!((sent.unwrap(), done), (12, vec![0]));
        assert_eq!(fs.open_files().0, 3);
        let closed = sending.close_unbegun();
        assert_eq!(closed.iter().map(index).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(fs.open_files().0, 1);
        *client.room.lock().unwrap() = 100;
        assert_eq!(
            sending.send(&client, 100, |_| {}).unwrap(),
            6,
            "the rest of it"
        );
        assert!(sending.is_empty() && sending.has_room());
        assert_eq!((sending.bytes, fs.open_files().0), (0, 0));
    }

    #[test]
    fn a_client_that_takes_blocks_slowly_holds_the_memory_of_one_chunk() {
        let mut sending = Sending::default();
        for (wanted, places) in wanted(4).into_iter().zip([vec![], vec![], vec![0], vec![]]) {
            let chunk = OpenChunk::new(wanted, places, Some(4));
            let bytes = Part::Memory(Bytes::from_static(b"all of it"));
            sending.add(chunk, std::iter::once(bytes));
        }
        assert_eq!(sending.places(), [0]);
        let closed = sending.close_unbegun();
        assert_eq!(closed.iter().map(index).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((sending.chunks.len(), sending.bytes), (1, 9));
        assert!(sending.close_unbegun().is_empty());
    }
}
