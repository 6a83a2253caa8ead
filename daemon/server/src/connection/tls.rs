// SPDX-License-Identifier: Apache-2.0
//! A socket whose bytes go through TLS.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, BytesMut};
use lodestone_store::Part;
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::kernel::KernelTls;
use super::ciphered::{gather, with_buffer};
use super::handshake::LONGEST;
use super::socket::{Socket, is_passing, readable, writable};
use super::table::Entry;
use super::{CloseReason, IDLE_TIMEOUT};
use crate::service::Service;
use crate::service::certificate::Certificate;
use crate::service::kernel_tls;
use crate::service::lanes::Kind;

mod kernel;

/// The first byte of a connection with TLS: a handshake record. No frame of Spark's begins so, as
/// it would be longer than any.
const FIRST_BYTE: u8 = 0x16;

/// Bytes of a record, and about as many encrypted ones are read at once.
const RECORD_BYTES: usize = 16 << 10;

/// After 2^24 records of TLS 1.2 the library encrypts no more, and does not say so. Clients connect
/// again before: 2^23 records have up to 128 GiB.
const OLD_RECORDS_MAX: u64 = 1 << 23;

/// Bytes before the content of a record: its kind, its version, and how long it is.
const HEAD_BYTES: usize = 5;

/// A socket and its session.
#[derive(Debug)]
pub(super) struct Tls {
    socket: Arc<dyn Socket>,
    session: Mutex<Session>,
}

#[derive(Debug)]
struct Session {
    connection: ServerConnection,
    /// Bytes that came, and are not decrypted yet.
    came: BytesMut,
    /// Decrypted bytes that were not read yet.
    plain_left: usize,
    /// Records that were written, or more.
    records: u64,
    /// The record of the handshake that is coming.
    coming: Coming,
}

/// How far a record has come. During the handshake no byte behind it is read: the kernel may take
/// over what follows.
#[derive(Debug, Default)]
struct Coming {
    head: Vec<u8>,
    /// Bytes of its content that are missing.
    missing: usize,
}

impl Coming {
    /// Returns how many bytes may be read.
    fn most(&self) -> usize {
        match self.missing {
            0 => HEAD_BYTES - self.head.len(),
            missing => missing.min(RECORD_BYTES),
        }
    }

    /// Counts bytes that were read, at most so many.
    fn count(&mut self, bytes: &[u8]) {
        if self.missing > 0 {
            self.missing -= bytes.len();
            return;
        }
        self.head.extend_from_slice(bytes);
        if let [_, _, _, high, low] = self.head[..] {
            self.missing = u16::from_be_bytes([high, low]).into();
            self.head.clear();
        }
    }
}

impl Tls {
    pub(super) fn new(
        socket: Arc<dyn Socket>,
        config: Arc<ServerConfig>,
    ) -> Result<Self, rustls::Error> {
        let session = Mutex::new(Session {
            connection: ServerConnection::new(config)?,
            came: BytesMut::new(),
            plain_left: 0,
            records: 0,
            coming: Coming::default(),
        });
        Ok(Self { socket, session })
    }

    /// Waits until both ends have agreed upon keys.
    pub(super) async fn agree(&self) -> io::Result<()> {
        loop {
            let wants = {
                let mut session = self.session();
                match session.send(&*self.socket) {
                    Err(error) if is_passing(&error) => Wants::Room,
                    Err(error) => return Err(error),
                    Ok(()) if !session.connection.is_handshaking() => return Ok(()),
                    Ok(()) => match session.receive(&*self.socket) {
                        Err(error) if is_passing(&error) => Wants::Bytes,
                        // The client learns why, if the socket takes it.
                        Err(error) => {
                            let _ = session.send(&*self.socket);
                            return Err(error);
                        }
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(_) => continue,
                    },
                }
            };
            match wants {
                Wants::Room => writable(&*self.socket).await?,
                Wants::Bytes => readable(&*self.socket).await?,
            }
        }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the socket with TLS, if the client begins with it, and as it is otherwise.
pub(super) async fn secured(
    socket: TcpStream,
    certificate: &Arc<Certificate>,
    service: &Service,
    entry: &Entry,
) -> Result<Arc<dyn Socket>, CloseReason> {
    // Whoever has agreed upon nothing makes way first.
    entry.is_proved.store(false, Relaxed);
    let first = timeout(IDLE_TIMEOUT, first_byte(&socket)).await;
    let socket = match first.unwrap_or(Err(CloseReason::Idle))? {
        FIRST_BYTE => {
            let begun = timeout(LONGEST, begin(socket, certificate, service)).await;
            begun.unwrap_or(Err(CloseReason::NoTls))?
        }
        _ => Arc::new(socket),
    };
    entry.is_proved.store(true, Relaxed);
    Ok(socket)
}

async fn first_byte(socket: &TcpStream) -> Result<u8, CloseReason> {
    let mut first = [0];
    match socket.peek(&mut first).await {
        Ok(0) => Err(CloseReason::Client),
        Ok(_) => Ok(first[0]),
        Err(error) => Err(CloseReason::Socket(error)),
    }
}

async fn begin(
    socket: TcpStream,
    certificate: &Arc<Certificate>,
    service: &Service,
) -> Result<Arc<dyn Socket>, CloseReason> {
    let known = Arc::clone(certificate);
    let config = service
        .lanes
        .run(Kind::Handshake, move || known.config())
        .await;
    let config = config.map_err(|_| CloseReason::Panic)?;
    agreed(socket, config)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => CloseReason::Client,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => CloseReason::Socket(error),
            _ => CloseReason::Tls(error),
        })
}

/// Returns the socket once both ends have agreed upon keys.
async fn agreed(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Arc<dyn Socket>> {
    let socket = Arc::new(socket);
    let below = Arc::clone(&socket) as Arc<dyn Socket>;
    let tls = Tls::new(below, config).map_err(io::Error::other)?;
    tls.agree().await?;
    if !kernel_tls::takes(&*socket, &tls.session().connection) {
        return Ok(Arc::new(tls));
    }
    let session = tls.session.into_inner();
    let session = session.unwrap_or_else(PoisonError::into_inner);
    Ok(Arc::new(KernelTls::of(socket, session.connection)?))
}

enum Wants {
    Room,
    Bytes,
}

impl Session {
    /// Takes encrypted bytes until some are decrypted, from the socket only if there are no others,
    /// and once. Returns 0 at the end.
    fn receive(&mut self, socket: &dyn Socket) -> io::Result<usize> {
        if self.came.is_empty() {
            let most = match self.connection.is_handshaking() {
                true => self.coming.most(),
                false => RECORD_BYTES,
            };
            let mut came = BytesMut::with_capacity(most);
            if socket.try_read(&mut (&mut came).limit(most))? == 0 {
                return Ok(0);
            }
            if self.connection.is_handshaking() {
                self.coming.count(&came);
            }
            self.came = came;
        }
        let mut all = 0;
        while !self.came.is_empty() && self.plain_left == 0 {
            let taken = self.connection.read_tls(&mut (&mut self.came).reader())?;
            if taken == 0 {
                return Ok(0);
            }
            let state = self.connection.process_new_packets();
            let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.plain_left = state.plaintext_bytes_to_read();
            all += taken;
        }
        if self.came.is_empty() {
            self.came = BytesMut::new();
        }
        Ok(all)
    }

    /// Gives all encrypted bytes to the socket. An error of the kind `WouldBlock` if it does not
    /// take all.
    fn send(&mut self, socket: &dyn Socket) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut Writing(socket))? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Encrypts bytes and gives them to the socket. Returns how many were encrypted: what it does
    /// not take now, it gets before all others, or at a flush.
    fn write(
        &mut self,
        socket: &dyn Socket,
        plain: impl FnOnce(&mut dyn Write) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.send(socket)?;
        if self.records >= OLD_RECORDS_MAX
            && self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_2)
        {
            return Err(io::Error::other("TLS 1.2 has no new keys for more bytes"));
        }
        let count = plain(&mut self.connection.writer())?;
        self.records += 1 + (count / RECORD_BYTES) as u64;
        match self.send(socket) {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(count),
        }
    }
}

/// The socket as the TLS library writes to it.
struct Writing<'a>(&'a dyn Socket);

impl Write for Writing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for Tls {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = self.session();
        if session.plain_left > 0 || !session.came.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.socket.poll_readable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(context)
    }

    fn is_encrypted(&self) -> bool {
        true
    }

    fn try_flush(&self) -> io::Result<()> {
        self.session().send(&*self.socket)
    }

    fn try_read(&self, mut into: &mut dyn BufMut) -> io::Result<usize> {
        let mut session = self.session();
        // A client that sends records without bytes gets one call of the system at a time.
        if session.plain_left == 0 && session.receive(&*self.socket)? == 0 {
            return Ok(0);
        }
        if session.plain_left == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let most = session.plain_left.min(into.remaining_mut());
        let mut reader = session.connection.reader().take(most as u64);
        let count = io::copy(&mut reader, &mut (&mut into).writer())? as usize;
        session.plain_left -= count;
        Ok(count)
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let write = |writer: &mut dyn Write| writer.write_vectored(slices);
        self.session().write(&*self.socket, write)
    }

    fn try_send(&self, pieces: &[Part]) -> io::Result<usize> {
        self.try_flush()?;
        with_buffer(|buffer| {
            // May wait for a disk: the direction from the client must go on meanwhile.
            let count = gather(pieces, buffer)?;
            let plain = buffer.get(..count).unwrap_or_default();
            let write = |writer: &mut dyn Write| writer.write(plain);
            self.session().write(&*self.socket, write)
        })
    }
}

#[cfg(test)]
mod tests;
