// SPDX-License-Identifier: Apache-2.0
//! Many segments of one map attempt in one body, and one code for each.
//!
//! ```text
//! PushBatch      93  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!                    i32 mapIndex, i64 mapId, i32 firstSegment, Segment[]
//! Segment            i32 reduceId, i32 sequence, i32 length, i32 records, i32 crc32c
//! PushBatchReply 71  i64 incarnation, bytes codes
//! ```
//!
//! `PushBatch` is the `meta` of an `UploadStream`; the segments' bytes, one after another in the order
//! of the list, are its body.

use bytes::{BufMut, BytesMut};

use super::MergeKey;
use super::status::Status;
use crate::codec::{Field, FieldError, Reader, message, record};

/// Most segments in one batch. A client that has more sends several batches.
pub const MAX_SEGMENTS: usize = 65_536;

/// A CRC-32C (Castagnoli), which may use all 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc32c(pub u32);

impl Field for Crc32c {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut BytesMut) {
        out.put_u32(self.0);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self(input.i32()? as u32))
    }
}

message! { strict, 93;
    /// Segments of one map attempt.
    pub struct PushBatch {
        /// Which shuffle.
        pub key: MergeKey,
        /// Index of the map partition.
        pub map_index: u32,
        /// Spark's task attempt id.
        pub map_id: i64,
        /// Number of the first segment among all that the attempt pushes, anywhere; the others count on
        /// from there. 0 in merge mode.
        pub first_segment: u32,
        /// The segments, in the order of their bytes in the body.
        pub segments: Vec<Segment>,
    }
}

record! {
    /// One segment of a batch.
    pub struct Segment {
        /// Reduce partition that it belongs to.
        pub reduce_id: u32,
        /// Which one of its block it is: twice its number there, from 0 on, and 1 more for the last one. 0
        /// in merge mode.
        pub sequence: u32,
        /// Bytes.
        pub length: u32,
        /// Records, -1 when the writer cannot count them.
        pub records: i32,
        /// Checksum of its bytes.
        pub crc32c: Crc32c,
    }
}

message! { strict, 71;
    /// What became of each segment.
    pub struct PushBatchReply {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// One code per segment, in the order of the batch.
        pub codes: Vec<Status>,
    }
}
