// SPDX-License-Identifier: Apache-2.0
//! Time for histograms. The clock of the store counts milliseconds, which is too coarse here, and
//! no decision depends on these times.

use std::time::Instant;

/// The moment at which the measurement began.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
