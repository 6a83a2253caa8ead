// SPDX-License-Identifier: Apache-2.0
//! Messages encrypted with AES in Galois/counter mode, as Spark's `GcmTransportCipher` has them
//! (`spark.network.crypto.cipher=AES/GCM/NoPadding`). Each has a key of its own, and shows whether
//! it was changed on its way; nothing shows whether one is missing, or comes twice. The format is
//! that of Tink's `AesGcmHkdfStreaming`:
//!
//! ```text
//! i64 bytes of the message, with these; i8 bytes of the head, with this;
//! salt, as long as the key; 7 bytes that begin each nonce; segments
//! segment: up to 32,752 bytes, encrypted; 16 bytes of tag. All but the last are full.
//! ```
//!
//! The key is HKDF-SHA256 of the key of the connection, with the salt and the first 8 bytes. The
//! nonce ends with the number of the segment (i32), and 1 for the last one.

use std::fmt;
use std::iter::repeat;

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce, Tag};
use bytes::BufMut;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

mod opener;

pub use opener::{BadMessage, Opener};

const LENGTH_BYTES: usize = 8;
const PREFIX_BYTES: usize = 7;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Bytes of a full segment, with its tag.
const SEGMENT_BYTES: usize = 32 << 10;

/// Most bytes that one segment encrypts.
pub const PLAIN_BYTES: usize = SEGMENT_BYTES - TAG_BYTES;

/// Most bytes that are around those of a message of one segment.
pub const AROUND_BYTES: usize = LENGTH_BYTES + 1 + 32 + PREFIX_BYTES + TAG_BYTES;

/// The key of a connection, for both directions.
#[derive(Clone)]
pub(crate) enum ConnectionKey {
    Bits128(Zeroizing<[u8; 16]>),
    Bits256(Zeroizing<[u8; 32]>),
}

impl ConnectionKey {
    /// Bytes of the key, and of each salt.
    fn bytes(&self) -> usize {
        match self {
            Self::Bits128(key) => key.len(),
            Self::Bits256(key) => key.len(),
        }
    }

    /// Bytes of the head of each message: the first of them says it.
    fn head_bytes(&self) -> usize {
        1 + self.bytes() + PREFIX_BYTES
    }

    fn of_message(&self, salt: &[u8], length: u64) -> Segments {
        match self {
            Self::Bits128(key) => {
                Segments::Aes128(Aes128Gcm::new((&*derived(key, salt, length)).into()))
            }
            Self::Bits256(key) => {
                Segments::Aes256(Aes256Gcm::new((&*derived(key, salt, length)).into()))
            }
        }
    }
}

fn derived<const N: usize>(key: &[u8; N], salt: &[u8], length: u64) -> Zeroizing<[u8; N]> {
    let mut derived = Zeroizing::new([0; N]);
    let expanded =
        Hkdf::<Sha256>::new(Some(salt), key).expand(&length.to_be_bytes(), &mut *derived);
    match expanded {
        Ok(()) => derived,
        Err(_) => unreachable!("keys of {N} bytes are shorter than the longest ones"),
    }
}

/// The cipher of one message.
enum Segments {
    Aes128(Aes128Gcm),
    Aes256(Aes256Gcm),
}

impl Segments {
    fn encrypt(&self, nonce: [u8; NONCE_BYTES], bytes: &mut [u8]) -> Tag {
        let (nonce, count) = (Nonce::from(nonce), bytes.len());
        let sealed = match self {
            Self::Aes128(cipher) => cipher.encrypt_inout_detached(&nonce, &[], bytes.into()),
            Self::Aes256(cipher) => cipher.encrypt_inout_detached(&nonce, &[], bytes.into()),
        };
        match sealed {
            Ok(tag) => tag,
            Err(_) => unreachable!("{count} bytes are not too many"),
        }
    }

    /// Decrypts bytes, or leaves them as they are if the tag is not theirs.
    fn decrypt(&self, nonce: [u8; NONCE_BYTES], bytes: &mut [u8], tag: &Tag) -> bool {
        let nonce = Nonce::from(nonce);
        match self {
            Self::Aes128(cipher) => cipher.decrypt_inout_detached(&nonce, &[], bytes.into(), tag),
            Self::Aes256(cipher) => cipher.decrypt_inout_detached(&nonce, &[], bytes.into(), tag),
        }
        .is_ok()
    }
}

fn nonce(prefix: [u8; PREFIX_BYTES], number: u32, is_last: bool) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    let mut free = &mut nonce[..];
    free.put_slice(&prefix);
    free.put_u32(number);
    free.put_u8(u8::from(is_last));
    nonce
}

/// Encrypts what one end sends.
pub struct Sealer {
    key: ConnectionKey,
    /// 32 bytes that the other end does not use for the same.
    random: [u8; 32],
    sealed: u64,
}

impl Sealer {
    pub(crate) fn new(key: ConnectionKey, random: [u8; 32]) -> Self {
        Self {
            key,
            random,
            sealed: 0,
        }
    }

    /// Where the bytes begin that [`Sealer::seal`] encrypts.
    pub fn begin(&self) -> usize {
        LENGTH_BYTES + self.key.head_bytes()
    }

    /// Makes a message of `count` bytes, at most [`PLAIN_BYTES`], that begin at [`Sealer::begin`].
    /// Returns its length: it begins where the buffer does. `None` if the buffer is too short.
    pub fn seal(&mut self, buffer: &mut [u8], count: usize) -> Option<usize> {
        let length = self.begin() + count + TAG_BYTES;
        let (mut head, rest) = buffer
            .get_mut(..length)?
            .split_at_mut_checked(self.begin())?;
        let (plain, mut tag) = rest.split_at_mut_checked(count)?;
        let salt = self.next_salt();
        let prefix = [0; PREFIX_BYTES];
        let cipher = self.key.of_message(&salt, length as u64);
        tag.put_slice(&cipher.encrypt(nonce(prefix, 0, true), plain));
        head.put_u64(length as u64);
        head.put_u8(self.key.head_bytes() as u8);
        head.put_slice(&salt);
        head.put_slice(&prefix);
        Some(length)
    }

    /// Another one for each message: it counts them. So each has another key, and its nonces can
    /// be the same.
    fn next_salt(&mut self) -> Vec<u8> {
        let count = self.sealed.to_be_bytes();
        self.sealed += 1;
        let counts = count.into_iter().chain(repeat(0));
        let salt = self
            .random
            .iter()
            .zip(counts)
            .map(|(byte, count)| byte ^ count);
        salt.take(self.key.bytes()).collect()
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(..)")
    }
}

#[cfg(test)]
mod tests;
