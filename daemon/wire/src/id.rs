// SPDX-License-Identifier: Apache-2.0
//! Identifiers whose form is checked where they enter the process.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;

use crate::codec::{Field, FieldError, Problem, Reader};

/// Longest application id in bytes. Ids become parts of file names, which have 255 bytes on most
/// file systems; what is longer than this is certainly no id.
pub const APP_ID_MAX_BYTES: usize = 256;

/// Spark's application id: 1 to 256 bytes that are safe inside a file name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(Arc<str>);

impl AppId {
    /// Checks the form: not empty, not too long, no `/`, `\` or NUL, neither `.` nor `..`.
    pub fn new(id: &str) -> Result<Self, Problem> {
        if id.is_empty() || id.len() > APP_ID_MAX_BYTES {
            return Err(Problem::BadAppId("must have 1 to 256 bytes"));
        }
        if id == "." || id == ".." || id.contains(['/', '\\', '\0']) {
            return Err(Problem::BadAppId("must not look like a path"));
        }
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for AppId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

impl Field for AppId {
    const MIN_BYTES: usize = 4 + 1;

    fn put(&self, out: &mut BytesMut) {
        crate::codec::put_str(&self.0, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self::new(input.str()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_be_paths_are_refused() {
        for bad in ["", ".", "..", "a/b", "a\\b", "a\0b", &"x".repeat(257)] {
            assert!(AppId::new(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["app-20260101-0001", "...", "local-1", &"x".repeat(256)] {
            assert!(AppId::new(good).is_ok(), "{good:?} was refused");
        }
    }
}
