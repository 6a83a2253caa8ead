// SPDX-License-Identifier: Apache-2.0
//! Newtypes of the ids of `docs/protocol.md` section 1, and the keys made of them.

use std::fmt;
use std::sync::Arc;

use crate::code::{Code, Refusal};

/// Longest application id in bytes. Ids become parts of file names, which have 255 bytes on most
/// file systems: a longer name is certainly no id.
const APP_ID_BYTES_MAX: usize = 256;

/// Longest of other names that are kept as the client gave them: executor ids, formats.
const NAME_BYTES_MAX: usize = 256;

/// `docs/protocol.md`, section 1: the sign between an application's id and its driver's number.
const DRIVER_SIGN: char = '~';

/// Digits of a driver's number, in hexadecimal.
const DRIVER_DIGITS: usize = 16;

/// Returns Spark's id of an application, without the number of the driver that the plugin added to
/// make it unique: `app~0123456789abcdef`.
pub fn spark_id(id: &str) -> &str {
    match id.rsplit_once(DRIVER_SIGN) {
        Some((app, driver)) if is_number(driver) => app,
        _ => id,
    }
}

fn is_number(driver: &str) -> bool {
    driver.len() == DRIVER_DIGITS && driver.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Refuses a name that is longer than any that Spark gives, or would break lines of the log, before
/// it is kept.
pub fn check_name(what: &str, name: &str) -> Result<(), Refusal> {
    if name.len() > NAME_BYTES_MAX {
        let bytes = name.len();
        let detail = format!("{what} of {bytes} bytes: {NAME_BYTES_MAX} are allowed");
        return Err(Code::Malformed.because(detail));
    }
    if name.contains(char::is_control) {
        return Err(Code::Malformed.because(format!("{what} with a control character")));
    }
    Ok(())
}

/// Spark's application id: 1 to 256 bytes that are safe inside a file name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(Arc<str>);

/// An application id of a forbidden form, and why it is forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAppId(pub &'static str);

impl AppId {
    /// Checks the form: not empty, not too long, no `/`, `\` or control character, neither `.` nor
    /// `..`.
    pub fn new(id: &str) -> Result<Self, BadAppId> {
        if id.is_empty() || id.len() > APP_ID_BYTES_MAX {
            return Err(BadAppId("must have 1 to 256 bytes"));
        }
        if !is_path_segment(id) {
            return Err(BadAppId(
                "must not look like a path, or have control characters",
            ));
        }
        Ok(Self(id.into()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<BadAppId> for Refusal {
    fn from(bad: BadAppId) -> Self {
        Code::Malformed.because(format!("application id {bad}"))
    }
}

/// Returns true if `name` can name a file or directory, and nothing outside of its parent.
pub fn is_path_segment(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c.is_control() || matches!(c, '/' | '\\'))
}

macro_rules! id {
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

id!(ShuffleId, i32, "`ShuffleDependency.shuffleId`.");
id!(
    GenerationId,
    i32,
    "Number of a generation: in mode merge `ShuffleDependency.shuffleMergeId`."
);
id!(
    AppAttempt,
    i32,
    "Application attempt; -1 where the cluster manager has none."
);
id!(
    MapId,
    i64,
    "Spark's task attempt id of a map task: no other attempt has it."
);
id!(
    MapIndex,
    u32,
    "Index of a map task, the same for all its attempts."
);
id!(ReduceId, u32, "Index of a reduce partition.");

impl MapId {
    /// The map id of blocks pushed by Spark's own protocol, which does not carry one.
    pub const UNKNOWN: Self = Self(-1);
}

impl AppAttempt {
    /// No attempt id.
    pub const NONE: Self = Self(-1);
}

/// One generation of one shuffle of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShuffleKey {
    /// The application.
    pub app: AppId,
    /// Its attempt; `None` stands for any attempt, where the message has none (Spark's fetch
    /// messages).
    pub attempt: Option<AppAttempt>,
    /// The shuffle.
    pub shuffle: ShuffleId,
    /// Its generation.
    pub generation: GenerationId,
}

impl fmt::Display for ShuffleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shuffle {}.{} of {}",
            self.shuffle, self.generation, self.app
        )
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

    /// Makes the range from `start` up to but not including `end`, as they are on the wire.
    pub fn new(start: u32, end: u32) -> Result<Self, Refusal> {
        match (start, end) {
            (0, end) if end == i32::MAX.unsigned_abs() => Ok(Self::ALL),
            (start, end) if start <= end => Ok(Self { start, end }),
            _ => Err(Code::Malformed.because(format!("map range {start}..{end}"))),
        }
    }

    /// Returns true if the range selects this map.
    pub fn contains(&self, map: MapIndex) -> bool {
        self.start <= map.0 && map.0 < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_endless_or_break_lines_of_the_log_are_refused() {
        let refusal = |name: &str| check_name("a format", name).unwrap_err();
        for bad in ['\0', '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{9b}'] {
            for name in [format!("{bad}"), format!("a{bad}"), format!("{bad}a")] {
                let refused = refusal(&name);
                assert_eq!(refused.code, Code::Malformed, "{name:?}");
                assert_eq!(refused.detail, "a format with a control character");
            }
        }
        let endless = refusal(&"x".repeat(257));
        assert_eq!(endless.detail, "a format of 257 bytes: 256 are allowed");
        for good in [
            "",
            "1",
            "spark-stream",
            "driver",
            "\u{e4} b",
            &"x".repeat(256),
        ] {
            assert!(check_name("a format", good).is_ok(), "{good:?} was refused");
        }
    }

    #[test]
    fn ids_that_could_be_paths_are_refused() {
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a\\b",
            "a\0b",
            "a\nb",
            "a\u{1b}[2Jb",
            &"x".repeat(257),
        ] {
            assert!(AppId::new(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["app-20260101-0001", "...", "local-1", &"x".repeat(256)] {
            assert!(AppId::new(good).is_ok(), "{good:?} was refused");
        }
    }
}
