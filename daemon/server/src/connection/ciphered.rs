// SPDX-License-Identifier: Apache-2.0
//! A socket whose bytes are encrypted with AES in counter mode, as Spark's `CtrTransportCipher`
//! has them. The key stream is a function of the position: what the socket did not take is
//! encrypted again later, so that nothing encrypted has to be kept.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use bytes::BufMut;
use lodestone_auth::Keystream;
use lodestone_auth::exchange::{Agreed, Version};
use lodestone_store::Part;

use super::socket::Socket;

/// Bytes that a thread encrypts or decrypts for one call. It keeps this memory.
const BUFFER_BYTES: usize = 64 << 10;

/// The beginning of a frame: its length and its type.
const BEGINNING_BYTES: usize = 9;

/// No frame of a client is as long.
const FRAME_BYTES_MAX: u64 = 1 << 32;

/// Types of frames are below.
const TYPES: u8 = 16;

thread_local! {
    /// Empty until this thread encrypts.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket and the keys of its two directions.
#[derive(Debug)]
pub(super) struct Ciphered {
    socket: Arc<dyn Socket>,
    reading: Mutex<Reading>,
    /// Known when the client has sent something: a service sends nothing before.
    writing: OnceLock<Mutex<Writing>>,
}

#[derive(Debug)]
enum Reading {
    /// Clients do not say which version of the exchange they have. Decrypted with the key of the
    /// other version, the beginning of their first frame is none (but once in 2^36 times).
    Open {
        keys: Agreed,
        came: Vec<u8>,
    },
    Known(Box<Keystream>),
}

#[derive(Debug)]
struct Writing {
    stream: Keystream,
    /// Bytes that the socket took.
    position: u64,
    /// It took less than there was: the next call would encrypt for nothing.
    is_full: bool,
}

impl Ciphered {
    pub(super) fn new(socket: Arc<dyn Socket>, keys: Agreed) -> Self {
        let came = Vec::with_capacity(BEGINNING_BYTES);
        Self {
            socket,
            reading: Mutex::new(Reading::Open { keys, came }),
            writing: OnceLock::new(),
        }
    }

    /// Reads the beginning of the first frame, which shows the version of the exchange.
    fn begin(&self, reading: &mut Reading, into: &mut dyn BufMut) -> io::Result<usize> {
        let Reading::Open { keys, came } = reading else {
            return Ok(0);
        };
        let missing = BEGINNING_BYTES - came.len();
        if self.socket.try_read(&mut came.limit(missing))? == 0 {
            return Ok(0);
        }
        if came.len() < BEGINNING_BYTES {
            return Err(ErrorKind::WouldBlock.into());
        }
        let decrypted = [Version::One, Version::Two].map(|version| {
            let (mut streams, mut bytes) = (keys.keystreams(version), came.clone());
            streams.of_client.apply(&mut bytes);
            (streams, bytes)
        });
        let found = decrypted.into_iter().find(|(_, bytes)| is_beginning(bytes));
        let Some((streams, bytes)) = found else {
            return Err(io::Error::new(ErrorKind::InvalidData, unknown(came)));
        };
        // Nobody else sets it: the socket has one reader.
        let _ = self.writing.set(Mutex::new(Writing {
            stream: streams.of_service,
            position: 0,
            is_full: false,
        }));
        *reading = Reading::Known(Box::new(streams.of_client));
        into.put_slice(&bytes);
        Ok(bytes.len())
    }

    /// Returns an error if the socket was full at the last call. The caller waits then, before it
    /// calls again.
    fn check_room(&self) -> io::Result<()> {
        let writing = self.writing.get().map(Mutex::lock);
        let Some(mut writing) = writing.map(|it| it.unwrap_or_else(PoisonError::into_inner)) else {
            return Ok(());
        };
        match std::mem::take(&mut writing.is_full) {
            true => Err(ErrorKind::WouldBlock.into()),
            false => Ok(()),
        }
    }

    /// Encrypts what is in the buffer, and writes as much of it as the socket takes.
    fn write(&self, plain: &mut [u8]) -> io::Result<usize> {
        let Some(writing) = self.writing.get() else {
            return Err(io::Error::other(
                "bytes for a client that has asked nothing",
            ));
        };
        let mut writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
        let position = writing.position;
        writing.stream.apply_at(position, plain);
        let count = self.socket.try_write(&[IoSlice::new(plain)])?;
        writing.position += count as u64;
        writing.is_full = count < plain.len();
        Ok(count)
    }
}

impl Socket for Ciphered {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_readable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(context)
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let Reading::Known(stream) = &mut *reading else {
            return self.begin(&mut reading, into);
        };
        with_buffer(|buffer| {
            let room = into.remaining_mut().min(BUFFER_BYTES);
            let mut free = buffer.get_mut(..room).unwrap_or_default();
            let count = self.socket.try_read(&mut free)?;
            let came = buffer.get_mut(..count).unwrap_or_default();
            stream.apply(came);
            into.put_slice(came);
            Ok(count)
        })
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.check_room()?;
        with_buffer(|buffer| {
            let mut free = &mut *buffer;
            for slice in slices {
                let fits = slice.len().min(free.len());
                free.put_slice(slice.get(..fits).unwrap_or_default());
            }
            let count = BUFFER_BYTES - free.len();
            self.write(buffer.get_mut(..count).unwrap_or_default())
        })
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        self.check_room()?;
        with_buffer(|buffer| match gather(pieces, buffer)? {
            0 => Ok(0),
            count => self.write(buffer.get_mut(..count).unwrap_or_default()),
        })
    }
}

/// Copies from the beginning of pieces, and returns how many bytes. An error, or 0, if the first
/// piece cannot be read.
fn gather(pieces: &[Part], buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    for piece in pieces {
        let free = buffer.get_mut(count..).unwrap_or_default();
        let fits = usize::try_from(piece.length()).map_or(free.len(), |all| all.min(free.len()));
        let free = free.get_mut(..fits).unwrap_or_default();
        let read = match piece {
            Part::Memory(bytes) => {
                free.copy_from_slice(bytes.get(..fits).unwrap_or_default());
                Ok(fits)
            }
            Part::File { file, offset, .. } => file.read_at(free, *offset),
        };
        match read {
            // What is before it can be sent.
            Err(_) if count > 0 => break,
            Err(error) => return Err(error),
            Ok(read) => count += read,
        }
        if read.is_ok_and(|read| (read as u64) < piece.length()) {
            break;
        }
    }
    Ok(count)
}

fn with_buffer<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(BUFFER_BYTES, 0);
        work(buffer)
    })
}

/// True for the length and the type of a frame.
fn is_beginning(bytes: &[u8]) -> bool {
    let (Some(length), Some(&kind)) = (bytes.first_chunk(), bytes.get(8)) else {
        return false;
    };
    u64::from_be_bytes(*length) < FRAME_BYTES_MAX && kind < TYPES
}

/// Why a client cannot be understood that knows the secret.
fn unknown(came: &[u8]) -> &'static str {
    // In this mode each message begins with its length, as it is.
    let length = came.first_chunk().map(|length| u64::from_be_bytes(*length));
    match length {
        Some(length) if length < FRAME_BYTES_MAX => {
            "the client encrypts with AES/GCM/NoPadding: set \
             spark.network.crypto.cipher=AES/CTR/NoPadding"
        }
        _ => "the client encrypts in a way that this service does not know",
    }
}

#[cfg(test)]
mod tests;
