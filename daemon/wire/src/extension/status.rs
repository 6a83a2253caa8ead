// SPDX-License-Identifier: Apache-2.0
//! Status codes, and the two answers that carry nothing else.
//!
//! ```text
//! Done    79  i64 incarnation
//! Refused 80  i8 code, i64 incarnation, string detail
//! ```

use bytes::{BufMut, BytesMut};

use crate::codec::{Field, FieldError, Problem, Reader, message};

/// What the caller must do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nothing: the work is done.
    Done,
    /// The same request to the same service, a bounded number of times.
    Retry,
    /// Do without this service for the shuffle.
    Reroute,
    /// The request has become pointless.
    GiveUp,
    /// Do not use this service at all, tell the user.
    Fatal,
}

/// Declares the codes once: number, name, class, meaning.
macro_rules! statuses {
    ($($(#[$meta:meta])* $number:literal $name:ident $text:literal $class:ident,)*) => {
        /// A status code: section 5 of `docs/protocol.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Status {
            $($(#[$meta])* $name = $number,)*
        }

        impl Status {
            /// Every code, in order of its number.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in the specification, logs and metrics.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What the caller must do.
            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }

        impl TryFrom<u8> for Status {
            type Error = Problem;

            fn try_from(number: u8) -> Result<Self, Problem> {
                match number {
                    $($number => Ok(Self::$name),)*
                    other => Err(Problem::UnknownValue(other)),
                }
            }
        }
    };
}

statuses! {
    /// Done.
    0 Ok "OK" Done,
    /// This very segment was there already.
    1 Duplicate "DUPLICATE" Done,
    /// The shuffle is finalized.
    2 TooLate "TOO_LATE" GiveUp,
    /// A higher merge id is known.
    3 StaleMerge "STALE_MERGE" GiveUp,
    /// A higher application attempt is known.
    4 StaleAttempt "STALE_ATTEMPT" GiveUp,
    /// The daemon was restarted since.
    5 StaleIncarnation "STALE_INCARNATION" Reroute,
    /// Never seen, ended, or its lease ran out.
    6 UnknownApplication "UNKNOWN_APPLICATION" Reroute,
    /// Never registered here, or removed.
    7 UnknownShuffle "UNKNOWN_SHUFFLE" Reroute,
    /// Nothing was ever pushed for this partition.
    8 UnknownPartition "UNKNOWN_PARTITION" Reroute,
    /// Finalize first.
    9 NotFinalized "NOT_FINALIZED" Retry,
    /// Bytes arrived damaged.
    10 ChecksumMismatch "CHECKSUM_MISMATCH" Retry,
    /// No space left.
    11 DiskFull "DISK_FULL" Reroute,
    /// An I/O error.
    12 DiskFailed "DISK_FAILED" Reroute,
    /// A limit was reached.
    13 Overloaded "OVERLOADED" Retry,
    /// A bug of the caller; the detail says what.
    14 Malformed "MALFORMED" Fatal,
    /// Another protocol version.
    15 VersionMismatch "VERSION_MISMATCH" Fatal,
    /// Takes nothing new.
    16 Draining "DRAINING" Reroute,
    /// Over a limit of section 2.
    17 TooLarge "TOO_LARGE" GiveUp,
    /// Another attempt of this map was merged first.
    18 OtherAttempt "OTHER_ATTEMPT" GiveUp,
    /// A bug of the server; its log says more.
    19 Internal "INTERNAL" Reroute,
    /// What is held of a map attempt is not what it pushed.
    20 LedgerMismatch "LEDGER_MISMATCH" GiveUp,
    /// The map attempt was aborted.
    21 Aborted "ABORTED" GiveUp,
    /// What is there in this segment's place is another one.
    22 OtherContent "OTHER_CONTENT" Reroute,
}

impl Field for Status {
    const MIN_BYTES: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(*self as u8);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self::try_from(input.u8()?)?)
    }
}

message! { strict, 79;
    /// The request was carried out.
    pub struct Done {
        /// Incarnation of the daemon.
        pub incarnation: i64,
    }
}

message! { strict, 80;
    /// The request was not carried out.
    pub struct Refused {
        /// Why.
        pub code: Status,
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// For the log; never to be parsed.
        pub detail: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_number_of_its_place_and_comes_back_from_it() {
        for (number, status) in Status::ALL.iter().enumerate() {
            assert_eq!(*status as usize, number);
            assert_eq!(Status::try_from(number as u8), Ok(*status));
        }
        assert_eq!(Status::ALL.len(), 23);
        assert_eq!(Status::try_from(23), Err(Problem::UnknownValue(23)));
        assert_eq!(Status::try_from(255), Err(Problem::UnknownValue(255)));
    }

    #[test]
    fn the_table_of_the_specification_has_the_same_names_and_classes() {
        let page = include_str!("../../../../docs/protocol.md");
        for status in Status::ALL {
            let class = match status.class() {
                Class::Done => "-",
                Class::Retry => "retry",
                Class::Reroute => "reroute",
                Class::GiveUp => "give up",
                Class::Fatal => "fatal",
            };
            let row = format!("| {} | {} | {class} |", *status as u8, status.name());
            assert!(page.contains(&row), "no row {row:?}");
        }
    }
}
