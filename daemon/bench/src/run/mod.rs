// SPDX-License-Identifier: Apache-2.0
//! Rounds of phases, server by server.
//!
//! ```text
//! push, fetch   one connection's part of a phase
//! tally         what all connections count
//! phase         all connections at work, and what that took
//! trouble       what is done to the server meanwhile
//! scene         a push, its end, a fetch of one server
//! rounds        many of them, in turn
//! files         map outputs on disk; files that leave the page cache
//! ```

pub mod fetch;
pub mod files;
pub mod phase;
pub mod push;
pub mod rounds;
pub mod scene;
pub mod tally;
pub mod trouble;
