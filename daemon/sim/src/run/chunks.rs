// SPDX-License-Identifier: Apache-2.0
//! Chunks on their way to readers. Opening one and sending its bytes are two events, since much can
//! happen in between.

use bytes::Bytes;
use lodestone_model::Code;
use lodestone_store::ChunkData;

use super::{Judged, Pending, Run};
use crate::model::{Chunk, Original, Trouble, consists_of};
use crate::network::Envelope;
use crate::world::NoChunk;

/// A chunk that the daemon has opened and not sent yet.
pub(super) struct OpenChunk {
    envelope: Envelope,
    data: ChunkData,
    /// The bytes that it must have, if that is certain.
    expected: Option<Wanted>,
}

/// The bytes of a chunk.
enum Wanted {
    OneOf(Vec<Vec<u8>>),
    /// One of the byte strings of each block, in any order.
    Blocks(Vec<Vec<Bytes>>),
}

impl Wanted {
    fn is_met(&self, bytes: &[u8]) -> bool {
        match self {
            Self::OneOf(possible) => possible.iter().any(|one| one == bytes),
            Self::Blocks(blocks) => consists_of(bytes, blocks),
        }
    }
}

impl Run {
    pub(super) fn chunk(&mut self, envelope: Envelope, stream: i64, index: i32) -> Judged {
        let connection = envelope.connection;
        let Some(opened) = self.world.open_chunk(connection, stream, index) else {
            return Ok(());
        };
        self.trace
            .record("open a chunk", &[u8::from(opened.is_ok())], || {
                format!("{index} of stream {stream} on {connection}: {opened:?}")
            });
        let Some(trouble) = self.settle()? else {
            return Ok(());
        };
        let expected = self.model.open_chunk(connection, stream, index);
        match (expected, opened) {
            (Chunk::Original(possible), opened) => {
                return self.original(envelope, possible, opened, trouble);
            }
            (Chunk::Merged(blocks), Ok(data)) => {
                self.count("merged chunk opened");
                self.send_later(envelope, data, Wanted::Blocks(blocks));
            }
            (Chunk::Merged(_), Err(NoChunk::Store(refusal)))
                if trouble.reads || (trouble.descriptors && refusal.code == Code::Overloaded) =>
            {
                self.count("merged chunk not opened");
            }
            (Chunk::NotMerged, Err(NoChunk::Store(_))) => self.count("chunk that is not merged"),
            (Chunk::Closed, Err(NoChunk::Stream(_))) => self.count("chunk of a closed stream"),
            (Chunk::Refused(code), Err(NoChunk::Store(refusal))) if refusal.code == code => {
                self.count(match code {
                    Code::Aborted => "chunk of a segment that is gone",
                    _ => "chunk of a shuffle that is gone",
                });
            }
            (Chunk::Bytes(_) | Chunk::Doubtful(_), Err(NoChunk::Store(_))) if trouble.reads => {
                self.count("chunk not opened");
            }
            (Chunk::Bytes(_) | Chunk::Doubtful(_), Err(NoChunk::Store(refusal)))
                if trouble.descriptors && refusal.code == Code::Overloaded =>
            {
                self.count("chunk without a descriptor");
            }
            (Chunk::Doubtful(_), Err(NoChunk::Store(refusal))) if refusal.code == Code::Aborted => {
                self.count("chunk of a segment that was dropped");
            }
            (Chunk::Bytes(bytes) | Chunk::Doubtful(bytes), Ok(data))
                if data.length() == bytes.len() as u64 =>
            {
                self.send_later(envelope, data, Wanted::OneOf(vec![bytes]));
            }
            (expected, Ok(data)) => {
                let (length, expected) = (data.length(), short(&expected));
                return Err(format!("a chunk of {length} bytes, must be {expected}"));
            }
            (expected, Err(found)) => {
                return Err(format!("no chunk: {found:?}, must be {}", short(&expected)));
            }
        }
        Ok(())
    }

    /// A block of an executor: its bytes, a refusal, or the end of the connection.
    fn original(
        &mut self,
        envelope: Envelope,
        possible: Vec<Original>,
        opened: Result<ChunkData, NoChunk>,
        trouble: Trouble,
    ) -> Judged {
        match opened {
            Ok(data) => {
                let fits = |one: &Original| match one {
                    Original::Bytes(bytes) => bytes.len() as u64 == data.length(),
                    Original::Refused(_) => false,
                };
                let bytes = possible.iter().filter(|one| fits(one));
                let bytes = bytes.filter_map(|one| match one {
                    Original::Bytes(bytes) => Some(bytes.clone()),
                    Original::Refused(_) => None,
                });
                let bytes: Vec<_> = bytes.collect();
                if bytes.is_empty() {
                    let length = data.length();
                    return Err(format!("an original of {length} bytes, not as was written"));
                }
                self.count("original opened");
                self.send_later(envelope, data, Wanted::OneOf(bytes));
            }
            Err(NoChunk::Store(found)) if possible.contains(&Original::Refused(found.code)) => {
                self.count(match found.code {
                    Code::UnknownPartition => "original that is not there",
                    Code::DiskFailed => "original that makes no sense",
                    _ => "original of a malformed request",
                });
            }
            Err(NoChunk::Store(found)) if trouble.reads && found.code == Code::DiskFailed => {
                self.count("original not read");
            }
            Err(NoChunk::Closes(_)) if trouble.descriptors => {
                self.count("original without a descriptor");
                self.world.reconnect(envelope.connection);
                self.model.disconnect(envelope.connection);
            }
            Err(found) => {
                return Err(format!("no original: {found:?}, which was written"));
            }
        }
        Ok(())
    }

    fn send_later(&mut self, envelope: Envelope, data: ChunkData, expected: Wanted) {
        self.pending.push(Pending::Chunk(OpenChunk {
            envelope,
            data,
            expected: Some(expected),
        }));
    }

    pub(super) fn send_chunk(&mut self, chunk: &OpenChunk) -> Judged {
        let read = self.world.read(&chunk.data);
        let bytes = read.as_deref().unwrap_or_default();
        self.trace.record("send a chunk", bytes, || {
            format!("of {} bytes", bytes.len())
        });
        let Some(trouble) = self.settle()? else {
            return Ok(());
        };
        let expected = chunk.expected.as_ref();
        match read {
            Err(_) if trouble.reads => self.count("chunk not read"),
            Err(error) => return Err(format!("a chunk cannot be read: {error}")),
            Ok(bytes) if expected.is_some_and(|expected| !expected.is_met(&bytes)) => {
                return Err("a chunk with other bytes than were pushed".to_owned());
            }
            Ok(bytes) => {
                let accepted = self.clients.accepts_chunk(&chunk.envelope, &bytes);
                self.count(match accepted {
                    true => "chunk read",
                    false => "chunk of another layout",
                });
            }
        }
        Ok(())
    }

    /// Returns true while the daemon sends a chunk: open files and memory in use are no leak then.
    pub(super) fn sends_a_chunk(&self) -> bool {
        let is_chunk = |pending: &Pending| matches!(pending, Pending::Chunk(_));
        self.pending.iter().any(is_chunk)
    }

    /// Aborted segments go at once, also while a reader has them, which finds this by the checksum.
    /// (No reader needs them: Spark never accepted the attempt.)
    pub(super) fn forget_open_chunks(&mut self) {
        for pending in &mut self.pending {
            if let Pending::Chunk(chunk) = pending {
                chunk.expected = None;
            }
        }
    }
}

/// An expectation without its bytes.
fn short(expected: &Chunk) -> String {
    match expected {
        Chunk::Bytes(bytes) | Chunk::Doubtful(bytes) => format!("{} bytes", bytes.len()),
        Chunk::Original(_) => "an original".to_owned(),
        Chunk::Merged(_) => "a merged chunk".to_owned(),
        other => format!("{other:?}"),
    }
}
