// SPDX-License-Identifier: Apache-2.0
//! Questions of the command line to a daemon, one after another over one connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lodestone_auth::exchange::{Challenge, Keystreams, Version};
use lodestone_auth::{Denied, Secret};
use lodestone_model::{AppId, Code};
use lodestone_wire::extension::status::Refused;
use lodestone_wire::spark::authenticate::{AuthMessage, SaslMessage};
use lodestone_wire::{DecodeError, Frame, FrameDecoder, FrameError, Limits, Message};

use super::local;
use crate::metrics::stopwatch::Stopwatch;
use crate::service::secrets::{SecretsError, fresh};

/// Answers are far smaller.
const LIMITS: Limits = Limits {
    frame_bytes: 64 << 20,
    ..Limits::SERVER
};

/// Why a daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The daemon is not there, or not any more.
    #[error("{0}")]
    Network(#[from] io::Error),
    /// An address without a port, or of no host.
    #[error("this is no HOST:PORT of a service")]
    NoAddress,
    /// Its operators are on its own host.
    #[error("the service is on another host")]
    OtherHost,
    /// The port and the socket for operators are of two daemons.
    #[error("another daemon than the one at the port listens on the socket for operators")]
    OtherDaemon,
    /// The socket for operators does not answer.
    #[error(
        "its socket for operators does not answer ({0}): the daemon is in another container, is of \
         an older version, runs as `nobody`, or found the name of its socket in use (see its log)"
    )]
    Operator(io::Error),
    /// It went away before it answered.
    #[error("it closed the connection")]
    Closed,
    /// Another protocol.
    #[error("it sent no frame of the protocol ({0}): is it a Lodestone service?")]
    Frame(#[from] FrameError),
    /// Another answer.
    #[error("it answered with something else ({0})")]
    Answer(#[from] DecodeError),
    /// The daemon refuses, with this detail.
    #[error("it refuses: {0}")]
    Refused(String),
    /// The daemon does not know the application.
    #[error("it holds nothing of the application")]
    UnknownApplication,
    /// It did not prove that it knows the secret.
    #[error("it has another secret ({0})")]
    Denied(#[from] Denied),
    /// No secret to begin with.
    #[error("{0}")]
    Secret(#[from] SecretsError),
    /// A directory of secrets without the one that is needed.
    #[error("--secrets has no secret of this application")]
    NoSecret,
}

/// A connection to a daemon.
pub(super) trait Socket: Read + Write {
    fn set_timeouts(&self, time: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Socket for UnixStream {
    fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// Questions to one daemon.
#[derive(Debug)]
pub(super) struct Asking<S> {
    socket: S,
    timeout: Duration,
    /// When the connection began, if the time-out is for all of its answers together.
    begun: Option<Stopwatch>,
    received: BytesMut,
    asked: i64,
    /// What all bytes are encrypted with, if the daemon asked for a secret.
    keys: Option<Keystreams>,
}

impl Asking<UnixStream> {
    /// Connects to a daemon of this host as its operator.
    pub(super) fn operator(service: &str, timeout: Duration) -> Result<Self, AskError> {
        let mut addresses = service.to_socket_addrs()?;
        let address = addresses.next().ok_or(AskError::NoAddress)?;
        if !is_of_this_host(address.ip()) {
            return Err(AskError::OtherHost);
        }
        let socket = local::connect(address.port()).map_err(AskError::Operator)?;
        Ok(Self::over(socket, timeout))
    }
}

/// A socket can be bound to an address only on the host that has it.
fn is_of_this_host(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

impl Asking<TcpStream> {
    /// Connects; an answer may take as long as `timeout`, and so may this.
    pub(super) fn connect(service: &str, timeout: Duration) -> Result<Self, AskError> {
        let mut addresses = service.to_socket_addrs()?;
        let address = addresses.next().ok_or(AskError::NoAddress)?;
        let socket = TcpStream::connect_timeout(&address, timeout)?;
        Ok(Self::over(socket, timeout))
    }

    /// Connects; all answers together may take as long as `timeout`, however they come.
    pub(super) fn connect_for(service: &str, timeout: Duration) -> Result<Self, AskError> {
        let begun = Some(Stopwatch::start());
        let asking = Self::connect(service, timeout)?;
        Ok(Self { begun, ..asking })
    }
}

impl<S: Socket> Asking<S> {
    fn over(socket: S, timeout: Duration) -> Self {
        Self {
            socket,
            timeout,
            begun: None,
            received: BytesMut::new(),
            asked: 0,
            keys: None,
        }
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask<A: Message>(&mut self, question: &impl Message) -> Result<A, AskError> {
        let body = self.answer(question.to_bytes())?;
        match body.first() {
            Some(&Refused::ID) => Err(match Refused::from_bytes(&body)? {
                refused if refused.code == Code::UnknownApplication => AskError::UnknownApplication,
                refused => AskError::Refused(refused.detail),
            }),
            _ => Ok(A::from_bytes(&body)?),
        }
    }

    /// Proves that this is a client of an application. What follows is encrypted.
    pub(super) fn authenticate(&mut self, app: &AppId, secret: &Secret) -> Result<(), AskError> {
        let challenge = Challenge::new(app, secret, &fresh()?)?;
        let response = self.answer(challenge.message().to_bytes())?;
        let response = AuthMessage::from_bytes(&response)?;
        let agreed = challenge.accept(&response, secret)?;
        self.keys = Some(agreed.keystreams(Version::Two));
        Ok(())
    }

    /// Begins to authenticate without encryption. A service that needs encryption refuses.
    pub(super) fn begin_in_the_clear(&mut self, app: &AppId) -> Result<(), AskError> {
        let (app, token) = (app.clone(), Vec::new());
        self.answer(SaslMessage { app, token }.to_bytes()).map(drop)
    }

    /// Returns how long the next answer may take.
    fn left(&self) -> io::Result<Duration> {
        let spent = self.begun.map_or(0.0, Stopwatch::seconds);
        let left = self.timeout.saturating_sub(Duration::from_secs_f64(spent));
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }

    fn answer(&mut self, body: Bytes) -> Result<Bytes, AskError> {
        self.asked += 1;
        let request_id = self.asked;
        let mut request = BytesMut::from(Frame::RpcRequest { request_id, body }.to_bytes());
        if let Some(keys) = &mut self.keys {
            keys.of_client.apply(&mut request);
        }
        self.socket.set_timeouts(self.left()?)?;
        self.socket.write_all(&request)?;
        match self.receive()? {
            Frame::RpcResponse { body, .. } => Ok(body),
            Frame::RpcFailure(failure) => Err(AskError::Refused(failure.error)),
            _ => Err(AskError::Closed),
        }
    }

    /// Waits until the daemon ends, but no longer than `time`. Returns true if it ended.
    pub(super) fn ends_within(&mut self, time: Duration) -> Result<bool, AskError> {
        self.socket.set_timeouts(time)?;
        match self.read() {
            // The daemon sends nothing unasked: these bytes show that it runs.
            Ok(()) => Ok(false),
            Err(AskError::Closed) => Ok(true),
            Err(AskError::Network(error)) => Ok(!matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            )),
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self) -> Result<Frame, AskError> {
        let decoder = FrameDecoder::new(LIMITS);
        loop {
            if let Some(frame) = decoder.next(&mut self.received)? {
                return Ok(frame);
            }
            self.socket.set_timeouts(self.left()?)?;
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<(), AskError> {
        let mut bytes = vec![0; 64 << 10];
        match self.socket.read(&mut bytes)? {
            0 => Err(AskError::Closed),
            count => {
                let new = bytes.get_mut(..count).unwrap_or_default();
                if let Some(keys) = &mut self.keys {
                    keys.of_service.apply(new);
                }
                self.received.extend_from_slice(new);
                Ok(())
            }
        }
    }
}
