// SPDX-License-Identifier: Apache-2.0
//! The index of the segments in one partition.
//!
//! In a daemon with many small blocks, the index needs the most memory: 28 bytes per segment, and
//! for Spark's own push about two more in the bitmap. Offsets are the running sum of the lengths;
//! only the offset of every 256th segment is stored.

use std::ops::Range;

use lodestone_model::{Crc32c, LaidSegment, MapId, MapIndex};
use lodestone_planted::{self as planted, Bug};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::chunk_starts::ChunkStarts;
use super::kind::Kind;

/// A `LaidSegment` without padding.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[repr(C, packed(4))]
struct Packed {
    map_id: i64,
    map_index: u32,
    sequence: u32,
    length: u32,
    records: i32,
    crc: u32,
}

/// Stands in place of the sequence of a segment that is gone. On the wire sequences have 31 bits.
const GONE: u32 = u32::MAX;

/// Growth step of the index, in parts of its length: small, because slack is wasted budget.
const GROWTH_DIVISOR: usize = 8;

/// The offset of one of so many segments is known. Simulated partitions are small.
const STRIDE: usize = if cfg!(any(test, feature = "fake")) {
    32
} else {
    256
};

/// The segments of one partition in order of arrival.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Segments {
    entries: Vec<Packed>,
    /// The offsets of the first segments whose slots are multiples of [`STRIDE`]. All of them are
    /// known after each change.
    #[serde(skip)]
    offsets: Vec<u64>,
    /// The map indexes that have a segment, if each may have at most one: only for Spark's own
    /// push, which is not part of a handover.
    #[serde(skip)]
    maps: Option<RoaringBitmap>,
    /// Where the chunks of Spark's own push begin. Others have no chunks here.
    #[serde(skip)]
    chunks: ChunkStarts,
}

impl Segments {
    /// Returns an index without segments. If attempts commit, it may have any number of segments
    /// for each map.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            entries: Vec::new(),
            offsets: Vec::new(),
            maps: (!kind.commits()).then(RoaringBitmap::new),
            chunks: ChunkStarts::default(),
        }
    }

    /// Returns true if this map has the one segment that it may have. Returns false if it may have
    /// any number.
    pub(crate) fn has_map(&self, map: MapIndex) -> bool {
        self.maps.as_ref().is_some_and(|maps| maps.contains(map.0))
    }

    pub(crate) fn push(&mut self, segment: &LaidSegment) {
        if let Some(maps) = &mut self.maps {
            let fresh = maps.insert(segment.map_index.0);
            assert!(fresh, "a partition holds one segment per map index");
            self.chunks.push(self.entries.len(), segment.length);
        }
        grow(&mut self.entries);
        self.entries.push(Packed {
            map_id: segment.map_id.0,
            map_index: segment.map_index.0,
            sequence: segment.sequence,
            length: segment.length,
            records: segment.records,
            crc: segment.crc32c.0,
        });
        self.complete_offsets();
    }

    /// Adds the offsets that are missing: all of them in an index that came from a handover.
    pub(crate) fn complete_offsets(&mut self) {
        while self.offsets.len() * STRIDE < self.entries.len() {
            let slot = self.offsets.len() * STRIDE;
            let (known, offset) = self.known_offset(slot);
            let between = self.entries.get(known..slot).unwrap_or_default();
            let offset = offset + bytes_of(between);
            grow(&mut self.offsets);
            self.offsets.push(offset);
        }
    }

    /// Corrects the offsets after a change of the lengths from this slot on, or the loss of slots.
    fn correct_offsets(&mut self, first_changed: usize) {
        let right = (first_changed / STRIDE + 1).min(self.entries.len().div_ceil(STRIDE));
        self.offsets.truncate(right);
        self.complete_offsets();
    }

    /// Returns a slot before this one, or this one, and its offset.
    pub(crate) fn known_offset(&self, slot: usize) -> (usize, u64) {
        let last = self.offsets.len().saturating_sub(1);
        let at = (slot / STRIDE).min(last);
        (at * STRIDE, self.offsets.get(at).copied().unwrap_or(0))
    }

    /// Removes all but the first `kept` segments, whose bytes are lost, and returns how many these
    /// were. If readers know segments by their slots, the slots stay and are empty from now on.
    pub(crate) fn drop_from(&mut self, kept: usize) -> usize {
        let kept = kept.min(self.entries.len());
        let dropped = self.drop_entries(kept);
        self.correct_offsets(kept);
        dropped
    }

    fn drop_entries(&mut self, kept: usize) -> usize {
        if let Some(maps) = &mut self.maps {
            let lost = self.entries.drain(kept..);
            let lost = lost.map(|entry| maps.remove(entry.map_index)).count();
            let from = self.chunks.drop_from(kept);
            for (slot, entry) in self.entries.iter().enumerate().skip(from) {
                self.chunks.push(slot, entry.length);
            }
            return lost;
        }
        if planted::is(Bug::DropMovesSlots) {
            return self.entries.drain(kept..).count();
        }
        if planted::is(Bug::DroppedShown) {
            return self.entries.len() - kept;
        }
        let mut dropped = 0;
        for entry in self.entries.iter_mut().skip(kept) {
            dropped += usize::from(entry.sequence != GONE);
            entry.sequence = GONE;
            if !planted::is(Bug::DroppedBytesCounted) {
                entry.length = 0;
            }
        }
        dropped
    }

    /// Marks the segments of an attempt as gone. If `closed_up`, those from `in_memory` on leave no
    /// bytes in the partition, also if they left some before. Returns the offset and the length of
    /// the bytes of the others.
    pub(crate) fn abort(
        &mut self,
        (map_index, map_id): (MapIndex, MapId),
        in_memory: usize,
        closed_up: bool,
    ) -> Vec<(u64, u64)> {
        let mut left = Vec::new();
        let mut offset = 0;
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            let length = u64::from(entry.length);
            let is_its = entry.map_index == map_index.0 && entry.map_id == map_id.0;
            if is_its && slot >= in_memory && closed_up {
                entry.sequence = GONE;
                entry.length = 0;
            } else if is_its && entry.sequence != GONE {
                entry.sequence = GONE;
                left.push((offset, length));
            }
            offset += length;
        }
        if closed_up {
            self.correct_offsets(in_memory);
        }
        left
    }

    /// Frees the memory that is reserved for growth.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        self.offsets.shrink_to_fit();
        self.chunks.shrink();
    }

    /// Returns the slots of a chunk of Spark's own push.
    pub(crate) fn chunk_slots(&self, chunk: usize) -> Option<Range<usize>> {
        self.chunks.slots(chunk, self.entries.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The map indexes that have a segment.
    pub(crate) fn maps(&self) -> RoaringBitmap {
        match &self.maps {
            Some(maps) => maps.clone(),
            None => self.iter().map(|segment| segment.map_index.0).collect(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = LaidSegment> {
        self.from(0)
    }

    /// Returns the segments from this slot on.
    pub(crate) fn from(&self, slot: usize) -> impl Iterator<Item = LaidSegment> {
        let entries = self.entries.get(slot..).unwrap_or_default();
        entries.iter().map(|e| LaidSegment {
            map_index: MapIndex(e.map_index),
            map_id: MapId(e.map_id),
            sequence: e.sequence,
            length: e.length,
            records: e.records,
            crc32c: Crc32c(e.crc),
        })
    }

    /// Sum of the lengths.
    pub(crate) fn bytes(&self) -> u64 {
        let (known, offset) = self.known_offset(self.entries.len());
        offset + bytes_of(self.entries.get(known..).unwrap_or_default())
    }

    /// Heap memory of the index.
    pub(crate) fn heap_bytes(&self) -> usize {
        let maps = self.maps.as_ref().map_or(0, RoaringBitmap::serialized_size);
        let offsets = self.offsets.capacity() * size_of::<u64>();
        let others = offsets + maps + self.chunks.heap_bytes();
        self.entries.capacity() * size_of::<Packed>() + others
    }
}

/// Makes room for one more.
fn grow<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(4.max(list.len() / GROWTH_DIVISOR));
    }
}

fn bytes_of(entries: &[Packed]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.length)).sum()
}

/// Returns true if its attempt was aborted, or it was dropped: its bytes must not be read.
pub(crate) fn is_gone(segment: &LaidSegment) -> bool {
    segment.sequence == GONE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(map: u32) -> LaidSegment {
        LaidSegment {
            map_index: MapIndex(map),
            map_id: MapId(i64::from(map) + 7_000_000_000),
            sequence: map + 3,
            length: 10,
            records: -1,
            crc32c: Crc32c(map),
        }
    }

    #[test]
    fn a_settled_index_takes_at_most_32_bytes_per_segment_and_a_growing_one_34() {
        let mut segments = Segments::new(Kind::SparkPush);
        for map in 0..10_000 {
            segments.push(&segment(map));
            assert!(map < 100 || segments.heap_bytes() <= 34 * segments.len());
        }
        segments.shrink();
        assert!(segments.heap_bytes() <= 32 * segments.len());
    }

    #[test]
    fn readers_get_the_pushed_segments() {
        let mut segments = Segments::new(Kind::SparkPush);
        segments.push(&segment(3));
        segments.push(&segment(1));
        assert_eq!(
            segments.iter().collect::<Vec<_>>(),
            [segment(3), segment(1)]
        );
        assert!(segments.has_map(MapIndex(1)) && !segments.has_map(MapIndex(2)));
        assert_eq!(segments.bytes(), 20);
    }

    #[test]
    fn an_attempt_has_any_number_of_segments_until_it_is_aborted() {
        let mut segments = Segments::new(Kind::Remote);
        let of = |map: u32, map_id: i64, sequence: u32, length: u32| LaidSegment {
            map_id: MapId(map_id),
            sequence,
            length,
            ..segment(map)
        };
        for pushed in [
            of(1, 7, 0, 10),
            of(2, 9, 0, 20),
            of(1, 7, 1, 30),
            of(1, 8, 0, 40),
        ] {
            segments.push(&pushed);
        }
        let attempt = (MapIndex(1), MapId(7));
        let mut closed_up = Segments::new(Kind::Remote);
        segments.iter().for_each(|segment| closed_up.push(&segment));
        assert_eq!(segments.abort(attempt, 1, false), [(0, 10), (30, 30)]);
        assert_eq!(segments.bytes(), 100);
        assert_eq!(closed_up.abort(attempt, 1, true), [(0, 10)]);
        assert_eq!(closed_up.bytes(), 70);
        for segments in [segments, closed_up] {
            let gone: Vec<bool> = segments.iter().map(|s| is_gone(&s)).collect();
            assert_eq!(gone, [true, false, true, false]);
        }
    }

    #[test]
    fn dropped_blocks_of_sparks_own_push_are_forgotten_and_taken_again() {
        let mut segments = Segments::new(Kind::SparkPush);
        (0..5).for_each(|map| segments.push(&segment(map)));
        assert_eq!(segments.drop_from(2), 3);
        assert_eq!(segments.maps().iter().collect::<Vec<_>>(), [0, 1]);
        segments.push(&segment(4));
        assert_eq!(segments.len(), 3);
    }

    #[test]
    fn a_dropped_segment_of_an_attempt_leaves_only_its_slot() {
        let mut segments = Segments::new(Kind::Merge);
        (0..5).for_each(|map| segments.push(&segment(map)));
        // Bytes of an aborted attempt that a reader still shares are lost with the others.
        segments.abort((MapIndex(3), segment(3).map_id), 2, false);
        assert_eq!(segments.drop_from(2), 2);
        segments.push(&segment(7));
        let gone: Vec<bool> = segments.iter().map(|s| is_gone(&s)).collect();
        assert_eq!(gone, [false, false, true, true, true, false]);
        assert_eq!(segments.bytes(), 30);
    }
}
