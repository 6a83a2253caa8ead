// SPDX-License-Identifier: Apache-2.0
//! Rounds of phases, server by server.
//!
//! ```text
//! push, fetch   one connection's part of a phase
//! fetch_work    the blocks that all connections fetch
//! tally         the counters of all connections
//! phase         all connections at work, and their resources
//! trouble       a server that is killed or paused meanwhile
//! scene         a push, its end, a fetch of one server
//! rounds        many of them, in turn
//! files         map outputs on disk; files that leave the page cache
//! ```

pub mod fetch;
pub mod fetch_work;
pub mod files;
pub mod phase;
pub mod push;
pub mod rounds;
pub mod scene;
pub mod tally;
pub mod trouble;
