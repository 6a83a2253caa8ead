// SPDX-License-Identifier: Apache-2.0
//! The real daemon, as a process or inside the test, and a small raw client on the wire crate.

pub(crate) mod client;
pub(crate) mod daemon;
pub(crate) mod inside;

pub(crate) use client::Client;
pub(crate) use daemon::Daemon;

/// Random numbers with a seed that a failing test shows (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        eprintln!("seed {seed}");
        Self(seed)
    }

    /// With the seed of `LODESTONE_SEED`, or one of this process.
    pub(crate) fn any() -> Self {
        let given = std::env::var("LODESTONE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        Self::new(given.unwrap_or_else(|| u64::from(std::process::id()) * 0x9E37_79B9))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}
