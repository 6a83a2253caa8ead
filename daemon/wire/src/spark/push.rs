// SPDX-License-Identifier: Apache-2.0
//! One block of one map task: the `meta` of an `UploadStream` whose body is the block.
//!
//! ```text
//! PushBlockStream     12 appId, i32 appAttempt, i32 shuffleId, i32 shuffleMergeId, i32 mapIndex,
//!                        i32 reduceId, i32 index
//! BlockPushReturnCode 18 i8 code, string failureBlockId
//! ```

use lodestone_model::{MapIndex, ReduceId, ShuffleKey};

use crate::codec::{message, named_byte};

message! { lenient, 12;
    /// A block to be merged.
    pub struct PushBlockStream {
        /// Which shuffle.
        pub key: ShuffleKey,
        /// Index of the map partition.
        pub map_index: MapIndex,
        /// Reduce partition.
        pub reduce_id: ReduceId,
        /// Position of the block in the client's request; the server has no use for it.
        pub index: i32,
    }
}

message! { lenient, 18;
    /// The outcome of the push of a block.
    pub struct BlockPushReturnCode {
        /// The code.
        pub code: PushCode,
        /// `shufflePush_<shuffleId>_<shuffleMergeId>_<mapIndex>_<reduceId>`, empty on success.
        pub failure_block_id: String,
    }
}

named_byte! {
    /// Spark's codes for a pushed block.
    pub enum PushCode {
        /// Merged, or was merged before.
        Success = 0,
        /// The shuffle is finalized.
        TooLate = 1,
        /// Another block is being appended to the partition.
        Collision = 2,
        /// A higher generation is known.
        Stale = 3,
        /// The registered application attempt is another one.
        TooOldAttempt = 4,
    }
}
