// SPDX-License-Identifier: Apache-2.0
//! How long requests took.

use std::sync::Mutex;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::locked;

/// Digits that are kept: runs differ by more than a thousandth.
const DIGITS: u8 = 3;

/// A longer time counts as this long.
const MOST_MICROS: u64 = 3_600 * 1_000_000;

/// Latencies of all connections of a phase.
#[derive(Debug)]
pub struct Latencies(Mutex<Option<Histogram<u64>>>);

/// Milliseconds that this percentage of the requests took at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of them.
    pub p50_ms: f64,
    /// All but one in twenty.
    pub p95_ms: f64,
    /// All but one in a hundred.
    pub p99_ms: f64,
    /// All.
    pub max_ms: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        // The bounds are constants of a valid histogram.
        let histogram = Histogram::new_with_max(MOST_MICROS, DIGITS);
        Self(Mutex::new(histogram.ok()))
    }
}

impl Latencies {
    /// One more.
    pub fn record(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(MOST_MICROS);
        if let Some(histogram) = locked(&self.0).as_mut() {
            histogram.saturating_record(micros);
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        locked(&self.0).as_ref().map_or(0, Histogram::len)
    }

    /// Returns the percentiles.
    pub fn percentiles(&self) -> Percentiles {
        let held = locked(&self.0);
        let Some(histogram) = held.as_ref() else {
            return Percentiles::default();
        };
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Percentiles {
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            max_ms: histogram.max() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_recorded_times() {
        let latencies = Latencies::default();
        for micros in 1..=10_000 {
            latencies.record(Duration::from_micros(micros * 100));
        }
        let Percentiles {
            p50_ms,
            p95_ms,
            p99_ms,
            max_ms,
        } = latencies.percentiles();
        let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 2e-3;
        assert!(
            close(p50_ms, 500.0) && close(p95_ms, 950.0),
            "{p50_ms} {p95_ms}"
        );
        assert!(
            close(p99_ms, 990.0) && close(max_ms, 1000.0),
            "{p99_ms} {max_ms}"
        );
        latencies.record(Duration::from_secs(1 << 40));
        assert_eq!(latencies.count(), 10_001);
    }
}
