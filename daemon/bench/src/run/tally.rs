// SPDX-License-Identifier: Apache-2.0
//! The counters that the connections of a phase share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lodestone_sort::progress::Progress;

use crate::measure::counts::Counts;
use crate::measure::latency::Latencies;

/// Counters of a phase.
#[derive(Debug)]
pub struct Tally {
    /// Bytes of blocks that were acknowledged or have come back, also on a terminal.
    pub progress: Arc<Progress>,
    /// Latencies of pushes, and of chunks.
    pub latencies: Latencies,
    /// Blocks that were not merged, by reason.
    pub refused: Counts,
    /// Bytes that slow clients sent or got, which are no part of the work.
    pub slow_bytes: AtomicU64,
}

impl Tally {
    /// Nothing counted yet.
    pub fn of(progress: Arc<Progress>) -> Arc<Self> {
        Arc::new(Self {
            progress,
            latencies: Latencies::default(),
            refused: Counts::default(),
            slow_bytes: AtomicU64::new(0),
        })
    }

    /// Returns the bytes that slow clients have sent or got up to now.
    pub fn slow_bytes(&self) -> u64 {
        self.slow_bytes.load(Ordering::Relaxed)
    }
}

/// A queue of work; each connection takes the next item.
#[derive(Debug)]
pub struct Queue<T> {
    items: Vec<T>,
    taken: AtomicUsize,
}

impl<T: Copy> Queue<T> {
    /// Returns a queue of these items.
    pub fn of(items: Vec<T>) -> Self {
        let taken = AtomicUsize::new(0);
        Self { items, taken }
    }

    /// Takes the next item, which no other connection gets.
    pub fn take(&self) -> Option<T> {
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        self.items.get(index).copied()
    }

    /// Returns any item: for connections that only make noise.
    pub fn any(&self, number: usize) -> Option<T> {
        let index = number.checked_rem(self.items.len())?;
        self.items.get(index).copied()
    }
}
