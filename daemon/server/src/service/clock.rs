// SPDX-License-Identifier: Apache-2.0
//! The clock of the runtime, by which connections measure time-outs. Tests and simulations stop it
//! and move it.

use tokio::time::Instant;

/// The time on this clock.
pub fn now() -> Instant {
    Instant::now()
}
