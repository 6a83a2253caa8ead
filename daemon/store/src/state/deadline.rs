// SPDX-License-Identifier: Apache-2.0
//! One limit for several waits together.

use std::cell::Cell;
use std::time::Duration;

use crate::resource::clock::Clock;

/// The time in which one thread waits for several disks.
pub(crate) struct Deadline<'a> {
    clock: &'a dyn Clock,
    end_ms: u64,
    /// A wait for all that was left was in vain.
    is_over: Cell<bool>,
}

impl<'a> Deadline<'a> {
    /// Begins now.
    pub(crate) fn after(clock: &'a dyn Clock, wait: Duration) -> Self {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self {
            clock,
            end_ms: clock.now_ms().saturating_add(wait_ms),
            is_over: Cell::new(wait.is_zero()),
        }
    }

    /// How long the next wait may be.
    pub(crate) fn left(&self) -> Duration {
        let left_ms = self.end_ms.saturating_sub(self.clock.now_ms());
        match self.is_over.get() {
            true => Duration::ZERO,
            false => Duration::from_millis(left_ms),
        }
    }

    /// Nothing is left, whatever the clock says: a wait for it was in vain.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
    }
}
