// SPDX-License-Identifier: Apache-2.0
//! Errors, in words that say what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lodestone_wire::{DecodeError, FrameError};

use crate::workload::Block;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The arguments do not go together.
    #[error("{0}")]
    Usage(String),
    /// An error of the disk.
    #[error("{}: {source}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A server did not start.
    #[error("{server} did not start: {why}")]
    Start {
        /// Its name.
        server: String,
        /// The known reason.
        why: String,
    },
    /// A connection could not be made, or broke, or the bytes that came over it were wrong.
    #[error("{server} at {address}: {source}{log}")]
    Link {
        /// Name of the server.
        server: String,
        /// Where it was thought to be.
        address: SocketAddr,
        /// The error of the connection.
        source: Box<LinkError>,
        /// More about the server.
        log: Box<Log>,
    },
    /// Nothing moved any more.
    #[error("{server}: no byte moved for {seconds} s{log}")]
    Silent {
        /// Name of the server.
        server: String,
        /// How long was waited (`--timeout`).
        seconds: u64,
        /// More about the server.
        log: Box<Log>,
    },
    /// Blocks did not come back.
    #[error(
        "{server}: only {found} of {expected} blocks came back; {missing} is the first that did not"
    )]
    Missing {
        /// Name of the server.
        server: String,
        /// Blocks that came back.
        found: u64,
        /// Blocks that were merged.
        expected: u64,
        /// One of those that did not.
        missing: Block,
    },
    /// Blocks were not merged, for a reason that the protocol does not expect.
    #[error("{server} refused {count} blocks: {reason}")]
    Refused {
        /// Name of the server.
        server: String,
        /// How many.
        count: u64,
        /// The code that was given most often.
        reason: String,
    },
    /// The server's account is not that of its answers.
    #[error("{server} acknowledged {acknowledged} blocks, and says that it has merged {reported}")]
    Ledger {
        /// Name of the server.
        server: String,
        /// Blocks that it acknowledged.
        acknowledged: u64,
        /// Blocks that it reported when the shuffle was finalized.
        reported: u64,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// The action.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// The known facts about a server that failed.
#[derive(Debug)]
pub struct Log {
    /// The last lines of its log, which goes with the bench's folder.
    pub lines: String,
    /// True if its disk has no room left.
    pub is_full: bool,
}

impl fmt::Display for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_full {
            out.write_str("; its disk is full")?;
        }
        match self.lines.as_str() {
            "" => Ok(()),
            lines => write!(out, "; its log ends: {lines}"),
        }
    }
}

/// For `map_err`: adds the path.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> BenchError {
    let path = path.to_path_buf();
    move |source| BenchError::Disk { path, source }
}

/// For `map_err`: adds the action.
pub(crate) fn doing(what: &'static str) -> impl FnOnce(io::Error) -> BenchError {
    move |source| BenchError::System { what, source }
}

/// The error of a connection.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no listener, or too many clients connect.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The server closed it before all answers had come.
    #[error("the server closed the connection with answers outstanding")]
    Closed,
    /// The socket failed.
    #[error("the connection broke: {0}")]
    Socket(#[from] io::Error),
    /// No frame of the protocol.
    #[error("the server sent bytes that are no frame: {0}")]
    Frame(#[from] FrameError),
    /// A frame, with the wrong thing in it.
    #[error("the server is wrong: {0}")]
    Wrong(#[from] Wrong),
}

impl LinkError {
    /// Returns true if the server sent something wrong, rather than nothing.
    pub(crate) fn is_wrong(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Wrong(_))
    }

    /// Returns a word or two, for counting.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Connect(_) => "not connected",
            Self::Closed => "closed",
            Self::Socket(error) if error.kind() == io::ErrorKind::ConnectionReset => "reset",
            Self::Socket(error) if error.kind() == io::ErrorKind::BrokenPipe => "broken pipe",
            Self::Socket(_) => "socket error",
            Self::Frame(_) | Self::Wrong(_) => "wrong answer",
        }
    }
}

/// An answer that a right server does not give.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// Bytes that do not start like a block of this shuffle.
    #[error("bytes that are no block of this shuffle where a block should begin")]
    Head,
    /// A block with other bytes than were pushed.
    #[error("{0} has other bytes than were pushed")]
    Bytes(Block),
    /// A block in the position of another one.
    #[error("{0} came where it does not belong")]
    Misplaced(Block),
    /// A block for the second time.
    #[error("{0} came twice")]
    Twice(Block),
    /// A block that the server had reported as not merged.
    #[error("{0} came back although it had been refused")]
    NotMerged(Block),
    /// A chunk ends in the middle of a block, or before its blocks have all come.
    #[error("a chunk is shorter than its blocks")]
    Short,
    /// The answer is no message that was expected.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An answer to nothing that was asked.
    #[error("an unexpected frame: {0}")]
    Unexpected(String),
    /// A request failed, and that is not counted but reported.
    #[error("it refused {request}: {why}")]
    Refused {
        /// The request.
        request: &'static str,
        /// Its words.
        why: String,
    },
}
