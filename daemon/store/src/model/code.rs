// SPDX-License-Identifier: Apache-2.0
//! Status codes, numbered as in `docs/protocol.md` section 5. The class says what the caller must
//! do.

use std::fmt;

/// Outcome of a request or of one segment. The numbers are those of the wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Done.
    Ok = 0,
    /// This very segment was there already.
    Duplicate = 1,
    /// The shuffle is finalized.
    TooLate = 2,
    /// A higher merge id is known.
    StaleMerge = 3,
    /// A higher application attempt is known.
    StaleAttempt = 4,
    /// The daemon was restarted since.
    StaleIncarnation = 5,
    /// The application was never seen, has ended, or its lease ran out.
    UnknownApplication = 6,
    /// The shuffle was never registered here, or was removed.
    UnknownShuffle = 7,
    /// Nothing is held for this reduce partition.
    UnknownPartition = 8,
    /// The shuffle must be finalized first.
    NotFinalized = 9,
    /// The bytes arrived damaged.
    ChecksumMismatch = 10,
    /// No space left.
    DiskFull = 11,
    /// Input/output error.
    DiskFailed = 12,
    /// A limit was reached.
    Overloaded = 13,
    /// A bug of the caller.
    Malformed = 14,
    /// Another protocol version.
    VersionMismatch = 15,
    /// The daemon takes nothing new.
    Draining = 16,
    /// Over a limit of the protocol.
    TooLarge = 17,
    /// Another attempt of this map task was merged first.
    OtherAttempt = 18,
    /// A bug of the server.
    Internal = 19,
    /// What is held of a map attempt is not what it pushed.
    LedgerMismatch = 20,
    /// The map attempt was aborted.
    Aborted = 21,
    /// What is there in this segment's place is another one.
    OtherContent = 22,
}

/// What the caller must do about a [`Code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Nothing: the work is done.
    Done,
    /// Send the same request again, a bounded number of times.
    Retry,
    /// Do without this service for the shuffle.
    Reroute,
    /// This request has become pointless.
    GiveUp,
    /// Do not use this service, tell the user.
    Fatal,
}

impl Code {
    /// The class of this code.
    pub fn class(self) -> Class {
        match self {
            Self::Ok | Self::Duplicate => Class::Done,
            Self::NotFinalized | Self::ChecksumMismatch | Self::Overloaded => Class::Retry,
            Self::StaleIncarnation
            | Self::UnknownApplication
            | Self::UnknownShuffle
            | Self::UnknownPartition
            | Self::DiskFull
            | Self::DiskFailed
            | Self::Draining
            | Self::Internal
            | Self::OtherContent => Class::Reroute,
            Self::TooLate
            | Self::StaleMerge
            | Self::StaleAttempt
            | Self::TooLarge
            | Self::OtherAttempt
            | Self::LedgerMismatch
            | Self::Aborted => Class::GiveUp,
            Self::Malformed | Self::VersionMismatch => Class::Fatal,
        }
    }

    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// A refusal with this code; `detail` is for the log of whoever asked.
    pub fn because(self, detail: impl Into<String>) -> Refusal {
        Refusal {
            code: self,
            detail: detail.into(),
        }
    }
}

/// A request that was not done: the code decides what the caller does, the detail is for its log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {detail}")]
pub struct Refusal {
    /// What happened, as a number with a class.
    pub code: Code,
    /// Words for the log; never to be parsed.
    pub detail: String,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
