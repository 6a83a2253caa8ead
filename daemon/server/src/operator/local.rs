// SPDX-License-Identifier: Apache-2.0
//! The socket for operators on the daemon's own host. It has no file: its name is the daemon's
//! port, in the network namespace of the host or container. Only the daemon's user and root are
//! heard. Whatever reaches the daemon's port, directly or through a proxy, is no operator.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use lodestone_wire::frame::RpcFailure;
use lodestone_wire::{Frame, FrameDecoder, Limits};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Uid, geteuid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::handler::{self, Answer, Call};
use crate::process::accept;
use crate::service::Service;
use crate::service::lanes::Kind;

/// Operators at a time. Each asks once a second.
const MAX_OPERATORS: usize = 4;

/// The next question comes within this time.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Questions are far smaller.
const LIMITS: Limits = Limits {
    frame_bytes: 4096,
    ..Limits::SERVER
};

fn name(port: u16) -> String {
    format!("lodestone-{port}")
}

/// In a user namespace every user that it does not know looks like this one.
const OVERFLOW_USER: u32 = 65_534;

/// Listens for operators of the daemon with this port.
pub fn bind(port: u16) -> io::Result<UnixListener> {
    if geteuid().as_raw() == OVERFLOW_USER {
        let text = "the daemon's user cannot be distinguished from others: use another user";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(name(port))?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Connects to the daemon with this port, if it is of this user or of root.
pub(super) fn connect(port: u16) -> io::Result<StdStream> {
    // A socket that nobody serves must not block this process.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(
        &socket,
        &SocketAddrUnix::new_abstract_name(name(port).as_bytes())?,
    )?;
    let socket = StdStream::from(socket);
    socket.set_nonblocking(false)?;
    let daemon = socket_peercred(&socket)?.uid;
    let own = geteuid();
    if daemon != own && !own.is_root() {
        let text = format!("the daemon is of user {daemon}: run this as that user or as root");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(socket)
}

/// Serves operators until the switch is thrown.
pub async fn run(listener: UnixListener, service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MAX_OPERATORS));
    loop {
        let Some((socket, _)) = accept::next(|| listener.accept(), &mut stop).await else {
            return;
        };
        let is_heard = socket.peer_cred().is_ok_and(|peer| is_operator(peer.uid()));
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!("an operator was turned away: {MAX_OPERATORS} are connected");
            continue;
        };
        if !is_heard {
            tracing::warn!("a process of another user is no operator: its connection closes");
            continue;
        }
        let call = Call::new(&service, 0);
        let stop = stop.clone();
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = answer_all(socket, call, stop).await {
                tracing::debug!(%error, "the connection of an operator ends");
            }
        });
    }
}

fn is_operator(uid: u32) -> bool {
    let uid = Uid::from_raw(uid);
    uid.is_root() || uid == geteuid()
}

/// The connection ends when the daemon begins to stop: its answers would say that nothing is held.
/// If the daemon stops because an operator had it leave, the connection ends with the process.
async fn answer_all(
    mut socket: UnixStream,
    call: Call,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let decoder = FrameDecoder::new(LIMITS);
    let mut received = BytesMut::new();
    loop {
        let frame = decoder.next(&mut received).map_err(io::Error::other)?;
        let Some(frame) = frame else {
            let is_leaving = *call.service.drained.borrow();
            let read = tokio::select! {
                read = timeout(QUESTION_TIMEOUT, socket.read_buf(&mut received)) => read?,
                _ = stop.wait_for(|stop| *stop), if !is_leaving => return Ok(()),
            };
            match read? {
                0 => return Ok(()),
                _ => continue,
            }
        };
        let Frame::RpcRequest { request_id, body } = frame else {
            return Err(io::Error::other(
                "the operator sent a frame that is no request",
            ));
        };
        let (lanes, asked, request) = (&call.service.lanes, call.clone(), body.clone());
        let carry_out = move || handler::operator(&asked, &request);
        let answer = lanes.run(Kind::Operator, carry_out).await;
        let answer = answer.map_err(io::Error::other)?;
        let leaves = handler::leaves(&body, &answer);
        let frame = match answer {
            Answer::Response(body) => Frame::RpcResponse { request_id, body },
            Answer::Failure(error) => Frame::RpcFailure(RpcFailure { request_id, error }),
            Answer::Close => return Ok(()),
        };
        socket.write_all(&frame.to_bytes()).await?;
        // Not before: the process may end at once, and the operator needs the answer.
        if leaves {
            call.service.drained.send_replace(true);
        }
    }
}
