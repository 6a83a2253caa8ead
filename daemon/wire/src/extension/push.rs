// SPDX-License-Identifier: Apache-2.0
//! Many segments of one map attempt in one body, and one code for each.
//!
//! ```text
//! PushBatch      96  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 generation,
//!                    i32 mapIndex, i64 mapId, i32 firstSegment, bool isWhole, Segment[]
//! Segment            i32 reduceId, i32 sequence, i32 length, i32 records, i32 crc32c
//! PushBatchReply 97  i64 incarnation, bool isCommitted, bytes codes
//! ```
//!
//! `PushBatch` is the `meta` of an `UploadStream`; the segments' bytes, one after another in the
//! order of the list, are its body.

use bytes::{BufMut, BytesMut};
use lodestone_model::{Code, Crc32c, Ledger, MapId, MapIndex, ReduceId, Segment};

use super::ShuffleAddress;
use crate::codec::{Field, FieldError, Reader, fields, message};

/// Most segments in one batch. A client that has more sends several batches.
pub const MAX_SEGMENTS: usize = 65_536;

impl Field for Crc32c {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut BytesMut) {
        out.put_u32(self.0);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self(input.i32()? as u32))
    }
}

message! { strict, 96;
    /// Segments of one map attempt.
    pub struct PushBatch {
        /// Which shuffle.
        pub key: ShuffleAddress,
        /// Index of the map partition.
        pub map_index: MapIndex,
        /// Spark's task attempt id.
        pub map_id: MapId,
        /// Number of the first segment among all that the attempt pushes, to any service. The
        /// others count on from there.
        pub first_segment: u32,
        /// The attempt pushes nothing else to this service. It commits if the service takes all of
        /// these segments.
        pub is_whole: bool,
        /// The segments, in the order of their bytes in the body.
        pub segments: Vec<Segment>,
    }
}

impl PushBatch {
    /// Returns the ledger of its segments.
    pub fn ledger(&self) -> Ledger {
        self.segments
            .iter()
            .fold(Ledger::default(), |sum, segment| {
                let laid = segment.laid(self.map_index, self.map_id);
                sum.and(Ledger::of(segment.reduce_id, [laid]))
            })
    }
}

fields! { Segment {
    reduce_id: ReduceId,
    sequence: u32,
    length: u32,
    records: i32,
    crc32c: Crc32c,
} }

message! { strict, 97;
    /// The outcome of each segment.
    pub struct PushBatchReply {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// The batch was the whole attempt, which has committed.
        pub is_committed: bool,
        /// One code per segment, in the order of the batch.
        pub codes: Vec<Code>,
    }
}
