// SPDX-License-Identifier: Apache-2.0
//! The end of appends, and what of it counts. Both may be repeated.
//!
//! ```text
//! FinalizeMerge      72  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId
//! RetainAttempts     95  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId, i64[] mapIds
//! FinalizeMergeReply 73  i64 incarnation, i32 partitions, i64 segments, i64 bytes, i64 lost segments, i64 checksum
//! ```

use bytes::BytesMut;
use lodestone_model::{FinalizeSummary, MapId};

use super::MergeKey;
use crate::codec::{Bits, Field, FieldError, Reader, message};

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
        pub map_ids: Vec<MapId>,
    }
}

message! { strict, 73;
    /// Totals of what is merged: by the first finalize, or of what is shown after `RetainAttempts`.
    pub struct FinalizeMergeReply {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// The totals.
        pub summary: FinalizeSummary,
    }
}

impl Field for FinalizeSummary {
    const MIN_BYTES: usize = 4 + 3 * u64::MIN_BYTES + Bits::MIN_BYTES;

    fn put(&self, out: &mut BytesMut) {
        self.partitions.put(out);
        self.segments.put(out);
        self.bytes.put(out);
        self.lost_segments.put(out);
        Bits(self.checksum).put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            partitions: input.field("partitions")?,
            segments: input.field("segments")?,
            bytes: input.field("bytes")?,
            lost_segments: input.field("lost_segments")?,
            checksum: input.field::<Bits>("checksum")?.0,
        })
    }
}
