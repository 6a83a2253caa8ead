// SPDX-License-Identifier: Apache-2.0
//! Status codes: section 5 of `docs/protocol.md`.

use std::fmt;

use crate::numbered::numbered;

/// Declares the codes once: number, value, name.
macro_rules! codes {
    ($($(#[$meta:meta])* $number:literal $value:ident $name:literal,)*) => {
        numbered! {
            /// Outcome of a request or of one segment. The numbers are those of the protocol.
            pub enum Code {
                $($(#[$meta])* $value = $number,)*
            }
        }

        impl Code {
            /// Every code, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$value,)*];

            /// Returns the name in the specification, logs and metrics.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)* }
            }
        }
    };
}

codes! {
    /// Done.
    0 Ok "OK",
    /// The service already has this segment.
    1 Duplicate "DUPLICATE",
    /// The shuffle was removed, or a shuffle of Spark's own push is finalized.
    2 TooLate "TOO_LATE",
    /// A higher generation is known.
    3 StaleGeneration "STALE_GENERATION",
    /// A higher application attempt is known.
    4 StaleAttempt "STALE_ATTEMPT",
    /// The daemon was restarted meanwhile.
    5 StaleIncarnation "STALE_INCARNATION",
    /// The application was never seen, has ended, or its lease ran out.
    6 UnknownApplication "UNKNOWN_APPLICATION",
    /// The shuffle was never registered here, or was removed.
    7 UnknownShuffle "UNKNOWN_SHUFFLE",
    /// Nothing was ever pushed for this partition.
    8 UnknownPartition "UNKNOWN_PARTITION",
    /// A shuffle of Spark's own push, which must be finalized first.
    9 NotFinalized "NOT_FINALIZED",
    /// The bytes arrived damaged.
    10 ChecksumMismatch "CHECKSUM_MISMATCH",
    /// No space is left.
    11 DiskFull "DISK_FULL",
    /// An input/output error.
    12 DiskFailed "DISK_FAILED",
    /// A limit was reached.
    13 Overloaded "OVERLOADED",
    /// A bug of the caller; the detail says which.
    14 Malformed "MALFORMED",
    /// Another protocol version.
    15 VersionMismatch "VERSION_MISMATCH",
    /// The daemon takes nothing new.
    16 Draining "DRAINING",
    /// Over a limit of section 2 of the protocol.
    17 TooLarge "TOO_LARGE",
    /// A bug of the server; its log says more.
    19 Internal "INTERNAL",
    /// The service holds other segments of a map attempt than the attempt pushed.
    20 LedgerMismatch "LEDGER_MISMATCH",
    /// The map attempt was aborted; or the segment, which has an original, could not be written.
    21 Aborted "ABORTED",
    /// A segment with the same name and other content is there.
    22 OtherContent "OTHER_CONTENT",
    /// The application has its share of the memory.
    23 Quota "QUOTA",
}

impl Code {
    /// Returns a refusal with this code; `detail` is for the log of the caller.
    pub fn because(self, detail: impl Into<String>) -> Refusal {
        Refusal {
            code: self,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A request that was not carried out. The code decides what the caller does; the detail is for its
/// log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {detail}")]
pub struct Refusal {
    /// The outcome.
    pub code: Code,
    /// Words for the log; never to be parsed.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 4 of the protocol has no `OTHER_ATTEMPT`. Its number stays free.
    const RETIRED: [u8; 1] = [18];

    #[test]
    fn every_number_but_those_that_are_retired_has_a_code_and_comes_back_from_it() {
        let numbers: Vec<u8> = Code::ALL.iter().map(|code| *code as u8).collect();
        let all = 0..=Code::Quota as u8;
        let used: Vec<u8> = all.filter(|number| !RETIRED.contains(number)).collect();
        assert_eq!(numbers, used);
        for code in Code::ALL {
            assert_eq!(Code::try_from(*code as u8), Ok(*code));
        }
        for other in RETIRED.into_iter().chain([24, 255]) {
            assert_eq!(Code::try_from(other), Err(other));
        }
    }

    #[test]
    fn the_table_of_the_specification_has_the_same_names() {
        let page = include_str!("../../../docs/protocol.md");
        for code in Code::ALL {
            let row = format!("| {} | {} |", *code as u8, code.name());
            assert!(page.contains(&row), "no row {row:?}");
        }
    }
}
