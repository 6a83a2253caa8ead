// SPDX-License-Identifier: Apache-2.0
//! The secret of an application.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Longest secret. Those that Spark makes have 64 bytes.
pub const SECRET_BYTES_MAX: usize = 4 << 10;

/// Where Spark's encoder breaks lines.
const LINE_BYTES: usize = 76;

/// What both ends of a connection know. It is in no log: `Debug` does not show it, and its memory
/// is overwritten when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

/// Why a text is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// Nothing but line ends.
    #[error("it is empty")]
    Empty,
    /// Too long.
    #[error("it has more than {SECRET_BYTES_MAX} bytes")]
    TooLong,
    /// Other than text.
    #[error("it is not UTF-8")]
    NotUtf8,
}

impl Secret {
    /// Takes the content of a file. Editors and `echo` add the end of a line, which is no part of
    /// the secret.
    pub fn new(content: &[u8]) -> Result<Self, BadSecret> {
        let text = std::str::from_utf8(content).map_err(|_| BadSecret::NotUtf8)?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        match text.len() {
            0 => Err(BadSecret::Empty),
            length if length > SECRET_BYTES_MAX => Err(BadSecret::TooLong),
            _ => Ok(Self(Zeroizing::new(text.to_owned()))),
        }
    }

    /// Returns a secret that nobody knows, of these random bytes.
    pub fn unknown(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(STANDARD.encode(bytes)))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The password of DIGEST-MD5 (`SparkSaslServer.encodePassword`): in Base64, by an encoder of
    /// Netty's that breaks lines. A secret of more than 57 bytes has line breaks in its password.
    pub(crate) fn password(&self) -> Zeroizing<String> {
        let encoded = Zeroizing::new(STANDARD.encode(self.as_bytes()));
        let mut password = Zeroizing::new(String::with_capacity(encoded.len() + 64));
        for (place, letter) in encoded.chars().enumerate() {
            if place > 0 && place.is_multiple_of(LINE_BYTES) {
                password.push('\n');
            }
            password.push(letter);
        }
        password
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_end_of_a_file_is_no_part_of_its_secret() {
        for content in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            let secret = Secret::new(content.as_bytes()).unwrap();
            assert_eq!(secret.as_bytes(), b"s3cret", "{content:?}");
        }
        let secret = Secret::new(b" s3cret\n\n").unwrap();
        assert_eq!(secret.as_bytes(), b" s3cret\n", "only one line end");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert_eq!(Secret::new(b"\n").unwrap_err(), BadSecret::Empty);
        assert_eq!(Secret::new(b"\xff").unwrap_err(), BadSecret::NotUtf8);
        let long = vec![b'a'; SECRET_BYTES_MAX + 1];
        assert_eq!(Secret::new(&long).unwrap_err(), BadSecret::TooLong);
    }

    #[test]
    fn a_secret_does_not_show_in_a_log() {
        let secret = Secret::new(b"s3cret").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
