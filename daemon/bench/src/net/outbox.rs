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

/// The bytes to be written.
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

    /// Returns true if everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes everything.
    pub(crate) async fn flush(&mut self, stream: &TcpStream) -> Result<(), LinkError> {
        while !self.is_empty() {
            self.bite(stream, usize::MAX).await?;
        }
        Ok(())
    }

    /// Writes some of it, when the socket takes any, and at most this much. Returns how much it
    /// was.
    pub(crate) async fn bite(
        &mut self,
        stream: &TcpStream,
        most: usize,
    ) -> Result<usize, LinkError> {
        stream.writable().await?;
        let (mut slices, mut room) = ([IoSlice::new(&[]); SLICES], most);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            let bytes = piece.get(..room.min(piece.len())).unwrap_or_default();
            room -= bytes.len();
            *slice = IoSlice::new(bytes);
        }
        let used = self.pieces.len().min(SLICES);
        match stream.try_write_vectored(slices.get(..used).unwrap_or_default()) {
            Ok(0) => Err(LinkError::Closed),
            Ok(count) => {
                self.advance(count);
                Ok(count)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::Outbox;

    #[tokio::test]
    async fn a_slow_client_stops_in_the_middle_of_a_body_and_leaves_nothing_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let client = client.await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let body: Vec<u8> = (0..10_000_u32).map(|number| number as u8).collect();
        let mut out = Outbox::default();
        out.copy(b"head");
        out.body(Bytes::from(body.clone()));
        let mut bites = Vec::new();
        while !out.is_empty() {
            bites.extend(Some(out.bite(&client, 4096).await.unwrap()).filter(|bite| *bite > 0));
        }
        assert_eq!(bites, [4096, 4096, 1812]);
        drop(client);
        let mut arrived = Vec::new();
        server.read_to_end(&mut arrived).await.unwrap();
        assert_eq!(arrived, [&b"head"[..], &body].concat());
    }
}
