// SPDX-License-Identifier: Apache-2.0
//! The first messages of a connection to a daemon with secrets: until the client has proved that it
//! knows the secret of an application, the daemon says who it is, and nothing else, and it reads
//! little.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use lodestone_auth::{Denied, Encryption, Handshake, Secret, Session, Step, asks};
use lodestone_model::AppId;
use lodestone_wire::frame::RpcFailure;
use lodestone_wire::{Frame, FrameDecoder, Limits};
use tokio::time::timeout;

use super::CloseReason;
use super::ciphered::Ciphered;
use super::socket::{Socket, is_passing, readable, writable};
use super::table::Entry;
use crate::handler::{self, Answer, Call};
use crate::service::Service;
use crate::service::lanes::Kind;
use crate::service::secrets::{Secrets, fresh};

/// A client must be done after this long.
pub(super) const LONGEST: Duration = Duration::from_secs(10);

/// SASL takes two. An operator may ask who is here.
const MOST_MESSAGES: usize = 4;

/// The longest message: an id, and keys or a token.
const LIMITS: Limits = Limits {
    frame_bytes: 8 << 10,
    ..Limits::SERVER
};

/// Bytes read at once.
const READ_BYTES: usize = 2 << 10;

/// What a handshake agreed upon.
pub(super) struct Agreed {
    /// The socket for all that follows.
    pub(super) socket: Arc<dyn Socket>,
    /// The application that the client is of. `None`: the daemon has no secrets.
    pub(super) principal: Option<AppId>,
}

/// Waits for the client to authenticate, if the daemon has secrets.
pub(super) async fn agree(
    socket: Arc<dyn Socket>,
    service: &Arc<Service>,
    number: u64,
    entry: &Arc<Entry>,
) -> Result<Agreed, CloseReason> {
    let protection = &service.protection;
    let encryption = match (socket.is_encrypted(), protection.encrypted_only) {
        (true, _) => Encryption::There,
        (false, true) => Encryption::Required,
        (false, false) => Encryption::Optional,
    };
    if protection.secrets.is_none() && encryption != Encryption::Required {
        return Ok(Agreed {
            socket,
            principal: None,
        });
    }
    entry.is_proved.store(false, Relaxed);
    let mut asking = Asking {
        socket,
        call: Call::new(service, number),
        secrets: protection.secrets.clone(),
        entry: Arc::clone(entry),
        buffer: BytesMut::new(),
        handshake: Handshake::new(encryption),
    };
    let agreed = timeout(LONGEST, asking.session()).await;
    let agreed = agreed.unwrap_or(Err(CloseReason::NoHandshake));
    // A probe of the port closes it, or resets it: this is no failure.
    if agreed.as_ref().is_err_and(|reason| !reason.is_usual()) {
        service.metrics.authentication_failures_total.inc();
    }
    agreed
}

struct Asking {
    socket: Arc<dyn Socket>,
    call: Call,
    /// `None`: clients need none, but TLS.
    secrets: Option<Arc<Secrets>>,
    entry: Arc<Entry>,
    buffer: BytesMut,
    handshake: Handshake,
}

impl Asking {
    async fn session(&mut self) -> Result<Agreed, CloseReason> {
        for _ in 0..MOST_MESSAGES {
            let (request_id, body) = match self.frame().await? {
                Frame::RpcRequest { request_id, body } => (request_id, body),
                Frame::UploadStream { request_id, .. } => {
                    return self.deny(request_id, self.missing()).await;
                }
                Frame::MergedBlockMetaRequest(request) => {
                    return self.deny(request.request_id, self.missing()).await;
                }
                _ => return Err(CloseReason::Denied(self.missing())),
            };
            if let Some(answer) = handler::greet(&self.call, &body) {
                let Answer::Response(body) = answer else {
                    unreachable!("the extension refuses in a response");
                };
                self.send(Frame::RpcResponse { request_id, body }).await?;
                continue;
            }
            let step = match self.step(body).await? {
                Ok(step) => step,
                // Spark's client tries SASL next, on the same connection.
                Err(denied @ Denied::EncryptedTwice) => {
                    self.refuse(request_id, denied).await?;
                    continue;
                }
                Err(denied) => return self.deny(request_id, denied).await,
            };
            // What is sent before the answer is not protected by it.
            if !self.buffer.is_empty() {
                return Err(CloseReason::Denied(EARLY));
            }
            let body = step.answer;
            self.send(Frame::RpcResponse { request_id, body }).await?;
            if let Some(session) = step.session {
                return Ok(self.agreed(session));
            }
        }
        Err(CloseReason::Denied(Denied::Malformed("too many messages")))
    }

    fn agreed(&self, Session { app, keys }: Session) -> Agreed {
        let socket = match keys {
            // Anyone may have sent a message again that was recorded: the first frame is the proof.
            Some(keys) => Arc::new(Ciphered::new(Arc::clone(&self.socket), keys)),
            None => {
                self.entry.is_proved.store(true, Relaxed);
                Arc::clone(&self.socket)
            }
        };
        Agreed {
            socket,
            principal: Some(app),
        }
    }

    /// What a client lacks that asks for something else.
    fn missing(&self) -> Denied {
        match self.secrets {
            Some(_) => Denied::Missing,
            None => Denied::Unencrypted,
        }
    }

    /// Takes a message of the client, on a thread that may wait for the file of the secret.
    async fn step(&mut self, body: Bytes) -> Result<Result<Step, Denied>, CloseReason> {
        let (app, secrets) = match (asks(&body), &self.secrets) {
            (None, _) | (_, None) => return Ok(Err(self.missing())),
            (Some(Err(denied)), _) => return Ok(Err(denied)),
            (Some(Ok(app)), Some(secrets)) => (app, Arc::clone(secrets)),
        };
        let random = || fresh().map_err(CloseReason::Socket);
        let (fresh, unknown) = (random()?, random()?);
        let mut handshake = std::mem::take(&mut self.handshake);
        let take = move || {
            let secret = secrets.of(&app).unwrap_or_else(|error| {
                tracing::error!(%app, %error, "no secret could be read");
                None
            });
            let secret = secret.unwrap_or_else(|| Secret::unknown(&unknown.private));
            let step = handshake.take(&body, &secret, &fresh);
            (handshake, step)
        };
        let taken = self.call.service.lanes.run(Kind::Handshake, take).await;
        let (handshake, step) = taken.map_err(|_| CloseReason::Panic)?;
        self.handshake = handshake;
        Ok(step)
    }

    /// Tells the client why, and ends the connection.
    async fn deny<T>(&self, request_id: i64, denied: Denied) -> Result<T, CloseReason> {
        self.refuse(request_id, denied).await?;
        Err(CloseReason::Denied(denied))
    }

    async fn refuse(&self, request_id: i64, denied: Denied) -> Result<(), CloseReason> {
        let error = denied.to_string();
        self.send(Frame::RpcFailure(RpcFailure { request_id, error }))
            .await
    }

    async fn frame(&mut self) -> Result<Frame, CloseReason> {
        let decoder = FrameDecoder::new(LIMITS);
        loop {
            if let Some(frame) = decoder.next(&mut self.buffer)? {
                return Ok(frame);
            }
            readable(&*self.socket).await.map_err(CloseReason::Socket)?;
            self.buffer.reserve(READ_BYTES);
            match self
                .socket
                .try_read(&mut (&mut self.buffer).limit(READ_BYTES))
            {
                Ok(0) if self.buffer.is_empty() => return Err(CloseReason::Client),
                Ok(0) => return Err(CloseReason::Truncated),
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
    }

    async fn send(&self, frame: Frame) -> Result<(), CloseReason> {
        let mut bytes = frame.to_bytes();
        while !bytes.is_empty() {
            writable(&*self.socket).await.map_err(CloseReason::Socket)?;
            match self.socket.try_write(&[IoSlice::new(&bytes)]) {
                Ok(0) => return Err(CloseReason::Socket(ErrorKind::WriteZero.into())),
                Ok(written) => bytes.advance(written),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
        self.flush().await
    }

    async fn flush(&self) -> Result<(), CloseReason> {
        loop {
            match self.socket.try_flush() {
                Ok(()) => return Ok(()),
                Err(error) if is_passing(&error) => {
                    writable(&*self.socket).await.map_err(CloseReason::Socket)?;
                }
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
    }
}

const EARLY: Denied = Denied::Malformed("bytes before the answer to its message");
