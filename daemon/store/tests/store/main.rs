// SPDX-License-Identifier: Apache-2.0
//! The store's promises, by theme. All but `os` run on the fake filesystem.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop")]
#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on must stop"
)]

mod attempt;
mod bad_disk;
mod concurrent;
mod corpus;
mod disk;
mod foreign;
mod handover;
mod late_blocks;
mod life;
mod limits;
mod memory;
mod merged;
mod open;
mod os;
mod registrations;
mod remote;
mod removed_files;
mod repeats;
mod reserve;
mod restart;
mod shortage;
mod spark;
mod stalled;
mod steps;
mod without_waiting;
mod world;
