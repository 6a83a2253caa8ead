// SPDX-License-Identifier: Apache-2.0
//! The direction from the service to the client.

use std::io::{self, ErrorKind, IoSlice};

use lodestone_auth::Keystream;
use lodestone_auth::gcm::{PLAIN_BYTES, Sealer};

use super::BUFFER_BYTES;
use crate::connection::socket::Socket;

/// How bytes are encrypted, and how far the socket is.
#[derive(Debug)]
pub(super) enum Writing {
    /// The key stream is a function of the position: what the socket did not take is encrypted
    /// again later, so that nothing encrypted has to be kept.
    Counter {
        stream: Box<Keystream>,
        /// Bytes that the socket took.
        position: u64,
        /// It took less than there was: the next call would encrypt for nothing.
        is_full: bool,
    },
    /// Another message would be encrypted in another way: the rest of one is kept until the socket
    /// takes it.
    Messages { sealer: Sealer, rest: Vec<u8> },
}

impl Writing {
    pub(super) fn in_counter_mode(stream: Keystream) -> Self {
        Self::Counter {
            stream: Box::new(stream),
            position: 0,
            is_full: false,
        }
    }

    pub(super) fn in_messages(sealer: Sealer) -> Self {
        let rest = Vec::new();
        Self::Messages { sealer, rest }
    }

    /// Where bytes to encrypt begin in the buffer, and the most of them.
    pub(super) fn place(&self) -> (usize, usize) {
        match self {
            Self::Counter { .. } => (0, BUFFER_BYTES),
            Self::Messages { sealer, .. } => (sealer.begin(), PLAIN_BYTES),
        }
    }

    /// Returns an error if the socket was full at the last call, or is now. The caller waits then,
    /// before it calls again.
    pub(super) fn make_room(&mut self, socket: &dyn Socket) -> io::Result<()> {
        match self {
            Self::Counter { is_full, .. } => match std::mem::take(is_full) {
                true => Err(ErrorKind::WouldBlock.into()),
                false => Ok(()),
            },
            Self::Messages { .. } => self.flush(socket),
        }
    }

    /// Encrypts so many bytes from their place on, and writes what the socket takes. Returns how
    /// many bytes it took, or will take before all others.
    pub(super) fn write(
        &mut self,
        socket: &dyn Socket,
        buffer: &mut [u8],
        count: usize,
    ) -> io::Result<usize> {
        match self {
            Self::Counter {
                stream,
                position,
                is_full,
            } => {
                let bytes = buffer.get_mut(..count).unwrap_or_default();
                stream.apply_at(*position, bytes);
                let taken = socket.try_write(&[IoSlice::new(bytes)])?;
                *position += taken as u64;
                *is_full = taken < count;
                Ok(taken)
            }
            Self::Messages { sealer, rest } => {
                let length = sealer.seal(buffer, count);
                let message = length.and_then(|length| buffer.get(..length));
                let message = message.ok_or_else(|| io::Error::other("a buffer is too short"))?;
                // If it takes nothing, the message is forgotten.
                let taken = socket.try_write(&[IoSlice::new(message)])?;
                rest.extend_from_slice(message.get(taken..).unwrap_or_default());
                Ok(count)
            }
        }
    }

    /// Writes what is kept. An error if the socket does not take all of it.
    pub(super) fn flush(&mut self, socket: &dyn Socket) -> io::Result<()> {
        let Self::Messages { rest, .. } = self else {
            return Ok(());
        };
        while !rest.is_empty() {
            match socket.try_write(&[IoSlice::new(rest)])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                taken => drop(rest.drain(..taken)),
            }
        }
        // An idle connection keeps no memory.
        *rest = Vec::new();
        Ok(())
    }
}
