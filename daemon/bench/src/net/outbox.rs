// SPDX-License-Identifier: Apache-2.0
//! Bytes on their way to the socket, gathered without copying block bodies.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};
use lodestone_wire::Frame;
use tokio::net::TcpStream;

use crate::error::LinkError;

/// Pieces that one system call takes.
const SLICES: usize = 64;

/// Memory for heads that is taken at once.
const HEADS_BYTES: usize = 4 << 10;

/// What is to be written.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: VecDeque<Bytes>,
    heads: BytesMut,
}

impl Outbox {
    /// Adds a frame.
    pub fn frame(&mut self, frame: &Frame) {
        self.heads.reserve(HEADS_BYTES);
        frame.encode(&mut self.heads);
        self.pieces.push_back(self.heads.split().freeze());
    }

    /// Adds a few bytes, which are copied.
    pub fn copy(&mut self, bytes: &[u8]) {
        if self.heads.capacity() < bytes.len() {
            self.heads.reserve(HEADS_BYTES.max(bytes.len()));
        }
        self.heads.extend_from_slice(bytes);
        self.pieces.push_back(self.heads.split().freeze());
    }

    /// Adds bytes, which are not.
    pub fn body(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.pieces.push_back(bytes);
        }
    }

    /// Writes everything.
    pub(crate) async fn flush(&mut self, stream: &TcpStream) -> Result<(), LinkError> {
        while !self.pieces.is_empty() {
            stream.writable().await?;
            let mut slices = [IoSlice::new(&[]); SLICES];
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(piece);
            }
            let used = self.pieces.len().min(SLICES);
            match stream.try_write_vectored(slices.get(..used).unwrap_or_default()) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
    }
}
