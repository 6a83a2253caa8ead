// SPDX-License-Identifier: Apache-2.0
//! Frames out of pieces of a connection's bytes. Chunks are handed on while they arrive, so that a
//! thousand connections do not keep a thousand chunks in memory.

use bytes::{Buf, BytesMut};
use lodestone_wire::frame::ChunkId;
use lodestone_wire::{FrameDecoder, FrameError, Limits};

use super::Talk;
use crate::error::LinkError;

/// Length, type, stream id and chunk index of a `ChunkFetchSuccess`.
const CHUNK_HEAD_BYTES: usize = 8 + 1 + 8 + 4;

/// The type byte of a `ChunkFetchSuccess`, and its offset.
const CHUNK_TYPE: (usize, u8) = (8, 1);

/// A chunk may be of any size: it is not kept in memory. Other answers are as large as layouts are.
const LIMITS: Limits = Limits {
    frame_bytes: i64::MAX as u64,
    meta_bytes: 0,
    upload_bytes: 0,
};

/// The bytes that have arrived and are not yet a complete frame.
#[derive(Debug)]
pub struct Parser {
    decoder: FrameDecoder,
    begun: BytesMut,
    chunk: Option<(ChunkId, u64)>,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            decoder: FrameDecoder::new(LIMITS),
            begun: BytesMut::new(),
            chunk: None,
        }
    }
}

impl Parser {
    /// Hands the content of the bytes to the talk.
    pub fn feed(&mut self, mut bytes: &[u8], talk: &mut impl Talk) -> Result<(), LinkError> {
        while !bytes.is_empty() {
            bytes = match self.chunk {
                Some((chunk, left)) => self.in_chunk(chunk, left, bytes, talk)?,
                None => self.in_frame(bytes, talk)?,
            };
        }
        Ok(())
    }

    fn in_chunk<'a>(
        &mut self,
        chunk: ChunkId,
        left: u64,
        bytes: &'a [u8],
        talk: &mut impl Talk,
    ) -> Result<&'a [u8], LinkError> {
        let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (piece, rest) = bytes.split_at(here);
        talk.piece(chunk, piece)?;
        self.chunk_left(chunk, left - here as u64, talk)?;
        Ok(rest)
    }

    fn chunk_left(
        &mut self,
        chunk: ChunkId,
        left: u64,
        talk: &mut impl Talk,
    ) -> Result<(), LinkError> {
        self.chunk = (left > 0).then_some((chunk, left));
        if left == 0 {
            talk.chunk_end(chunk)?;
        }
        Ok(())
    }

    /// Takes bytes until the head of a chunk, or a complete frame of another kind, is there.
    fn in_frame<'a>(
        &mut self,
        bytes: &'a [u8],
        talk: &mut impl Talk,
    ) -> Result<&'a [u8], LinkError> {
        let wanted = self.wanted()?;
        let (taken, rest) = bytes.split_at((wanted - self.begun.len()).min(bytes.len()));
        self.begun.extend_from_slice(taken);
        if self.begun.len() < wanted || self.wanted()? > wanted {
            return Ok(rest);
        }
        if self.is_chunk() {
            let (chunk, left) = self.chunk_head()?;
            self.chunk_left(chunk, left, talk)?;
        } else if let Some(frame) = self.decoder.next(&mut self.begun)? {
            talk.answer(frame)?;
        }
        Ok(rest)
    }

    fn is_chunk(&self) -> bool {
        self.begun.get(CHUNK_TYPE.0) == Some(&CHUNK_TYPE.1)
    }

    /// How many bytes must be there before the next step.
    fn wanted(&self) -> Result<usize, FrameError> {
        let length = self.decoder.frame_bytes(&self.begun)?;
        Ok(match length {
            None => CHUNK_TYPE.0 + 1,
            Some(_) if self.is_chunk() => CHUNK_HEAD_BYTES,
            Some(length) => length,
        })
    }

    fn chunk_head(&mut self) -> Result<(ChunkId, u64), FrameError> {
        let mut head = self.begun.split_to(CHUNK_HEAD_BYTES);
        let length = head.get_i64();
        let left = u64::try_from(length)
            .ok()
            .and_then(|length| length.checked_sub(CHUNK_HEAD_BYTES as u64))
            .ok_or(FrameError::TooShort(length))?;
        head.advance(1);
        let (stream_id, chunk_index) = (head.get_i64(), head.get_i32());
        let chunk = ChunkId {
            stream_id,
            chunk_index,
        };
        Ok((chunk, left))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lodestone_wire::Frame;

    use super::*;
    use crate::error::Wrong;
    use crate::net::{Next, Outbox};

    #[derive(Default)]
    struct Heard(Vec<Frame>, Vec<u8>);

    impl Talk for Heard {
        fn next(&mut self, _: &mut Outbox) -> Next {
            Next::Done
        }

        fn answer(&mut self, frame: Frame) -> Result<(), Wrong> {
            self.0.push(frame);
            Ok(())
        }

        fn piece(&mut self, _: ChunkId, bytes: &[u8]) -> Result<(), Wrong> {
            self.1.extend_from_slice(bytes);
            Ok(())
        }

        fn chunk_end(&mut self, chunk: ChunkId) -> Result<(), Wrong> {
            let body = Bytes::from(std::mem::take(&mut self.1));
            self.0.push(Frame::ChunkFetchSuccess { chunk, body });
            Ok(())
        }
    }

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let chunk = |chunk_index, body: &'static [u8]| Frame::ChunkFetchSuccess {
            chunk: ChunkId {
                stream_id: -5,
                chunk_index,
            },
            body: Bytes::from_static(body),
        };
        let answer = |request_id, body: &'static [u8]| Frame::RpcResponse {
            request_id,
            body: Bytes::from_static(body),
        };
        let frames = [
            answer(1, b""),
            chunk(0, b"some bytes"),
            chunk(1, b""),
            answer(2, b"an answer that is a little longer"),
            chunk(2, &[7; 300]),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::to_bytes).collect();
        for cut in 1..=bytes.len() {
            let (mut parser, mut heard) = (Parser::default(), Heard::default());
            for piece in bytes.chunks(cut) {
                parser.feed(piece, &mut heard).unwrap();
            }
            assert_eq!(heard.0, frames, "in pieces of {cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_an_error() {
        for wrong in [&[0; 9][..], &[0xFF; 9], b"HTTP/1.1 400 Bad Request\r\n"] {
            let fed = Parser::default().feed(wrong, &mut Heard::default());
            assert!(matches!(fed, Err(LinkError::Frame(_))), "{wrong:?}");
        }
        let short = [&12_i64.to_be_bytes()[..], &[1; 13]].concat();
        assert!(
            Parser::default()
                .feed(&short, &mut Heard::default())
                .is_err()
        );
    }
}
