// SPDX-License-Identifier: Apache-2.0
//! Connections: one task each, which writes requests while it reads answers.

pub mod link;
pub mod outbox;
pub mod parser;

use lodestone_wire::Frame;
use lodestone_wire::frame::ChunkId;

use crate::error::Wrong;
use outbox::Outbox;

/// The next action of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write the bytes in the outbox.
    Send,
    /// Nothing, until an answer has come.
    Wait,
    /// Nothing any more: all answers have come.
    Done,
}

/// The requests over one connection in one phase, and the use of the answers.
pub trait Talk: Send + 'static {
    /// Puts the next request into the outbox.
    fn next(&mut self, out: &mut Outbox) -> Next;

    /// An answer, other than a chunk.
    fn answer(&mut self, frame: Frame) -> Result<(), Wrong>;

    /// Some bytes of a chunk.
    fn piece(&mut self, chunk: ChunkId, bytes: &[u8]) -> Result<(), Wrong>;

    /// A chunk is complete.
    fn chunk_end(&mut self, chunk: ChunkId) -> Result<(), Wrong>;

    /// Returns the pace of a slow client.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// A slow client has written this many bytes.
    fn wrote(&mut self, _bytes: u64) {}
}

/// Bytes a second; without a number, as many as the socket takes and gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// That may be read.
    pub read: Option<u64>,
    /// That may be written.
    pub write: Option<u64>,
}
