// SPDX-License-Identifier: Apache-2.0
//! A socket whose bytes are encrypted with AES, in one of the two ways that Spark has: in counter
//! mode (`CtrTransportCipher`), or in messages of Galois/counter mode (`GcmTransportCipher`).

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use bytes::BufMut;
use lodestone_auth::Keystream;
use lodestone_auth::exchange::{Agreed, Version};
use lodestone_auth::gcm::{BadMessage, Opener};
use lodestone_store::Part;

use super::socket::Socket;
use writing::Writing;

mod writing;

/// Bytes that a thread encrypts or decrypts for one call. It keeps this memory: a message of GCM
/// fits too.
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
    /// Clients do not say which cipher they have, and which version of the exchange. Decrypted with
    /// a wrong key, the beginning of their first frame is none (but once in 2^36 times).
    Open {
        keys: Agreed,
        came: Vec<u8>,
    },
    Counter(Box<Keystream>),
    Messages(Box<Opener>),
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

    /// Reads the beginning of the first frame or message, which shows what the client has.
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
        if let Some((streams, bytes)) = found {
            self.write_with(Writing::in_counter_mode(streams.of_service));
            *reading = Reading::Counter(Box::new(streams.of_client));
            into.put_slice(&bytes);
            return Ok(bytes.len());
        }
        let mut opener = keys.opener();
        let begun = opener.fill(|mut free| {
            free.put_slice(came);
            Ok::<_, BadMessage>(came.len())
        });
        let (Ok(_), Some(version)) = (begun, opener.version()) else {
            return Err(io::Error::new(ErrorKind::InvalidData, UNKNOWN));
        };
        self.write_with(Writing::in_messages(keys.sealer(version)));
        *reading = Reading::Messages(Box::new(opener));
        Err(ErrorKind::WouldBlock.into())
    }

    /// Nobody else sets it: the socket has one reader.
    fn write_with(&self, writing: Writing) {
        let _ = self.writing.set(Mutex::new(writing));
    }

    /// Reads what the next part of a message lacks, and returns what can be decrypted.
    fn open(&self, opener: &mut Opener, into: &mut dyn BufMut) -> io::Result<usize> {
        if !opener.has_plain() && opener.fill(|mut free| self.read(&mut free))? == 0 {
            return match opener.is_within() {
                true => Err(ErrorKind::UnexpectedEof.into()),
                false => Ok(0),
            };
        }
        match opener.take(into) {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn read(&self, into: &mut dyn BufMut) -> Result<usize, Broken> {
        Ok(self.socket.try_read(into)?)
    }

    /// Encrypts and writes what `fill` puts into the buffer that it gets.
    fn write(&self, fill: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let Some(writing) = self.writing.get() else {
            return Err(io::Error::other(
                "bytes for a client that has asked nothing",
            ));
        };
        let mut writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.make_room(&*self.socket)?;
        with_buffer(|buffer| {
            let (begin, most) = writing.place();
            let free = buffer.get_mut(begin..begin + most).unwrap_or_default();
            match fill(free)? {
                0 => Ok(0),
                count => writing.write(&*self.socket, buffer, count),
            }
        })
    }
}

impl Socket for Ciphered {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        match &*reading {
            Reading::Messages(opener) if opener.has_plain() => Poll::Ready(Ok(())),
            _ => self.socket.poll_readable(context),
        }
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(context)
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = match &mut *reading {
            Reading::Open { .. } => return self.begin(&mut reading, into),
            Reading::Messages(opener) => return self.open(opener, into),
            Reading::Counter(stream) => stream,
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
        self.write(|mut free| {
            let most = free.len();
            for slice in slices {
                let fits = slice.len().min(free.len());
                free.put_slice(slice.get(..fits).unwrap_or_default());
            }
            Ok(most - free.len())
        })
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        self.write(|free| gather(pieces, free))
    }

    fn try_flush(&self) -> io::Result<()> {
        let Some(writing) = self.writing.get() else {
            return Ok(());
        };
        let mut writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.flush(&*self.socket)
    }
}

/// Why nothing more can be read.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Message(#[from] BadMessage),
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Socket(error) => error,
            Broken::Message(error) => Self::new(ErrorKind::InvalidData, error),
        }
    }
}

/// Why a client cannot be understood that knows the secret.
const UNKNOWN: &str = "the client encrypts in a way that this service does not know: set \
                       spark.network.crypto.cipher=AES/CTR/NoPadding or AES/GCM/NoPadding";

/// Copies from the beginning of pieces, and returns how many bytes. An error, or 0, if the first
/// piece cannot be read.
pub(super) fn gather(pieces: &[Part], buffer: &mut [u8]) -> io::Result<usize> {
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

pub(super) fn with_buffer<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
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

#[cfg(test)]
mod tests;
