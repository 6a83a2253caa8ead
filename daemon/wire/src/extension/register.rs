// SPDX-License-Identifier: Apache-2.0
//! A shuffle is announced before its first push. The answer is `Done`.
//!
//! ```text
//! RegisterShuffle 68  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!                     i32 numMaps, i32 numPartitions, string format
//! ```

use super::MergeKey;
use crate::codec::message;

message! { strict, 68;
    /// What will be pushed.
    pub struct RegisterShuffle {
        /// Which shuffle.
        pub key: MergeKey,
        /// Map indexes are below this.
        pub num_maps: u32,
        /// Reduce ids are below this.
        pub num_partitions: u32,
        /// Tag of what segments hold: `spark-stream` in merge mode.
        pub format: String,
    }
}
