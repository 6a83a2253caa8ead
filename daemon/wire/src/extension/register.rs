// SPDX-License-Identifier: Apache-2.0
//! A shuffle is announced before its first push. The answer is `Done`.
//!
//! ```text
//! RegisterShuffle 84  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!                     i8 mode, i32 numMaps, i32 numPartitions, string format
//! ```

use super::MergeKey;
use crate::codec::{message, named_byte};

named_byte! {
    /// What the daemon's copy of a shuffle is.
    pub enum Mode {
        /// A merged copy of blocks that executors keep.
        Merge = 0,
        /// All there is.
        Remote = 1,
    }
}

message! { strict, 84;
    /// What will be pushed.
    pub struct RegisterShuffle {
        /// Which shuffle.
        pub key: MergeKey,
        /// Whether executors keep what they push.
        pub mode: Mode,
        /// Map indexes are below this.
        pub num_maps: u32,
        /// Reduce ids are below this.
        pub num_partitions: u32,
        /// Tag of what segments hold: such as `spark-stream`.
        pub format: String,
    }
}
