// SPDX-License-Identifier: Apache-2.0
//! Frames of zstd, one after another: Spark ends a frame each time it flushes.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The first bytes of a frame.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of the frames.
pub(super) struct Frames<R> {
    source: R,
    frame: FrameDecoder,
    has_begun: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Self {
        let frame = FrameDecoder::new();
        Self {
            source,
            frame,
            has_begun: false,
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.has_begun && self.frame.can_collect() > 0 {
                return self.frame.read(buffer);
            }
            if !self.has_begun || self.frame.is_finished() {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                let begun = self.frame.reset(&mut self.source);
                begun.map_err(io::Error::other)?;
                self.has_begun = true;
            }
            let step = BlockDecodingStrategy::UptoBlocks(1);
            let decoded = self.frame.decode_blocks(&mut self.source, step);
            decoded.map_err(io::Error::other)?;
        }
    }
}
