// SPDX-License-Identifier: Apache-2.0
//! The sign of life of an application: without it the daemon forgets the application.
//!
//! ```text
//! RenewLease 66  appId, i32 appAttempt, i64 incarnation (0 = any), i64 ttlMs
//! LeaseReply 67  i64 incarnation, i64 grantedTtlMs, Load
//! ```

use lodestone_model::{AppAttempt, AppId, Load};

use crate::codec::message;

message! { strict, 66;
    /// The application is alive and will renew within the time to live.
    pub struct RenewLease {
        /// The application.
        pub app: AppId,
        /// Application attempt, -1 where there is none.
        pub app_attempt: AppAttempt,
        /// Incarnation that the client expects, 0 for any.
        pub incarnation: i64,
        /// Time to live that it asks for.
        pub ttl_ms: i64,
    }
}

message! { strict, 67;
    /// The lease is extended.
    pub struct LeaseReply {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// Time to live that it got.
        pub granted_ttl_ms: i64,
        /// How busy the daemon is.
        pub load: Load,
    }
}
