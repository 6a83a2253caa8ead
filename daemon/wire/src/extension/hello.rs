// SPDX-License-Identifier: Apache-2.0
//! The first words of a connection.
//!
//! ```text
//! Hello      64  i32 protocolVersion, string clientName
//! HelloReply 65  i32 protocolVersion, string serverVersion, i64 incarnation, Load, string zone
//! Load           i8 state, i64 memoryUsed, i64 memoryLimit, i64 diskFree, i64 diskTotal,
//!                i32 connections, i32 shuffles
//! ```

use lodestone_model::{Load, State};

use crate::codec::{byte, fields, message};

message! { strict, 64;
    /// The name of the client, and the version of the extension that it speaks.
    pub struct Hello {
        /// Must equal the server's.
        pub protocol_version: i32,
        /// For the log, such as `lodestone-spark/0.1.0 spark/4.1.2`.
        pub client_name: String,
    }
}

message! { strict, 65;
    /// The answer of the service.
    pub struct HelloReply {
        /// Version of the extension.
        pub protocol_version: i32,
        /// Version of the daemon.
        pub server_version: String,
        /// Random non-zero number of the daemon, drawn when it started.
        pub incarnation: i64,
        /// How busy it is.
        pub load: Load,
        /// The part of the cluster that fails as a whole with its host. Empty: not known.
        pub zone: String,
    }
}

byte!(State);

fields! { Load {
    state: State,
    memory_used: u64,
    memory_limit: u64,
    disk_free: u64,
    disk_total: u64,
    connections: u32,
    shuffles: u32,
} }
