// SPDX-License-Identifier: Apache-2.0
//! The end of a map attempt in remote mode: all of it counts, or nothing. Both are answered with `Done`,
//! and may be repeated.
//!
//! ```text
//! CommitMap 89  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!               i32 mapIndex, i64 mapId, i64 segments, i64 checksum
//! AbortMap  90  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!               i32 mapIndex, i64 mapId
//! ```

use super::MergeKey;
use crate::codec::message;

message! { strict, 89;
    /// Make the attempt visible, if this is what is held of it.
    pub struct CommitMap {
        /// Which shuffle.
        pub key: MergeKey,
        /// Index of the map partition.
        pub map_index: u32,
        /// Spark's task attempt id.
        pub map_id: i64,
        /// Segments that were answered with `OK` or `DUPLICATE`.
        pub segments: i64,
        /// Checksum of their ledger.
        pub checksum: i64,
    }
}

message! { strict, 90;
    /// Drop what is held of the attempt, and take nothing more of it.
    pub struct AbortMap {
        /// Which shuffle.
        pub key: MergeKey,
        /// Index of the map partition.
        pub map_index: u32,
        /// Spark's task attempt id.
        pub map_id: i64,
    }
}
