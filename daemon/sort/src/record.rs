// SPDX-License-Identifier: Apache-2.0
//! The bytes of a record.
//!
//! ```text
//!          key   break    number in hex   break          filler, 4 x each digit  break
//! binary   10    00 11    32              88 99 AA BB    12 digits               CC DD EE FF
//! ascii    10    2 blanks 32              2 blanks       13 digits               CR LF
//! ```

/// Bytes of a record.
pub const RECORD_BYTES: usize = 100;

/// Bytes that are compared.
pub const KEY_BYTES: usize = 10;

const DIGITS: [u8; 16] = *b"0123456789ABCDEF";

/// Values of a byte of an ASCII key: blank to tilde.
const ASCII_KEYS: u64 = 95;

/// The two kinds of records of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Keys of any bytes.
    Binary,
    /// Records that are lines of text.
    Ascii,
}

impl Form {
    /// The record of this number. `random` is its number in the sequence.
    pub fn record(self, random: u128, number: u128) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        let (key, rest) = record.split_at_mut(KEY_BYTES);
        let (first_break, rest) = rest.split_at_mut(2);
        let (hex, rest) = rest.split_at_mut(32);
        put_digits(number, hex, 1);
        match self {
            Self::Binary => {
                key.copy_from_slice(&random.to_be_bytes()[..KEY_BYTES]);
                first_break.copy_from_slice(&[0x00, 0x11]);
                let (second_break, rest) = rest.split_at_mut(4);
                second_break.copy_from_slice(&[0x88, 0x99, 0xAA, 0xBB]);
                let (filler, last_break) = rest.split_at_mut(48);
                put_digits(random, filler, 4);
                last_break.copy_from_slice(&[0xCC, 0xDD, 0xEE, 0xFF]);
            }
            Self::Ascii => {
                put_ascii_key(random, key);
                first_break.copy_from_slice(b"  ");
                let (second_break, rest) = rest.split_at_mut(2);
                second_break.copy_from_slice(b"  ");
                let (filler, last_break) = rest.split_at_mut(52);
                put_digits(random, filler, 4);
                last_break.copy_from_slice(b"\r\n");
            }
        }
        record
    }
}

/// Writes the last hexadecimal digits of a number, each this many times.
fn put_digits(number: u128, out: &mut [u8], times: usize) {
    let mut left = number;
    for bytes in out.rchunks_exact_mut(times) {
        let digit = DIGITS.get((left & 0xF) as usize).copied();
        bytes.fill(digit.unwrap_or_default());
        left >>= 4;
    }
}

/// Eight digits of base 95 from the higher half, two from the lower, lowest first.
fn put_ascii_key(random: u128, key: &mut [u8]) {
    let (from_high, from_low) = key.split_at_mut(8);
    for (half, out) in [
        ((random >> 64) as u64, from_high),
        (random as u64, from_low),
    ] {
        let mut left = half;
        for byte in out {
            *byte = b' ' + (left % ASCII_KEYS) as u8;
            left /= ASCII_KEYS;
        }
    }
}
