// SPDX-License-Identifier: Apache-2.0
//! Connections: one task each, which writes requests while it reads answers.

pub mod link;
pub mod outbox;
pub mod parser;

use lodestone_wire::Frame;
use lodestone_wire::frame::ChunkId;

use crate::error::Wrong;
use outbox::Outbox;

/// What a connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write what is in the outbox.
    Send,
    /// Nothing, until an answer has come.
    Wait,
    /// Nothing any more: all answers have come.
    Done,
}

/// What is said over one connection in one phase: which requests, and what is made of the answers.
pub trait Talk: Send + 'static {
    /// Puts the next request into the outbox.
    fn next(&mut self, out: &mut Outbox) -> Next;

    /// An answer, other than a chunk.
    fn answer(&mut self, frame: Frame) -> Result<(), Wrong>;

    /// Some bytes of a chunk.
    fn piece(&mut self, chunk: ChunkId, bytes: &[u8]) -> Result<(), Wrong>;

    /// A chunk is complete.
    fn chunk_end(&mut self, chunk: ChunkId) -> Result<(), Wrong>;

    /// Of a client that is to be slow.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// Such a client has written so many bytes.
    fn wrote(&mut self, _bytes: u64) {}
}

/// Bytes a second; as many as the socket takes and gives where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// That may be read.
    pub read: Option<u64>,
    /// That may be written.
    pub write: Option<u64>,
}
