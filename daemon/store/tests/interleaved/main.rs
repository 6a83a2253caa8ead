// SPDX-License-Identifier: Apache-2.0
//! Threads of one store, in orders that a test decides: at each lock and atomic of the store
//! `shuttle` chooses which thread runs next. No two threads run at the same time.
//!
//! `LODESTONE_SCHEDULES` is the number of orders of each test and way to choose. A test that
//! fails prints its seed, which the variable `SHUTTLE_RANDOM_SEED` repeats.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop")]
#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on must stop"
)]

mod clients;
mod ends;
mod explore;
mod planted;
mod pushes;
mod registrations;
mod spark;

#[expect(dead_code, reason = "other tests of the store need more of it")]
#[path = "../store/attempt.rs"]
mod attempt;
#[expect(dead_code, reason = "other tests of the store need more of it")]
#[path = "../store/world.rs"]
mod world;
