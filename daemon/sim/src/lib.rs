// SPDX-License-Identifier: Apache-2.0
//! The real store and the real request handlers, under a simulation that one number decides.
//!
//! A run has one thread. Disk, clock and network are fakes; what goes wrong with them, and what
//! clients do, is drawn from the seed. A model judges every answer. See `docs/simulation.md`.
//!
//! ```text
//! client    requests -> network   delayed, overtaken, doubled, lost
//! network   request  -> world     the real handlers and store, on `disk`
//! world     answer   -> model     what it must have been
//! run       draws what happens next, and notes all of it in its trace
//! fleet     several daemons, and the rules by which clients use them
//! ```

pub mod check;
pub mod client;
pub mod connections;
pub mod dice;
pub mod fleet;
pub mod model;
pub mod network;
pub mod run;
pub mod world;
