// SPDX-License-Identifier: Apache-2.0
//! One connection: a reader that turns bytes into requests, a writer that turns answers into bytes,
//! and the limits between them.

mod answer_wait;
mod burst;
mod ciphered;
mod handshake;
#[cfg(test)]
mod narrow;
pub mod pace;
mod progress;
mod reader;
mod sendfile;
mod sending;
pub mod socket;
pub mod table;
mod tls;
mod watched;
mod writer;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lodestone_auth::Denied;
use lodestone_wire::FrameError;
use lodestone_wire::frame::ChunkId;
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;

use crate::handler::{self, Call};
use crate::service::Service;
use crate::service::pool::Reserved;
use answer_wait::AnswerWait;
use burst::Wanted;
use handshake::Agreed;
use pace::{LEAST_BYTES, LONGEST, WINDOW};
use progress::{LEAST_PART, MOST_PART};
use reader::Reader;
pub(crate) use sending::GATHERED_CHUNKS;
use socket::Socket;
use table::{Place, QUIET};
use writer::Writer;

/// Requests of one connection in work at once, including chunks to be sent. Above this number the
/// daemon reads nothing more from the connection, so that its kernel buffers fill and the client
/// waits.
pub const MAX_IN_WORK: usize = 64;

/// A connection that moves no byte for this long, while a frame, a body or an answer is incomplete,
/// is closed. The same time as Spark's `spark.network.timeout`.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection without a request for this long is closed, unless the daemon has an idle exit.
/// Clients open another one for their next request.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// When the system looks for a host that vanished without closing its connections, and gives it up:
/// after two minutes of silence.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_COUNT: u32 = 4;

/// How long answers under way may take after the connection's reader has ended.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a connection came to its end.
#[derive(Debug, thiserror::Error)]
pub enum CloseReason {
    /// The client closed it, between two requests.
    #[error("closed by the client")]
    Client,
    /// The client closed it inside a frame or body.
    #[error("closed by the client inside a request")]
    Truncated,
    /// No request came.
    #[error("no request for {} s", IDLE_TIMEOUT.as_secs())]
    Idle,
    /// Another connection needs its place.
    #[error("little or nothing moved on it, and max-connections is reached")]
    MadeWay,
    /// The daemon stops.
    #[error("the daemon stops")]
    Shutdown,
    /// The client did not prove that it knows the secret of an application.
    #[error("{0}")]
    Denied(Denied),
    /// The client did not authenticate in time.
    #[error("the client did not authenticate within {} s", handshake::LONGEST.as_secs())]
    NoHandshake,
    /// The client did not agree upon TLS in time.
    #[error("the client did not agree upon TLS within {} s", handshake::LONGEST.as_secs())]
    NoTls,
    /// The client and the daemon did not agree upon TLS.
    #[error("TLS: {0}")]
    Tls(io::Error),
    /// The bytes are no frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A frame that only servers send.
    #[error("the client sent a frame that is no request")]
    NotARequest,
    /// A request stopped in the middle.
    #[error("no byte of an unfinished request for {} s", STALL_TIMEOUT.as_secs())]
    StalledRequest,
    /// A request comes too slowly while it holds memory.
    #[error(
        "fewer than {LEAST_BYTES} bytes of a large request in {} s, or not all of it in {} s while \
         others wait for its memory",
        WINDOW.as_secs(),
        LONGEST.as_secs()
    )]
    SlowRequest,
    /// The client takes no bytes.
    #[error("the client took no byte of an answer for {} s", STALL_TIMEOUT.as_secs())]
    StalledAnswer,
    /// The client takes few bytes, and holds memory.
    #[error(
        "the client takes its answers {} s later than its part of the network allows \
         ({LEAST_PART} to {MOST_PART} bytes a second, the fewer the more connections are open), \
         and others wait for their memory",
        WINDOW.as_secs()
    )]
    SlowAnswer,
    /// The client does not ask for the chunks of its streams.
    #[error(
        "the client opened streams, and for {} s asked for none of their chunks and sent nothing \
         else, while others wait for the memory of their lists",
        QUIET.as_secs()
    )]
    StoppedReader,
    /// Spark repeats requests of a connection that breaks, and none that was refused.
    #[error("no room for a request of Spark's, which repeats it on another connection")]
    Overloaded,
    /// The socket failed.
    #[error("{0}")]
    Socket(io::Error),
    /// A chunk became unreadable after a part of it was sent.
    #[error("a chunk could not be read to its end: {0}")]
    Chunk(io::Error),
    /// A bug of ours.
    #[error("a handler panicked; its message is in the log above")]
    Panic,
}

impl CloseReason {
    /// Returns false if an operator should see it in the log.
    fn is_usual(&self) -> bool {
        match self {
            Self::Client | Self::Idle | Self::MadeWay | Self::Shutdown | Self::Overloaded => true,
            Self::Socket(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ),
            _ => false,
        }
    }
}

/// The permit of a request and its memory, until its answer is written.
#[derive(Debug)]
struct Hold {
    _permit: OwnedSemaphorePermit,
    memory: Vec<Reserved>,
}

/// Something for the writer.
#[derive(Debug)]
enum Outbound {
    /// Bytes that are ready.
    Bytes { bytes: Bytes, hold: Hold },
    /// A chunk that is not open yet.
    Chunk(Wanted),
    /// The connection cannot continue.
    Close { reason: CloseReason, _hold: Hold },
}

/// The form of the request for a chunk.
#[derive(Debug)]
enum ChunkHead {
    /// `ChunkFetchRequest`.
    Fetch(ChunkId),
    /// `StreamRequest`.
    Stream(String),
}

/// Serves a connection until its end, and logs the reason of the end.
pub(crate) async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    place: Place,
    service: Arc<Service>,
    stop: watch::Receiver<bool>,
) {
    let number = place.number;
    place.entry.client.is_at(peer);
    if let Err(error) = configure(&socket) {
        tracing::debug!(connection = number, %peer, %error, "socket options were not set");
    }
    let reason = match secured(socket, &place, &service, stop.clone()).await {
        Ok(socket) => run(socket, place, &service, stop).await,
        Err(reason) => reason,
    };
    if reason.is_usual() {
        tracing::debug!(connection = number, %peer, %reason, "connection closed");
    } else {
        tracing::warn!(connection = number, %peer, %reason, "connection closed");
    }
}

/// Returns the socket with TLS, if the client begins with it.
async fn secured(
    socket: TcpStream,
    place: &Place,
    service: &Service,
    mut stop: watch::Receiver<bool>,
) -> Result<Arc<dyn Socket>, CloseReason> {
    let Some(certificate) = &service.protection.certificate else {
        return Ok(Arc::new(socket));
    };
    tokio::select! {
        biased;
        () = place.entry.makes_way.notified() => Err(CloseReason::MadeWay),
        _ = stop.wait_for(|stop| *stop) => Err(CloseReason::Shutdown),
        secured = tls::secured(socket, certificate, service, &place.entry) => {
            if matches!(secured, Err(CloseReason::Tls(_) | CloseReason::NoTls)) {
                service.metrics.authentication_failures_total.inc();
            }
            secured
        }
    }
}

fn configure(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // A host that vanished does not close its connections. The system gives it up when it does not
    // answer, and, if bytes are on their way to it, when it does not acknowledge them.
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)?;
    sockopt::set_tcp_user_timeout(socket, STALL_TIMEOUT.as_millis() as u32)?;
    Ok(())
}

/// Answers the requests that come through a socket until the connection ends, and returns the
/// reason of the end.
pub async fn run(
    socket: Arc<dyn Socket>,
    place: Place,
    service: &Arc<Service>,
    mut stop: watch::Receiver<bool>,
) -> CloseReason {
    let entry = Arc::clone(&place.entry);
    let agreed = tokio::select! {
        biased;
        () = entry.makes_way.notified() => Err(CloseReason::MadeWay),
        _ = stop.wait_for(|stop| *stop) => Err(CloseReason::Shutdown),
        agreed = handshake::agree(socket, service, place.number, &entry) => agreed,
    };
    let Agreed { socket, principal } = match agreed {
        Ok(agreed) => agreed,
        Err(reason) => return reason,
    };
    // Every entry of the queue holds a permit: sending never waits.
    let (outbound, queue) = mpsc::channel(MAX_IN_WORK);
    let socket = place.watched(socket);
    let answers = service.layouts.connection_share(handler::SHARE_OF_ANSWERS);
    let answer_wait = AnswerWait::new(answers.clone());
    let writer = Writer::new(Arc::clone(&socket), queue, Arc::clone(service), answer_wait);
    let mut writer = tokio::spawn(writer.run());
    let call = Call::new(service, place.number).of(principal);
    place.holds_lists_of(call.list_share.clone());
    let room = Arc::clone(call.streams.room());
    let reader = Reader::new(socket, call, place, outbound, answers);
    let ended = tokio::select! {
        biased;
        written = &mut writer => Ok(written.unwrap_or(Some(CloseReason::Panic))),
        () = entry.makes_way.notified() => Err(CloseReason::MadeWay),
        () = entry.frees_lists.notified() => Err(CloseReason::StoppedReader),
        _ = stop.wait_for(|stop| *stop) => Err(CloseReason::Shutdown),
        // The last one: a client that sends without end must not hide the others.
        reason = reader.run() => Err(reason),
    };
    // At a stop, requests that wait for memory have as much time as those in work.
    if !matches!(ended, Err(CloseReason::Shutdown)) {
        room.end();
    }
    let reason = match ended {
        Ok(written) => return written.unwrap_or(CloseReason::Client),
        Err(reason) => reason,
    };
    // The reader is gone; the queue ends when the requests in work have put their answers into it.
    // Another connection waits for the place of one that makes way, or for its memory.
    let longest = match reason {
        CloseReason::MadeWay | CloseReason::StoppedReader => Duration::ZERO,
        _ => DRAIN_TIMEOUT,
    };
    if timeout(longest, &mut writer).await.is_err() {
        writer.abort();
    }
    room.end();
    reason
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_system_gives_up_a_host_that_vanished_after_two_minutes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (socket, _) = accepted.unwrap();
        configure(&socket).unwrap();
        // As the system has them.
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        let idle = sockopt::tcp_keepidle(&socket).unwrap();
        let interval = sockopt::tcp_keepintvl(&socket).unwrap();
        let looks = sockopt::tcp_keepcnt(&socket).unwrap();
        assert_eq!(idle + interval * looks, Duration::from_secs(120));
        let unacknowledged = sockopt::tcp_user_timeout(&socket).unwrap();
        assert_eq!(unacknowledged, 120_000);
    }
}
