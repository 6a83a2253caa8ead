// SPDX-License-Identifier: Apache-2.0
//! Removals of the blocks of an executor, of which there may be hundreds of thousands. They are
//! removed while their names come: beside a buffer of these, only names on disks that take too long
//! are in memory.

use bytes::Buf;
use lodestone_wire::frame::{BegunRequest, Limits, REQUEST_HEAD_BYTES};
use lodestone_wire::spark::remove::{RemoveBlocks, RemoveBlocksHead, names_in};
use lodestone_wire::{DecodeError, FrameDecoder, Message};

use super::blocks::BlockRemoval;
use super::{READ_BYTES, Reader, answer_frame, send};
use crate::connection::CloseReason;
use crate::handler::{self, Answer};

/// The longest removal: a lost executor with some 700,000 map outputs, with three files each. A
/// client whose request is longer loses its connection.
const LONGEST_BYTES: u64 = 64 << 20;

/// Application, executor and number of names fit in so many bytes, as does a name: a system takes
/// names of 255 bytes.
const NAME_BYTES: usize = 4 << 10;

/// A removal that is too long to be read as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum Removal {
    /// Its bytes do not reach to the type of the message.
    Perhaps,
    Is {
        request_id: i64,
        frame_bytes: u64,
    },
}

impl Removal {
    /// Returns the removal that starts at the first byte, if there is one.
    pub(super) fn of(buffered: &[u8]) -> Option<Self> {
        let BegunRequest { frame_bytes, ids } = FrameDecoder::begun_request(buffered)?;
        let is_long = frame_bytes > Limits::SERVER.frame_bytes && frame_bytes <= LONGEST_BYTES;
        match ids {
            _ if !is_long => None,
            None => Some(Self::Perhaps),
            Some((request_id, RemoveBlocks::ID)) => Some(Self::Is {
                request_id,
                frame_bytes,
            }),
            Some(_) => None,
        }
    }
}

impl Reader {
    /// Removes blocks while their names come, and answers.
    pub(super) async fn remove_blocks(
        &mut self,
        request_id: i64,
        frame_bytes: u64,
    ) -> Result<(), CloseReason> {
        let hold = self.permit().await;
        // With the type id of the message.
        let begun = REQUEST_HEAD_BYTES + 1;
        self.buffer.advance(begun);
        let mut left = frame_bytes - begun as u64;
        let answer = match self.remove_named(&mut left).await? {
            Ok(removed) => handler::removed(removed),
            Err(answer) => answer,
        };
        self.discard(left).await?;
        send(&self.outbound, answer_frame(request_id, answer), hold);
        Ok(())
    }

    /// Returns how many blocks were removed, or the answer that says why not all were. `left`:
    /// bytes of the request that were not taken from the buffer.
    async fn remove_named(&mut self, left: &mut u64) -> Result<Result<u32, Answer>, CloseReason> {
        while (self.buffer.len() as u64) < (*left).min(NAME_BYTES as u64) {
            self.more(READ_BYTES).await?;
        }
        let head = match RemoveBlocksHead::read(self.rest_of(*left)) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(Err(self.malformed("its beginning is too long"))),
            Err(error) => return Ok(Err(self.undecoded(&error))),
        };
        self.take_from(left, head.bytes);
        let (mut names_left, mut removed) = (head.names, 0);
        let mut removal = BlockRemoval::new(self.call.clone());
        while names_left > 0 {
            let most = names_left.min(handler::NAMES_AT_ONCE);
            let (names, bytes) = match names_in(self.rest_of(*left), most) {
                Ok(found) => found,
                Err(error) => return Ok(Err(self.undecoded(&error))),
            };
            if names.is_empty() {
                let here = self.buffer.len();
                if here as u64 >= *left || here >= NAME_BYTES {
                    return Ok(Err(self.malformed("a name is too long, or missing")));
                }
                self.more(READ_BYTES).await?;
                continue;
            }
            self.take_from(left, bytes);
            names_left -= names.len();
            let by_place = match handler::blocks_by_place(&self.call, &head, names) {
                Ok(by_place) => by_place,
                Err(answer) => return Ok(Err(answer)),
            };
            match removal.remove(by_place).await? {
                Ok(count) => removed += count,
                Err(answer) => return Ok(Err(answer)),
            }
        }
        Ok(Ok(removed))
    }

    /// The bytes of the request that are here.
    fn rest_of(&self, left: u64) -> &[u8] {
        let here = (self.buffer.len() as u64).min(left) as usize;
        self.buffer.get(..here).unwrap_or_default()
    }

    fn take_from(&mut self, left: &mut u64, bytes: usize) {
        self.buffer.advance(bytes);
        *left -= bytes as u64;
    }

    fn malformed(&self, what: &str) -> Answer {
        handler::malformed(&self.call, format!("RemoveBlocks: {what}"))
    }

    fn undecoded(&self, error: &DecodeError) -> Answer {
        handler::malformed(&self.call, error.to_string())
    }
}
