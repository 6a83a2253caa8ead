// SPDX-License-Identifier: Apache-2.0
//! How fast the bytes of a request come for which memory is reserved. Others may wait for that
//! memory: a client that is too slow loses its connection.

use std::time::Duration;

use lodestone_planted::{self as planted, Bug};
use tokio::time::Instant;

use super::clock;

/// A client is judged after each such time.
pub const WINDOW: Duration = Duration::from_secs(10);

/// So many bytes must have come by then: 64 KiB a second.
pub const LEAST_BYTES: usize = 10 * (64 << 10);

#[derive(Debug)]
pub(super) struct Pace {
    end: Instant,
    bytes: usize,
}

impl Pace {
    pub(super) fn begin() -> Self {
        Self {
            end: clock::now() + WINDOW,
            bytes: 0,
        }
    }

    /// Counts bytes that came.
    pub(super) fn came(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// When the client is judged. Bytes that are there by then are read first, also if the daemon
    /// stood still meanwhile.
    pub(super) fn end(&self) -> Instant {
        self.end
    }

    /// Judges the client, from which nothing more is there to be read. Returns false if it is too
    /// slow.
    pub(super) fn goes_on(&mut self) -> bool {
        let is_fast = self.bytes >= LEAST_BYTES || planted::is(Bug::SlowRequestKept);
        if is_fast {
            *self = Self::begin();
        }
        is_fast
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_goes_on_as_long_as_enough_comes_in_each_window() {
        let mut pace = Pace::begin();
        for _ in 0..3 {
            let before = pace.end();
            pace.came(LEAST_BYTES - 1);
            advance(WINDOW * 2).await;
            pace.came(1);
            assert!(pace.goes_on());
            assert_eq!(pace.end() - before, WINDOW * 2, "a new window begins");
        }
        pace.came(LEAST_BYTES - 1);
        assert!(!pace.goes_on());
    }
}
