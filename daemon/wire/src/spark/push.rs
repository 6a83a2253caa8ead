// SPDX-License-Identifier: Apache-2.0
//! One block of one map task: the `meta` of an `UploadStream` whose body is the block.
//!
//! ```text
//! PushBlockStream     12 appId, i32 appAttempt, i32 shuffleId, i32 mergeId, i32 mapIndex,
//!                        i32 reduceId, i32 index
//! BlockPushReturnCode 18 i8 code, string failureBlockId
//! ```

use bytes::{BufMut, BytesMut};

use super::ShuffleKey;
use crate::codec::{Field, FieldError, Problem, Reader, message};

message! { lenient, 12;
    /// A block to be merged.
    pub struct PushBlockStream {
        /// Which shuffle.
        pub key: ShuffleKey,
        /// Index of the map partition.
        pub map_index: u32,
        /// Reduce partition.
        pub reduce_id: u32,
        /// Position of the block in the client's request; the server has no use for it.
        pub index: i32,
    }
}

message! { lenient, 18;
    /// What became of the block.
    pub struct BlockPushReturnCode {
        /// The code.
        pub code: PushCode,
        /// `shufflePush_<shuffleId>_<mergeId>_<mapIndex>_<reduceId>`, empty on success.
        pub failure_block_id: String,
    }
}

/// Spark's codes for a pushed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PushCode {
    /// Merged, or was merged before.
    Success = 0,
    /// The shuffle is finalized.
    TooLate = 1,
    /// Another block is being appended to the partition.
    Collision = 2,
    /// A higher merge id is known.
    Stale = 3,
    /// The registered application attempt is another one.
    TooOldAttempt = 4,
}

impl Field for PushCode {
    const MIN_BYTES: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(*self as u8);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        match input.u8()? {
            0 => Ok(Self::Success),
            1 => Ok(Self::TooLate),
            2 => Ok(Self::Collision),
            3 => Ok(Self::Stale),
            4 => Ok(Self::TooOldAttempt),
            other => Err(Problem::UnknownValue(other).into()),
        }
    }
}
