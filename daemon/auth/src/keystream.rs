// SPDX-License-Identifier: Apache-2.0
//! AES in counter mode over all bytes of one direction of a connection, as Spark's
//! `CtrTransportCipher` has it: no frames of its own, and nothing that shows whether bytes were
//! changed on their way.

use std::fmt;

use aes::{Aes128, Aes256};
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

/// Bytes of an initialisation vector.
pub(crate) const IV_BYTES: usize = 16;

enum Cipher {
    Aes128(Ctr128BE<Aes128>),
    Aes256(Ctr128BE<Aes256>),
}

/// The key stream of one direction, at a position of it.
pub struct Keystream(Cipher);

impl Keystream {
    pub(crate) fn of_128_bits(key: &[u8; 16], iv: &[u8; IV_BYTES]) -> Self {
        Self(Cipher::Aes128(Ctr128BE::new(key.into(), iv.into())))
    }

    pub(crate) fn of_256_bits(key: &[u8; 32], iv: &[u8; IV_BYTES]) -> Self {
        Self(Cipher::Aes256(Ctr128BE::new(key.into(), iv.into())))
    }

    /// Encrypts or decrypts the next bytes of the direction.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        match &mut self.0 {
            Cipher::Aes128(cipher) => cipher.apply_keystream(bytes),
            Cipher::Aes256(cipher) => cipher.apply_keystream(bytes),
        }
    }

    /// Encrypts or decrypts bytes that begin at a position of the direction.
    pub fn apply_at(&mut self, position: u64, bytes: &mut [u8]) {
        match &mut self.0 {
            Cipher::Aes128(cipher) => cipher.seek(position),
            Cipher::Aes256(cipher) => cipher.seek(position),
        }
        self.apply(bytes);
    }
}

impl fmt::Debug for Keystream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keystream(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_encrypted_again_from_their_position_are_the_same() {
        let mut stream = Keystream::of_256_bits(&[7; 32], &[0xff; IV_BYTES]);
        let plain: Vec<u8> = (0..1000).map(|byte| byte as u8).collect();
        let mut whole = plain.clone();
        stream.apply(&mut whole);
        for position in [0, 1, 15, 16, 17, 500, 999] {
            let mut rest = plain[position..].to_vec();
            stream.apply_at(position as u64, &mut rest);
            assert_eq!(rest, whole[position..], "from {position}");
        }
    }
}
