// SPDX-License-Identifier: Apache-2.0
//! One connection in one phase.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lodestone_wire::{Frame, FrameDecoder, Limits, Message};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::outbox::Outbox;
use super::parser::Parser;
use super::{Next, Talk};
use crate::dialect;
use crate::error::{LinkError, Wrong};
use crate::measure::locked;

/// `MergeStatuses` of a large shuffle are the largest answers.
const ANSWER_LIMITS: Limits = Limits {
    frame_bytes: 1 << 30,
    meta_bytes: 0,
    upload_bytes: 0,
};

/// Requests that are sent before their answers are awaited: servers stop reading after some.
const ASKED_TOGETHER: usize = 32;

/// Bytes read at once. One such buffer per thread, not per connection: it stays in the processor's
/// cache.
const READ_BYTES: usize = 256 << 10;

/// A client that reads slowly takes small bites, or it would be fast and then silent.
const SLOW_BITE_BYTES: usize = 16 << 10;

/// A client that writes slowly takes smaller bites: also a block of 10 KB must be cut, so that the
/// server waits in its middle.
const SLOW_WRITE_BYTES: usize = 4 << 10;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Opens a connection.
pub async fn connect(address: SocketAddr) -> Result<TcpStream, LinkError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(LinkError::Connect)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends and receives until the talk is over.
pub async fn hold(stream: &TcpStream, talk: impl Talk) -> Result<(), LinkError> {
    let pace = talk.pace();
    let (talk, wake) = (Mutex::new(talk), Notify::new());
    tokio::select! {
        sent = send(stream, &talk, &wake, pace.write) => sent,
        received = receive(stream, &talk, &wake, pace.read) => received.map(|never| match never {}),
    }
}

async fn send(
    stream: &TcpStream,
    talk: &Mutex<impl Talk>,
    wake: &Notify,
    pace: Option<u64>,
) -> Result<(), LinkError> {
    let mut out = Outbox::default();
    loop {
        let next = locked(talk).next(&mut out);
        match next {
            Next::Send => match pace {
                None => out.flush(stream).await?,
                Some(rate) => trickle(&mut out, stream, talk, rate).await?,
            },
            Next::Wait => wake.notified().await,
            Next::Done => return Ok(()),
        }
    }
}

/// Writes everything, a little at a time.
async fn trickle(
    out: &mut Outbox,
    stream: &TcpStream,
    talk: &Mutex<impl Talk>,
    rate: u64,
) -> Result<(), LinkError> {
    while !out.is_empty() {
        let count = out.bite(stream, SLOW_WRITE_BYTES).await?;
        locked(talk).wrote(count as u64);
        pause(count, rate).await;
    }
    Ok(())
}

/// Waits as long as this many bytes take.
async fn pause(count: usize, rate: u64) {
    let time = Duration::from_secs_f64(count as f64 / rate.max(1) as f64);
    tokio::time::sleep(time).await;
}

async fn receive(
    stream: &TcpStream,
    talk: &Mutex<impl Talk>,
    wake: &Notify,
    pace: Option<u64>,
) -> Result<Infallible, LinkError> {
    let mut parser = Parser::default();
    let bite = pace.map_or(READ_BYTES, |_| SLOW_BITE_BYTES);
    loop {
        stream.readable().await?;
        let read = BUFFER.with_borrow_mut(|buffer| {
            let space = buffer.get_mut(..bite).unwrap_or_default();
            let count = match stream.try_read(space) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) => return Err(error.into()),
            };
            let bytes = space.get(..count).unwrap_or_default();
            parser.feed(bytes, &mut *locked(talk))?;
            Ok(count)
        })?;
        wake.notify_one();
        if let Some(rate) = pace {
            pause(read, rate).await;
        }
    }
}

/// Sends one request over a connection of its own: servers may have closed an older one between
/// phases.
pub async fn ask(address: SocketAddr, body: Bytes) -> Result<Bytes, LinkError> {
    let mut answers = ask_all(address, &[body]).await?;
    answers.pop().ok_or(LinkError::Closed)
}

/// Asks many things over one connection. The answers come in any order.
pub async fn ask_all(address: SocketAddr, bodies: &[Bytes]) -> Result<Vec<Bytes>, LinkError> {
    let mut stream = connect(address).await?;
    let mut buffer = BytesMut::new();
    let mut answers = Vec::with_capacity(bodies.len());
    let mut request_id = 0;
    for together in bodies.chunks(ASKED_TOGETHER) {
        for body in together {
            request_id += 1;
            let body = body.clone();
            let request = Frame::RpcRequest { request_id, body };
            stream.write_all(&request.to_bytes()).await?;
        }
        for _ in together {
            answers.push(answer(&mut stream, &mut buffer).await?);
        }
    }
    Ok(answers)
}

async fn answer(stream: &mut TcpStream, buffer: &mut BytesMut) -> Result<Bytes, LinkError> {
    let decoder = FrameDecoder::new(ANSWER_LIMITS);
    loop {
        match decoder.next(buffer)? {
            Some(Frame::RpcResponse { body, .. }) => return Ok(body),
            Some(Frame::RpcFailure(failure)) => {
                let why = first_line(&failure.error);
                let request = "a request";
                return Err(Wrong::Refused { request, why }.into());
            }
            Some(other) => return Err(Wrong::Unexpected(format!("{other:?}")).into()),
            None if stream.read_buf(buffer).await? == 0 => return Err(LinkError::Closed),
            None => {}
        }
    }
}

/// Asks with a message, and is answered with one.
pub async fn ask_message<A: Message, Q: Message>(
    address: SocketAddr,
    question: &Q,
) -> Result<A, LinkError> {
    let body = ask(address, question.to_bytes()).await?;
    Ok(dialect::read(Q::NAME, &body)?)
}

/// Sends one message without an answer. Returns when the server has processed it.
pub async fn send_one_way(address: SocketAddr, message: &impl Message) -> Result<(), LinkError> {
    let mut stream = connect(address).await?;
    let body = message.to_bytes();
    stream.write_all(&Frame::OneWay { body }.to_bytes()).await?;
    stream.shutdown().await?;
    // A server closes a connection whose other end is closed after it has processed the earlier
    // bytes.
    let mut rest = BytesMut::new();
    while stream.read_buf(&mut rest).await? > 0 {}
    Ok(())
}

/// Java's failures are stack traces. With a block's name before the reason, each reason would be
/// another one.
pub(crate) fn first_line(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    if !line.starts_with("shufflePush_") {
        return line.to_owned();
    }
    let reason = line.split_once([' ', ':']).map(|(_, reason)| reason.trim());
    reason.unwrap_or("without a reason").to_owned()
}
