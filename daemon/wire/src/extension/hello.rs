// SPDX-License-Identifier: Apache-2.0
//! The first words of a connection.
//!
//! ```text
//! Hello      64  i32 protocolVersion, string clientName
//! HelloReply 65  i32 protocolVersion, string serverVersion, i64 incarnation, Load
//! Load           i8 state, i64 memoryUsed, i64 memoryLimit, i64 diskFree, i64 diskTotal,
//!                i32 connections, i32 shuffles
//! ```

use crate::codec::{message, named_byte, record};

message! { strict, 64;
    /// Who calls, and which version of the extension it speaks.
    pub struct Hello {
        /// Must equal the server's.
        pub protocol_version: i32,
        /// For the log, such as `lodestone-spark/0.1.0 spark/4.1.2`.
        pub client_name: String,
    }
}

message! { strict, 65;
    /// Who answers.
    pub struct HelloReply {
        /// Version of the extension.
        pub protocol_version: i32,
        /// Version of the daemon.
        pub server_version: String,
        /// Random non-zero id of this start of the daemon.
        pub incarnation: i64,
        /// How busy it is.
        pub load: Load,
    }
}

named_byte! {
    /// Whether the daemon takes new work.
    pub enum State {
        /// All is well.
        Serving = 0,
        /// Takes nothing new.
        Draining = 1,
        /// No disk has space left.
        DiskFull = 2,
        /// No disk works.
        DiskFailed = 3,
    }
}

record! {
    /// How busy a daemon is: what a driver places shuffles by.
    pub struct Load {
        /// Whether it takes new work.
        pub state: State,
        /// Bytes of the budget in use.
        pub memory_used: i64,
        /// The budget.
        pub memory_limit: i64,
        /// Bytes free on its disks.
        pub disk_free: i64,
        /// Bytes that its disks have.
        pub disk_total: i64,
        /// Open connections.
        pub connections: u32,
        /// Shuffles that it keeps.
        pub shuffles: u32,
    }
}
