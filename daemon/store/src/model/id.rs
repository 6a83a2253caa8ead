// SPDX-License-Identifier: Apache-2.0
//! Newtypes of the ids of `docs/protocol.md` section 1, and the keys made of them.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::code::{Code, Refusal};

/// Longest application id in bytes.
const APP_ID_BYTES_MAX: usize = 256;

/// Longest of other names that are kept as they were told: executor ids, formats.
const NAME_BYTES_MAX: usize = 256;

/// Refuses a name that is longer than any that Spark gives, before it is kept.
pub fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    if name.len() > NAME_BYTES_MAX {
        let bytes = name.len();
        let detail = format!("{what} of {bytes} bytes: {NAME_BYTES_MAX} are allowed");
        return Err(Code::Malformed.because(detail));
    }
    Ok(())
}

/// Spark's application id, checked to be one harmless path segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(Arc<str>);

impl AppId {
    /// Accepts 1 to 256 bytes without `/`, `\` and NUL that are not `.` or `..`.
    pub fn new(id: &str) -> Result<Self, Refusal> {
        if id.is_empty() || id.len() > APP_ID_BYTES_MAX {
            return Err(Code::Malformed.because(format!("application id has {} bytes", id.len())));
        }
        if !is_path_segment(id) {
            return Err(Code::Malformed.because("application id is no plain name"));
        }
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True if `name` can name a file or directory and nothing outside of its parent.
pub(crate) fn is_path_segment(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

macro_rules! signed_id {
    ($name:ident, $inner:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! index {
    ($name:ident, $what:literal, $doc:literal) => {
        signed_id!($name, u32, $doc);

        impl TryFrom<i32> for $name {
            type Error = Refusal;

            fn try_from(value: i32) -> Result<Self, Refusal> {
                u32::try_from(value)
                    .map(Self)
                    .map_err(|_| Code::Malformed.because(format!("{} {value} is negative", $what)))
            }
        }
    };
}

signed_id!(ShuffleId, i32, "`ShuffleDependency.shuffleId`.");
signed_id!(
    MergeId,
    i32,
    "`ShuffleDependency.shuffleMergeId`: the generation of a shuffle."
);
signed_id!(
    AppAttempt,
    i32,
    "Application attempt; -1 where the cluster manager has none."
);
signed_id!(
    MapId,
    i64,
    "Task attempt id of a map task: two attempts are two writers."
);
index!(MapIndex, "map index", "Index of a map partition.");
index!(ReduceId, "reduce id", "Index of a reduce partition.");

impl MapId {
    /// The map id of blocks pushed by Spark's own protocol, which does not carry one.
    pub const UNKNOWN: Self = Self(-1);
}

impl AppAttempt {
    /// No attempt id.
    pub const NONE: Self = Self(-1);
}

/// Random non-zero id of one daemon start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub(crate) NonZeroU64);

impl Incarnation {
    /// The id as it travels on the wire.
    pub fn as_i64(self) -> i64 {
        self.0.get().cast_signed()
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One generation of one shuffle of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShuffleKey {
    /// The application.
    pub app: AppId,
    /// Its attempt; `None` where the message does not carry one (Spark's fetch messages): whichever
    /// is current.
    pub attempt: Option<AppAttempt>,
    /// The shuffle.
    pub shuffle: ShuffleId,
    /// Its generation.
    pub merge: MergeId,
}

impl fmt::Display for ShuffleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shuffle {}.{} of {}", self.shuffle, self.merge, self.app)
    }
}

/// Half-open range of map indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRange {
    start: u32,
    end: u32,
}

impl MapRange {
    /// Every map index: what `(0, 2147483647)` means on the wire.
    pub const ALL: Self = Self {
        start: 0,
        end: u32::MAX,
    };

    /// The maps from `start` up to but not including `end`, as they are on the wire.
    pub fn new(start: i32, end: i32) -> Result<Self, Refusal> {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(0), Ok(end)) if end == i32::MAX.unsigned_abs() => Ok(Self::ALL),
            (Ok(start), Ok(end)) if start <= end => Ok(Self { start, end }),
            _ => Err(Code::Malformed.because(format!("map range {start}..{end}"))),
        }
    }

    /// True if the range selects this map.
    pub fn contains(&self, map: MapIndex) -> bool {
        self.start <= map.0 && map.0 < self.end
    }
}
