// SPDX-License-Identifier: Apache-2.0
//! The time, for measuring.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Instant);

impl Moment {
    /// This one.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// How long ago it was.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// How much later it was than another; nothing if it was earlier.
    pub fn since(self, other: Self) -> Duration {
        self.0.saturating_duration_since(other.0)
    }
}

/// Seconds since 1970, for the report.
pub fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
