// SPDX-License-Identifier: Apache-2.0
//! One question to one daemon.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::BytesMut;
use lodestone_wire::extension::explain::{ExplainApplication, Explanation};
use lodestone_wire::extension::status::Refused;
use lodestone_wire::{DecodeError, Frame, FrameDecoder, FrameError, Limits, Message};

/// A daemon answers from memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers are far smaller.
const LIMITS: Limits = Limits {
    frame_bytes: 64 << 20,
    ..Limits::SERVER
};

/// Why a daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("{0}")]
    Network(#[from] io::Error),
    #[error("is no HOST:PORT of a service")]
    NoAddress,
    #[error("closed the connection")]
    Closed,
    #[error("sent no frame of the protocol ({0}): is it a Lodestone service?")]
    Frame(#[from] FrameError),
    #[error("answered with something else ({0})")]
    Answer(#[from] DecodeError),
    #[error("cannot explain: {0} (an older version?)")]
    Refused(String),
}

pub(super) fn ask(service: &str, app: &str) -> Result<Explanation, AskError> {
    let address = service
        .to_socket_addrs()?
        .next()
        .ok_or(AskError::NoAddress)?;
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let question = ExplainApplication {
        app: app.to_owned(),
    };
    let request = Frame::RpcRequest {
        request_id: 1,
        body: question.to_bytes(),
    };
    socket.write_all(&request.to_bytes())?;
    match receive(&mut socket)? {
        Frame::RpcResponse { body, .. } if body.first() == Some(&Refused::ID) => {
            Err(AskError::Refused(Refused::from_bytes(&body)?.detail))
        }
        Frame::RpcResponse { body, .. } => Ok(Explanation::from_bytes(&body)?),
        Frame::RpcFailure(failure) => Err(AskError::Refused(failure.error)),
        _ => Err(AskError::Closed),
    }
}

fn receive(socket: &mut TcpStream) -> Result<Frame, AskError> {
    let decoder = FrameDecoder::new(LIMITS);
    let mut received = BytesMut::new();
    let mut bytes = vec![0; 64 << 10];
    loop {
        if let Some(frame) = decoder.next(&mut received)? {
            return Ok(frame);
        }
        match socket.read(&mut bytes)? {
            0 => return Err(AskError::Closed),
            count => received.extend_from_slice(bytes.get(..count).unwrap_or_default()),
        }
    }
}
