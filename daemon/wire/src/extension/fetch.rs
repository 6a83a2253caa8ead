// SPDX-License-Identifier: Apache-2.0
//! The layouts of partitions, and a stream over some of their segments, by their slots.
//!
//! ```text
//! SegmentLayout      86  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 generation,
//!                        i32 mapStart, i32 mapEnd, i32[] reduceIds
//! SegmentLayoutReply 94  i64 incarnation, string format, PartitionLayout[]
//! PartitionLayout        i32 reduceId, i8 code, LaidRun[]
//! LaidRun                i32 first, LaidSegment[]
//! LaidSegment            i32 mapIndex, i64 mapId, i32 sequence, i32 length, i32 records,
//!                        i32 crc32c
//! FetchSegments      88  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 generation,
//!                        WantedChunk[]
//! WantedChunk            i32 reduceId, SegmentRun[]
//! SegmentRun             i32 first, i32 count
//! ```
//!
//! `FetchSegments` is answered with Spark's `StreamHandle`.

use lodestone_model::{Code, Crc32c, LaidRun, LaidSegment, MapId, MapIndex, ReduceId, SegmentRun};

use super::ShuffleAddress;
use crate::codec::{fields, message, record};

message! { strict, 86;
    /// Asks which segments partitions have.
    pub struct SegmentLayout {
        /// Which shuffle.
        pub key: ShuffleAddress,
        /// First map index that counts.
        pub map_start: u32,
        /// Map index after the last that counts; 2147483647 for all.
        pub map_end: u32,
        /// The partitions.
        pub reduce_ids: Vec<ReduceId>,
    }
}

message! { strict, 94;
    /// The layouts, in the order asked.
    pub struct SegmentLayoutReply {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// The format of the shuffle's blocks, as it was registered. A reader of another format
        /// must not read them.
        pub format: String,
        /// One per partition asked.
        pub partitions: Vec<PartitionLayout>,
    }
}

record! {
    /// The layout of one partition.
    pub struct PartitionLayout {
        /// The partition.
        pub reduce_id: ReduceId,
        /// `OK`, or `UNKNOWN_PARTITION` with no runs.
        pub code: Code,
        /// Segments of the selected maps, in the order of their slots.
        pub runs: Vec<LaidRun>,
    }
}

fields! { LaidRun {
    first: u32,
    segments: Vec<LaidSegment>,
} }

fields! { LaidSegment {
    map_index: MapIndex,
    map_id: MapId,
    sequence: u32,
    length: u32,
    records: i32,
    crc32c: Crc32c,
} }

message! { strict, 88;
    /// Opens a stream of chunks that the reader cuts.
    pub struct FetchSegments {
        /// Which shuffle.
        pub key: ShuffleAddress,
        /// The chunks, in the order in which the stream gives them.
        pub chunks: Vec<WantedChunk>,
    }
}

record! {
    /// Segments of one partition, one after another.
    pub struct WantedChunk {
        /// The partition.
        pub reduce_id: ReduceId,
        /// Slots of its layout.
        pub runs: Vec<SegmentRun>,
    }
}

fields! { SegmentRun {
    first: u32,
    count: u32,
} }
