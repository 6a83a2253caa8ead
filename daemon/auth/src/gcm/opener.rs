// SPDX-License-Identifier: Apache-2.0
//! Decrypts what the other end sends, as it comes.

use std::fmt;

use aes_gcm::Tag;
use bytes::{Buf, BufMut};

use super::{ConnectionKey, LENGTH_BYTES, PREFIX_BYTES, SEGMENT_BYTES, Segments, TAG_BYTES, nonce};
use crate::exchange::Version;

/// No client writes as much at a time.
const MESSAGE_BYTES_MAX: u64 = 1 << 32;

/// Bytes that are no message of the protocol. The connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// The lengths make no sense.
    #[error("the client sent no message of AES/GCM")]
    Malformed,
    /// The tag does not fit.
    #[error("a message was changed on its way, or has another key")]
    Changed,
}

/// What comes next.
enum Stage {
    /// The lengths of a message and of its head.
    Lengths,
    /// The rest of the head of a message of this length.
    Head { length: u64 },
    /// A segment.
    Segment(Box<Message>),
}

/// A message whose head is there.
struct Message {
    cipher: Segments,
    prefix: [u8; PREFIX_BYTES],
    number: u32,
    /// Bytes that have not come.
    left: u64,
}

/// Gets bytes in pieces of any size, and keeps at most one segment.
pub struct Opener {
    keys: Vec<(Version, ConnectionKey)>,
    stage: Stage,
    /// What has come of the next part.
    came: Vec<u8>,
    /// What is decrypted, and was not taken.
    plain: bytes::Bytes,
    /// The other end has the key.
    is_proved: bool,
}

impl Opener {
    pub(crate) fn new(keys: Vec<(Version, ConnectionKey)>) -> Self {
        Self {
            keys,
            stage: Stage::Lengths,
            came: Vec::new(),
            plain: bytes::Bytes::new(),
            is_proved: false,
        }
    }

    /// The version of the exchange that the client has, once the head of a message is there.
    pub fn version(&self) -> Option<Version> {
        match &self.keys[..] {
            [(version, _)] => Some(*version),
            _ => None,
        }
    }

    /// True in the middle of a message.
    pub fn is_within(&self) -> bool {
        !self.came.is_empty() || !matches!(self.stage, Stage::Lengths)
    }

    /// True if there is something to take.
    pub fn has_plain(&self) -> bool {
        !self.plain.is_empty()
    }

    /// Moves as much as fits of what is decrypted, and returns how much.
    pub fn take(&mut self, into: &mut dyn BufMut) -> usize {
        let count = self.plain.len().min(into.remaining_mut());
        into.put_slice(&self.plain.split_to(count));
        count
    }

    /// Reads what belongs to the next part, and decrypts it when it is whole. Returns the bytes
    /// that were read. To be called when there is nothing to take.
    pub fn fill<E: From<BadMessage>>(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let (before, whole) = (self.came.len(), self.part_bytes());
        self.came.resize(whole, 0);
        let free = self.came.get_mut(before..).unwrap_or_default();
        let count = read(free);
        let count = count.inspect_err(|_| self.came.truncate(before))?;
        self.came.truncate(before + count);
        if self.came.len() == whole {
            self.advance()?;
        }
        Ok(count)
    }

    /// Bytes of the part that comes.
    fn part_bytes(&self) -> usize {
        match &self.stage {
            Stage::Lengths => LENGTH_BYTES + 1,
            Stage::Head { .. } => self.keys.first().map_or(0, |(_, key)| key.head_bytes() - 1),
            Stage::Segment(message) => message.left.min(SEGMENT_BYTES as u64) as usize,
        }
    }

    fn advance(&mut self) -> Result<(), BadMessage> {
        let came = std::mem::take(&mut self.came);
        let stage = std::mem::replace(&mut self.stage, Stage::Lengths);
        self.stage = match stage {
            Stage::Lengths => self.after_lengths(&came)?,
            Stage::Head { length } => self.after_head(&came, length)?,
            Stage::Segment(message) => self.after_segment(came, message)?,
        };
        Ok(())
    }

    /// The length of the head shows which of the keys the client has.
    fn after_lengths(&mut self, mut came: &[u8]) -> Result<Stage, BadMessage> {
        let (length, head_bytes) = (came.get_u64(), usize::from(came.get_u8()));
        self.keys.retain(|(_, key)| key.head_bytes() == head_bytes);
        let least = (LENGTH_BYTES + head_bytes) as u64;
        if self.keys.is_empty() || !(least..MESSAGE_BYTES_MAX).contains(&length) {
            return Err(BadMessage::Malformed);
        }
        Ok(Stage::Head { length })
    }

    fn after_head(&mut self, came: &[u8], length: u64) -> Result<Stage, BadMessage> {
        let (Some((_, key)), Some((salt, prefix))) =
            (self.keys.first(), came.split_last_chunk::<PREFIX_BYTES>())
        else {
            return Err(BadMessage::Malformed);
        };
        match length - (LENGTH_BYTES + key.head_bytes()) as u64 {
            // Nothing would prove that it comes from a client with the key.
            0 if !self.is_proved => Err(BadMessage::Malformed),
            0 => Ok(Stage::Lengths),
            left => Ok(Stage::Segment(Box::new(Message {
                cipher: key.of_message(salt, length),
                prefix: *prefix,
                number: 0,
                left,
            }))),
        }
    }

    fn after_segment(
        &mut self,
        mut came: Vec<u8>,
        mut message: Box<Message>,
    ) -> Result<Stage, BadMessage> {
        message.left -= came.len() as u64;
        let nonce = nonce(message.prefix, message.number, message.left == 0);
        let (bytes, tag) = came
            .split_last_chunk_mut::<TAG_BYTES>()
            .ok_or(BadMessage::Malformed)?;
        if !message.cipher.decrypt(nonce, bytes, &Tag::from(*tag)) {
            return Err(BadMessage::Changed);
        }
        self.is_proved = true;
        came.truncate(came.len() - TAG_BYTES);
        self.plain = came.into();
        message.number += 1;
        match message.left {
            0 => Ok(Stage::Lengths),
            _ => Ok(Stage::Segment(message)),
        }
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener(..)")
    }
}
