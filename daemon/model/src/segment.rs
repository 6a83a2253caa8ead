// SPDX-License-Identifier: Apache-2.0
//! Segments: as they are pushed, as they lie in a partition, and as readers name them.

use crate::id::{MapId, MapIndex, ReduceId};

/// A CRC-32C (Castagnoli), which may use all 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc32c(pub u32);

/// One segment of a batch, as the map attempt describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The partition it belongs to.
    pub reduce_id: ReduceId,
    /// Its number within its block, as in [`LaidSegment`].
    pub sequence: u32,
    /// Bytes of it in the body; 0 only for a segment that says that its block ends with the one
    /// before.
    pub length: u32,
    /// Records in it, -1 if the writer cannot count them.
    pub records: i32,
    /// Checksum of its bytes.
    pub crc32c: Crc32c,
}

/// One segment in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaidSegment {
    /// The map task that wrote it.
    pub map_index: MapIndex,
    /// The map attempt that wrote it.
    pub map_id: MapId,
    /// Its number within its block (map attempt and partition): twice the number, counted from 0,
    /// plus 1 for the last one. 0 for blocks pushed by Spark's own protocol.
    pub sequence: u32,
    /// Its length in bytes.
    pub length: u32,
    /// Records in it, -1 if unknown.
    pub records: i32,
    /// Checksum of its bytes; 0 for blocks pushed by Spark's own protocol, which carries none.
    pub crc32c: Crc32c,
}

/// Segments in consecutive slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaidRun {
    /// Slot of the first one in its partition.
    pub first: u32,
    /// The segments.
    pub segments: Vec<LaidSegment>,
}

/// Consecutive slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRun {
    /// The first one.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Segment {
    /// Returns true if the segment is only the end of its block, whose other segments came before.
    pub fn is_end_alone(&self) -> bool {
        let is_last = self.sequence & 1 == 1;
        is_last && self.sequence > 1 && self.length == 0 && self.records == 0
    }

    /// Returns the segment as its partition has it, of the map attempt that pushed it.
    pub fn laid(&self, map_index: MapIndex, map_id: MapId) -> LaidSegment {
        LaidSegment {
            map_index,
            map_id,
            sequence: self.sequence,
            length: self.length,
            records: self.records,
            crc32c: self.crc32c,
        }
    }
}

impl LaidRun {
    /// Returns the slot behind it.
    pub fn end(&self) -> u32 {
        self.first + self.segments.len() as u32
    }
}

impl SegmentRun {
    /// Returns the slot behind it.
    pub fn end(&self) -> u32 {
        self.first.saturating_add(self.count)
    }
}
