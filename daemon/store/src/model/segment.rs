// SPDX-License-Identifier: Apache-2.0
//! Segments, and the index of those in one partition.
//!
//! The index is what a daemon with many small blocks spends its memory on: 28 bytes per segment and
//! about two more in the bitmap. Offsets are not stored, they are the running sum of the lengths.

use roaring::RoaringBitmap;

use super::id::{MapId, MapIndex, ReduceId};

/// What a pusher says of one segment of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The partition it belongs to.
    pub reduce: ReduceId,
    /// Bytes of it in the body; never 0.
    pub length: u32,
    /// Records in it, -1 if unknown.
    pub records: i64,
    /// CRC-32C of its bytes.
    pub crc: u32,
}

/// One segment in a merged partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaidSegment {
    /// The map partition that wrote it.
    pub map_index: MapIndex,
    /// The attempt of that map that wrote it.
    pub map_id: MapId,
    /// Its length in bytes.
    pub length: u32,
    /// Records in it, -1 if unknown.
    pub records: i64,
    /// CRC-32C of its bytes (0 for blocks pushed by Spark's own protocol, which carries none).
    pub crc: u32,
}

/// A `LaidSegment` without padding.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Packed {
    map_id: i64,
    records: i64,
    map_index: u32,
    length: u32,
    crc: u32,
}

/// Growth step of the index, in parts of its length: small, because slack is wasted budget.
const GROWTH_DIVISOR: usize = 8;

/// The segments of one partition in order of arrival; at most one per map index.
#[derive(Default)]
pub(crate) struct Segments {
    entries: Vec<Packed>,
    maps: RoaringBitmap,
}

impl Segments {
    /// The attempt that wrote the segment of this map, if there is one.
    pub(crate) fn writer_of(&self, map: MapIndex) -> Option<MapId> {
        if !self.maps.contains(map.0) {
            return None;
        }
        self.entries
            .iter()
            .find(|e| e.map_index == map.0)
            .map(|e| MapId(e.map_id))
    }

    pub(crate) fn push(&mut self, segment: &LaidSegment) {
        let fresh = self.maps.insert(segment.map_index.0);
        assert!(fresh, "a partition holds one segment per map index");
        if self.entries.len() == self.entries.capacity() {
            self.entries
                .reserve_exact(4.max(self.entries.len() / GROWTH_DIVISOR));
        }
        self.entries.push(Packed {
            map_id: segment.map_id.0,
            records: segment.records,
            map_index: segment.map_index.0,
            length: segment.length,
            crc: segment.crc,
        });
    }

    /// Forgets all but the first `count` segments.
    pub(crate) fn truncate(&mut self, count: usize) {
        for entry in self.entries.drain(count.min(self.entries.len())..) {
            self.maps.remove(entry.map_index);
        }
    }

    /// Gives back what was reserved for growth.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The map indexes that have a segment.
    pub(crate) fn maps(&self) -> &RoaringBitmap {
        &self.maps
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = LaidSegment> {
        self.entries.iter().map(|e| LaidSegment {
            map_index: MapIndex(e.map_index),
            map_id: MapId(e.map_id),
            length: e.length,
            records: e.records,
            crc: e.crc,
        })
    }

    /// Sum of the lengths.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(|e| u64::from(e.length)).sum()
    }

    /// Heap memory of the index.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Packed>() + self.maps.serialized_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(map: u32) -> LaidSegment {
        LaidSegment {
            map_index: MapIndex(map),
            map_id: MapId(i64::from(map) + 7_000_000_000),
            length: 10,
            records: -1,
            crc: map,
        }
    }

    #[test]
    fn a_settled_index_takes_at_most_32_bytes_per_segment_and_a_growing_one_34() {
        let mut segments = Segments::default();
        for map in 0..10_000 {
            segments.push(&segment(map));
            assert!(map < 100 || segments.heap_bytes() <= 34 * segments.len());
        }
        segments.shrink();
        assert!(segments.heap_bytes() <= 32 * segments.len());
    }

    #[test]
    fn what_is_pushed_is_what_is_read() {
        let mut segments = Segments::default();
        segments.push(&segment(3));
        segments.push(&segment(1));
        assert_eq!(
            segments.iter().collect::<Vec<_>>(),
            [segment(3), segment(1)]
        );
        assert_eq!(
            segments.writer_of(MapIndex(1)).unwrap(),
            MapId(7_000_000_001)
        );
        assert_eq!(segments.writer_of(MapIndex(2)), None);
        assert_eq!(segments.bytes(), 20);
    }

    #[test]
    fn a_truncated_index_takes_the_dropped_maps_again() {
        let mut segments = Segments::default();
        (0..5).for_each(|map| segments.push(&segment(map)));
        segments.truncate(2);
        assert_eq!(segments.maps().iter().collect::<Vec<_>>(), [0, 1]);
        segments.push(&segment(4));
        assert_eq!(segments.len(), 3);
    }
}
