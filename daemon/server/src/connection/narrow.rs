// SPDX-License-Identifier: Apache-2.0
//! A socket for tests that takes and gives as few bytes as it likes.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::Mutex;
use std::task::{Context, Poll};

use bytes::{BufMut, BytesMut};
use lodestone_store::{Part, SeededRandom};

use super::socket::Socket;

/// One end of a connection. What the client sends is there from the start.
#[derive(Debug)]
pub(super) struct Narrow {
    /// The client might send more, and does not.
    pub(super) is_silent: bool,
    pub(super) incoming: Mutex<BytesMut>,
    pub(super) outgoing: Mutex<Vec<u8>>,
    random: Mutex<SeededRandom>,
    most: u64,
}

impl Narrow {
    pub(super) fn new(incoming: &[u8], seed: u64, most: u64) -> Self {
        Self {
            is_silent: false,
            incoming: Mutex::new(BytesMut::from(incoming)),
            outgoing: Mutex::default(),
            random: Mutex::new(SeededRandom::new(seed)),
            most,
        }
    }

    fn count(&self, most: usize) -> usize {
        let some = 1 + self.random.lock().unwrap().bits() % self.most;
        most.min(some as usize)
    }

    /// Every third call finds nothing, or no room.
    fn stops(&self) -> io::Result<()> {
        match self.random.lock().unwrap().bits() % 3 {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }
}

impl Socket for Narrow {
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.is_silent && self.incoming.lock().unwrap().is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        let mut incoming = self.incoming.lock().unwrap();
        if incoming.is_empty() {
            return Ok(0);
        }
        self.stops()?;
        let count = self.count(incoming.len().min(into.remaining_mut()));
        into.put_slice(&incoming.split_to(count));
        Ok(count)
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stops()?;
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let count = self.count(all.len());
        self.outgoing
            .lock()
            .unwrap()
            .extend_from_slice(&all[..count]);
        Ok(count)
    }

    fn try_send(&self, _: &[Part]) -> io::Result<usize> {
        unreachable!("files are encrypted before they are sent")
    }
}
