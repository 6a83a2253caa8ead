// SPDX-License-Identifier: Apache-2.0
//! A shuffle is announced before its first push. The answer is `Done`.
//!
//! ```text
//! RegisterShuffle 84  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!                     i8 mode, i32 numMaps, i32 numPartitions, string format
//! ```

use bytes::{BufMut, BytesMut};

use super::MergeKey;
use crate::codec::{Field, FieldError, Problem, Reader, message};

/// What the daemon's copy of a shuffle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// A merged copy of blocks that executors keep.
    Merge = 0,
    /// All there is.
    Remote = 1,
}

impl Field for Mode {
    const MIN_BYTES: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(*self as u8);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        match input.u8()? {
            0 => Ok(Self::Merge),
            1 => Ok(Self::Remote),
            other => Err(Problem::UnknownValue(other).into()),
        }
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
