// SPDX-License-Identifier: Apache-2.0
//! The simulation, run: fixed and fresh seeds, scenarios by name, planted bugs.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

mod connections;
mod fleet;
mod planted;
mod scenarios;
mod seeds;
