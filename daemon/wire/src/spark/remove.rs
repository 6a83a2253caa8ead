// SPDX-License-Identifier: Apache-2.0
//! Files that are no longer wanted.
//!
//! ```text
//! RemoveBlocks        7 appId, string execId, string[] blockIds
//! BlocksRemoved       8 i32 count
//! RemoveShuffleMerge 19 appId, i32 appAttempt, i32 shuffleId, i32 shuffleMergeId (-1 = all)
//! ```
//!
//! `RemoveShuffleMerge` travels one way: there is no answer.

use lodestone_model::{AppId, ShuffleKey};

use crate::codec::message;

message! { lenient, 7;
    /// Delete blocks of an executor that is gone.
    pub struct RemoveBlocks {
        /// The application.
        pub app: AppId,
        /// The executor that wrote them.
        pub exec_id: String,
        /// Names of the blocks.
        pub block_ids: Vec<String>,
    }
}

message! { lenient, 8;
    /// How many were deleted.
    pub struct BlocksRemoved {
        /// Blocks.
        pub count: u32,
    }
}

message! { lenient, 19;
    /// Drop what was merged of a shuffle.
    pub struct RemoveShuffleMerge {
        /// Which shuffle; -1 for whatever generation is current.
        pub key: ShuffleKey,
    }
}
