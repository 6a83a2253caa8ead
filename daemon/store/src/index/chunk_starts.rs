// SPDX-License-Identifier: Apache-2.0
//! Where the chunks of Spark's own protocol begin. A chunk ends where its segments have enough
//! bytes, so each beginning depends on the one before: without this, a reader of the last chunk
//! would walk over all segments, and a reader of all chunks would do so for each.

use std::ops::Range;

/// A chunk ends at the first segment boundary at or past this many bytes. Spark's default
/// (`spark.shuffle.push.server.minChunkSizeInMergedShuffleFile`).
pub const CHUNK_BYTES: u64 = 2 * 1024 * 1024;

/// The slots of the first segments of all chunks of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkStarts {
    slots: Vec<u32>,
    /// Bytes of the last chunk.
    last_bytes: u64,
}

impl ChunkStarts {
    /// Adds the segment of the next slot, which has this length.
    pub(super) fn push(&mut self, slot: usize, length: u32) {
        if self.slots.is_empty() || self.last_bytes >= CHUNK_BYTES {
            self.slots.push(slot as u32);
            self.last_bytes = 0;
        }
        self.last_bytes += u64::from(length);
    }

    /// Forgets the segments from this slot on. Returns the slot from which those that are left have
    /// to be pushed again.
    pub(super) fn drop_from(&mut self, slot: usize) -> usize {
        let kept = self.slots.partition_point(|start| (*start as usize) < slot);
        let last = kept.saturating_sub(1);
        let from = self.slots.get(last).map_or(0, |start| *start as usize);
        self.slots.truncate(last);
        self.last_bytes = CHUNK_BYTES;
        from.min(slot)
    }

    /// Returns the slots of a chunk of a partition with this many segments.
    pub(super) fn slots(&self, chunk: usize, segments: usize) -> Option<Range<usize>> {
        let start = *self.slots.get(chunk)? as usize;
        let next = chunk.checked_add(1).and_then(|next| self.slots.get(next));
        Some(start..next.map_or(segments, |next| *next as usize))
    }

    pub(super) fn shrink(&mut self) {
        self.slots.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }
}
