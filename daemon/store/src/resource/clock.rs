// SPDX-License-Identifier: Apache-2.0
//! Time, for leases and for when to try a bad disk again.

use std::fmt::Debug;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock that never goes back.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since some fixed moment.
    fn now_ms(&self) -> u64;

    /// Milliseconds since 1970, which another process compares with its own. This time may go back.
    fn unix_ms(&self) -> u64;
}

/// The operating system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct OsClock {
    start: Instant,
}

impl Default for OsClock {
    fn default() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Clock for OsClock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }
}

/// A clock that stands still until a test moves it.
#[cfg(any(test, feature = "fake"))]
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: std::sync::atomic::AtomicU64,
}

#[cfg(any(test, feature = "fake"))]
impl ManualClock {
    /// Moves the clock forward.
    pub fn advance_ms(&self, ms: u64) {
        self.now_ms
            .fetch_add(ms, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(any(test, feature = "fake"))]
impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn unix_ms(&self) -> u64 {
        self.now_ms()
    }
}
