// SPDX-License-Identifier: Apache-2.0
//! The service is about to end: it takes nothing new, and serves what it holds until no application
//! needs it. An operator asks for it (`lodestone drain`), and only from the service's own host.
//!
//! ```text
//! Drain    91  i8 wish (0 look, 1 begin or continue, 2 cancel, 3 leave)
//! Holdings 92  i64 incarnation, bool draining, i32 shuffles, i32 applications, i64 bytes,
//!              i64 unwrittenBytes, i32 executors, i64 leaseLeftMs
//! ```

use lodestone_model::HeldData;

use crate::codec::{fields, message, named_byte};

named_byte! {
    /// The wish of the operator.
    pub enum Wish {
        /// Nothing but an answer. From any host.
        Look = 0,
        /// Take nothing new from now on, and write some of the data in memory to disk. The client
        /// repeats the request until all of it is on disk.
        Begin = 1,
        /// Take new work again.
        Cancel = 2,
        /// End, if nothing is held any more.
        Leave = 3,
    }
}

message! { strict, 91;
    /// Drain the service.
    pub struct Drain {
        /// The wish of the operator.
        pub wish: Wish,
    }
}

message! { strict, 92;
    /// What would be lost with the service, without merged shuffles: their blocks have originals.
    pub struct Holdings {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// The data of the service.
        pub held: HeldData,
    }
}

fields! { HeldData {
    draining: bool,
    shuffles: u32,
    applications: u32,
    bytes: u64,
    unwritten_bytes: u64,
    executors: u32,
    lease_left_ms: u64,
} }
