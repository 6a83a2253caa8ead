// SPDX-License-Identifier: Apache-2.0
//! The bench against real daemons, and against servers that are wrong.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod example;
mod faults;
mod program;
mod right;
mod support;
mod throttle;
