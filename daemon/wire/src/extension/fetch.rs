// SPDX-License-Identifier: Apache-2.0
//! Which chunks there are, and a stream over some of them.
//!
//! ```text
//! ChunkLayout      74  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!                      i32 mapStart, i32 mapEnd, i32[] reduceIds
//! ChunkLayoutReply 75  i64 incarnation, PartitionLayout[]
//! PartitionLayout      i32 reduceId, i8 code, Chunk[]
//! Chunk                LaidSegment[]
//! LaidSegment          i32 mapIndex, i64 mapId, i32 length, i64 records, i32 crc32c
//! FetchChunks      76  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 mergeId,
//!                      i32 mapStart, i32 mapEnd, ChunkRef[]
//! ChunkRef             i32 reduceId, i32 chunk
//! ```
//!
//! `FetchChunks` is answered with Spark's `StreamHandle`.

use super::MergeKey;
use super::push::Crc32c;
use super::status::Status;
use crate::codec::{message, record};

message! { strict, 74;
    /// Asks how partitions are laid out.
    pub struct ChunkLayout {
        /// Which shuffle.
        pub key: MergeKey,
        /// First map index that counts.
        pub map_start: u32,
        /// Map index after the last that counts; 2147483647 for all.
        pub map_end: u32,
        /// The partitions.
        pub reduce_ids: Vec<u32>,
    }
}

message! { strict, 75;
    /// The layouts, in the order asked.
    pub struct ChunkLayoutReply {
        /// Incarnation of the daemon.
        pub incarnation: i64,
        /// One per partition asked.
        pub partitions: Vec<PartitionLayout>,
    }
}

record! {
    /// How one partition is laid out.
    pub struct PartitionLayout {
        /// The partition.
        pub reduce_id: u32,
        /// `OK`, or `UNKNOWN_PARTITION` with no chunks.
        pub code: Status,
        /// The chunks, in index order.
        pub chunks: Vec<Chunk>,
    }
}

record! {
    /// What one chunk holds.
    pub struct Chunk {
        /// Its segments, in the order of their bytes.
        pub segments: Vec<LaidSegment>,
    }
}

record! {
    /// One segment of a chunk.
    pub struct LaidSegment {
        /// Index of the map partition.
        pub map_index: u32,
        /// Spark's task attempt id.
        pub map_id: i64,
        /// Bytes.
        pub length: u32,
        /// Records, -1 when not counted.
        pub records: i64,
        /// Checksum of its bytes.
        pub crc32c: Crc32c,
    }
}

message! { strict, 76;
    /// Opens a stream over chunks of the same layout.
    pub struct FetchChunks {
        /// Which shuffle.
        pub key: MergeKey,
        /// As in the layout.
        pub map_start: u32,
        /// As in the layout.
        pub map_end: u32,
        /// The chunks, in the order in which the stream gives them.
        pub chunks: Vec<ChunkRef>,
    }
}

record! {
    /// One chunk of one partition.
    pub struct ChunkRef {
        /// The partition.
        pub reduce_id: u32,
        /// Index of the chunk in its layout.
        pub chunk: u32,
    }
}
