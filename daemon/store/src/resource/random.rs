// SPDX-License-Identifier: Apache-2.0
//! Randomness: the incarnation id is all that the store needs it for.

use std::fmt::Debug;
use std::io;

/// A source of random numbers.
pub trait Random: Send + Sync + Debug {
    /// 64 random bits.
    fn next_u64(&self) -> io::Result<u64>;
}

/// The operating system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn next_u64(&self) -> io::Result<u64> {
        let mut bytes = [0_u8; 8];
        // Up to 256 bytes come all at once or not at all (getrandom(2)).
        let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        assert_eq!(count, bytes.len());
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// Always the same numbers for the same seed (SplitMix64).
/// Always the same numbers for the same seed (SplitMix64).
#[cfg(any(test, feature = "fake"))]
#[derive(Debug)]
pub struct SeededRandom {
    state: std::sync::atomic::AtomicU64,
}

#[cfg(any(test, feature = "fake"))]
impl SeededRandom {
    /// Starts the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.into() }
    }

    /// 64 random bits.
    pub fn bits(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let before = self
            .state
            .fetch_add(STEP, std::sync::atomic::Ordering::SeqCst);
        lodestone_model::mix(before)
    }

    /// Random bytes.
    pub fn bytes(&self, count: usize) -> Vec<u8> {
        let words = (0..count.div_ceil(8)).map(|_| self.bits().to_le_bytes());
        let mut bytes = words.flatten().collect::<Vec<_>>();
        bytes.truncate(count);
        bytes
    }
}

#[cfg(any(test, feature = "fake"))]
impl Random for SeededRandom {
    fn next_u64(&self) -> io::Result<u64> {
        Ok(self.bits())
    }
}
