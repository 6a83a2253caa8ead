// SPDX-License-Identifier: Apache-2.0
//! The end of appends, and what of it counts. Both may be repeated.
//!
//! ```text
//! FinalizeMerge      72  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId
//! RetainAttempts     95  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId, i64[] mapIds
//! FinalizeMergeReply 73  i64 incarnation, i32 partitions, i64 segments, i64 bytes, i64 lost segments, i64 checksum
//! ```

use super::MergeKey;
use crate::codec::message;

message! { strict, 72;
    /// Stop appends, freeze the layout.
    pub struct FinalizeMerge {
        /// Which shuffle.
        pub key: MergeKey,
    }
}

message! { strict, 95;
    /// Show the segments of no other map attempts than these.
    pub struct RetainAttempts {
        /// Which shuffle: one that is finalized.
        pub key: MergeKey,
        /// Spark's task attempt ids.
        pub map_ids: Vec<i64>,
    }
}

message! { strict, 73;
    /// Totals of what is merged: by the first finalize, or of what is shown after `RetainAttempts`.
    pub struct FinalizeMergeReply {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// Partitions with at least one segment.
        pub partitions: u32,
        /// Segments in all of them.
        pub segments: i64,
        /// Their bytes.
        pub bytes: i64,
        /// Segments that were merged once and could not be kept.
        pub lost_segments: i64,
        /// Checksum of the ledger of both.
        pub checksum: i64,
    }
}
