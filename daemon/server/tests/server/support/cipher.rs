// SPDX-License-Identifier: Apache-2.0
//! What is between the frames of a client and its socket.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use lodestone_auth::exchange::Keystreams;
use lodestone_auth::gcm::{AROUND_BYTES, Opener, PLAIN_BYTES, Sealer};
use rustls::ClientConnection;

pub(crate) enum Cipher {
    Plain,
    /// AES in counter mode.
    Counter(Box<Keystreams>),
    /// AES in Galois/counter mode.
    Messages(Sealer, Box<Opener>),
    Tls(Box<ClientConnection>),
}

impl Cipher {
    pub(crate) fn write(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain => socket.write_all(bytes),
            Self::Counter(keys) => {
                let mut bytes = bytes.to_vec();
                keys.of_client.apply(&mut bytes);
                socket.write_all(&bytes)
            }
            Self::Messages(sealer, _) => {
                let messages = bytes.chunks(PLAIN_BYTES).map(|part| sealed(sealer, part));
                socket.write_all(&messages.collect::<Vec<_>>().concat())
            }
            Self::Tls(connection) => {
                while connection.is_handshaking() {
                    connection.complete_io(socket)?;
                }
                for part in bytes.chunks(PLAIN_BYTES) {
                    connection.writer().write_all(part)?;
                    while connection.wants_write() {
                        connection.write_tls(socket)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns what comes next, nothing at the end.
    pub(crate) fn read(&mut self, socket: &mut TcpStream) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain => came(socket),
            Self::Counter(keys) => {
                let mut bytes = came(socket)?;
                keys.of_service.apply(&mut bytes);
                Ok(bytes)
            }
            Self::Messages(_, opener) => opened(opener, socket),
            Self::Tls(connection) => decrypted(connection, socket),
        }
    }
}

fn came(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 64 << 10];
    let count = socket.read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn sealed(sealer: &mut Sealer, part: &[u8]) -> Vec<u8> {
    let (begin, count) = (sealer.begin(), part.len());
    let mut message = vec![0; count + AROUND_BYTES];
    message[begin..begin + count].copy_from_slice(part);
    let length = sealer.seal(&mut message, count).unwrap();
    message.truncate(length);
    message
}

fn opened(opener: &mut Opener, socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    while !opener.has_plain() {
        let read = |free: &mut [u8]| Ok::<_, Box<dyn Error + Send + Sync>>(socket.read(free)?);
        let count = opener.fill(read);
        // The same kind of error as without a cipher.
        let count = count.map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        })?;
        if count == 0 {
            return Ok(plain);
        }
    }
    opener.take(&mut plain);
    Ok(plain)
}

fn decrypted(connection: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    loop {
        let state = connection.process_new_packets();
        let count = state.map_err(io::Error::other)?.plaintext_bytes_to_read();
        if count > 0 {
            let mut plain = vec![0; count];
            connection.reader().read_exact(&mut plain)?;
            return Ok(plain);
        }
        if connection.read_tls(socket)? == 0 {
            return Ok(Vec::new());
        }
    }
}
