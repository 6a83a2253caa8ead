// SPDX-License-Identifier: Apache-2.0
//! The end of a map attempt: all of it counts, or nothing. Both are answered with `Done`, and may
//! be repeated.
//!
//! ```text
//! CommitMap 89  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 generation,
//!               i32 mapIndex, i64 mapId, i64 segments, i64 checksum
//! AbortMap  90  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 generation,
//!               i32 mapIndex, i64 mapId
//! ```

use bytes::BytesMut;
use lodestone_model::{Ledger, MapId, MapIndex};

use super::ShuffleAddress;
use crate::codec::{Bits, Field, FieldError, Reader, message};

message! { strict, 89;
    /// Show the attempt to readers, if the service has exactly these segments of it.
    pub struct CommitMap {
        /// Which shuffle.
        pub key: ShuffleAddress,
        /// Index of the map partition.
        pub map_index: MapIndex,
        /// Spark's task attempt id.
        pub map_id: MapId,
        /// Ledger of the segments that were answered with `OK` or `DUPLICATE`.
        pub pushed: Ledger,
    }
}

impl Field for Ledger {
    const MIN_BYTES: usize = 2 * Bits::MIN_BYTES;

    fn put(&self, out: &mut BytesMut) {
        Bits(self.segments).put(out);
        Bits(self.checksum).put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        let (Bits(segments), Bits(checksum)) = (input.field("segments")?, input.field("checksum")?);
        Ok(Self { segments, checksum })
    }
}

message! { strict, 90;
    /// Drop the segments of the attempt, and take no more of it.
    pub struct AbortMap {
        /// Which shuffle.
        pub key: ShuffleAddress,
        /// Index of the map partition.
        pub map_index: MapIndex,
        /// Spark's task attempt id.
        pub map_id: MapId,
    }
}
