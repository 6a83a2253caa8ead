// SPDX-License-Identifier: Apache-2.0
//! The real daemon, as a process or inside the test, and small raw clients on the wire crate.

pub(crate) mod certified;
pub(crate) mod cipher;
pub(crate) mod client;
pub(crate) mod daemon;
pub(crate) mod inside;
pub(crate) mod pipe;
pub(crate) mod proof;
pub(crate) mod trap;

pub(crate) use client::Client;
pub(crate) use daemon::Daemon;

use lodestone_store::SeededRandom;

/// Random numbers with a seed that a failing test shows.
pub(crate) struct Random(SeededRandom);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        eprintln!("seed {seed}");
        Self(SeededRandom::new(seed))
    }

    /// With the seed of `LODESTONE_SEED`, or one of this process.
    pub(crate) fn any() -> Self {
        let given = std::env::var("LODESTONE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        Self::new(given.unwrap_or_else(|| u64::from(std::process::id()) * 0x9E37_79B9))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        self.0.bytes(length)
    }
}
