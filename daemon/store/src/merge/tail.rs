// SPDX-License-Identifier: Apache-2.0
//! The part of a partition that is in memory: parts of whole segments, one after another. A long
//! tail is written out part by part, with the partition's lock free in between, and grows at its
//! end meanwhile.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::resource::paged::PagedBytes;
use crate::resource::pages::Pages;

/// Bytes that readers share.
#[derive(Debug)]
struct TailPart {
    bytes: Arc<PagedBytes>,
    /// Segments that were appended, including aborted ones.
    segments: usize,
}

#[derive(Debug, Default)]
pub(super) struct Tail {
    parts: Vec<TailPart>,
    length: usize,
}

impl Tail {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// There is more than is written out under the partition's lock at a time.
    pub(super) fn is_long(&self, pages: &Pages) -> bool {
        self.length > pages.part_bytes() && self.parts.len() > 1
    }

    /// Readers have taken all of it.
    pub(super) fn mark_read(&self) {
        self.parts.iter().for_each(|part| part.bytes.mark_read());
    }

    pub(super) fn was_read(&self) -> bool {
        self.length > 0 && self.parts.iter().all(|part| part.bytes.was_read())
    }

    /// Its bytes, in order.
    pub(super) fn slices(&self) -> Vec<&[u8]> {
        let parts = self.parts.iter();
        parts.flat_map(|part| part.bytes.slices()).collect()
    }

    /// Returns the bytes of the first part.
    pub(super) fn first_slices(&self) -> Vec<&[u8]> {
        let first = self.parts.first().into_iter();
        first.flat_map(|part| part.bytes.slices()).collect()
    }

    /// Drops the first part, and returns how many segments were appended to it.
    pub(super) fn drop_first(&mut self) -> usize {
        if self.parts.is_empty() {
            return 0;
        }
        let first = self.parts.remove(0);
        self.length -= first.bytes.len();
        first.segments
    }

    /// Copies a segment to the end. Returns false if there is no memory.
    pub(super) fn try_append(&mut self, pages: &Arc<Pages>, segment: &[u8]) -> bool {
        let has_grown = self
            .grow_last(pages.part_bytes(), segment)
            .unwrap_or_else(|| {
                let mut bytes = PagedBytes::new(pages);
                let has_grown = bytes.try_append(segment);
                if has_grown {
                    let bytes = Arc::new(bytes);
                    // Most tails have one part, and there are many tails.
                    self.parts.reserve_exact(1);
                    self.parts.push(TailPart { bytes, segments: 1 });
                }
                has_grown
            });
        if has_grown {
            self.length += segment.len();
        }
        has_grown
    }

    /// Returns `None` if there is no last part, or it is long enough, or readers share it.
    fn grow_last(&mut self, part_bytes: usize, segment: &[u8]) -> Option<bool> {
        let last = self.parts.last_mut()?;
        if last.bytes.len() >= part_bytes {
            return None;
        }
        let has_grown = Arc::get_mut(&mut last.bytes)?.try_append(segment);
        last.segments += usize::from(has_grown);
        Some(has_grown)
    }

    /// Keeps only these ranges, which are in order. Returns false if readers share bytes that would
    /// move.
    pub(super) fn try_keep(&mut self, ranges: &[Range<usize>]) -> bool {
        let mut start = 0;
        let mut changes = Vec::new();
        for part in &mut self.parts {
            let end = start + part.bytes.len();
            let kept = within(ranges, start..end);
            let is_changed = kept.iter().map(Range::len).sum::<usize>() < part.bytes.len();
            start = end;
            if is_changed {
                let Some(bytes) = Arc::get_mut(&mut part.bytes) else {
                    return false;
                };
                changes.push((bytes, kept));
            }
        }
        for (bytes, kept) in changes {
            let before = bytes.len();
            bytes.keep(&kept);
            self.length -= before - bytes.len();
        }
        true
    }

    /// Returns a range of the bytes, shared and not copied; shorter if the range goes beyond the
    /// end.
    pub(super) fn share(&self, range: &Range<usize>) -> Vec<Bytes> {
        let mut start = 0;
        let mut shared = Vec::new();
        for part in &self.parts {
            let end = start + part.bytes.len();
            for cut in within(std::slice::from_ref(range), start..end) {
                shared.extend(part.bytes.share(cut));
            }
            start = end;
        }
        shared
    }

    /// Its memory goes back as soon as no reader has it.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the parts of the ranges that are in `part`, counted from its start.
fn within(ranges: &[Range<usize>], part: Range<usize>) -> Vec<Range<usize>> {
    let cut = |range: &Range<usize>| range.start.max(part.start)..range.end.min(part.end);
    let inside = ranges.iter().map(cut).filter(|range| !range.is_empty());
    inside
        .map(|range| range.start - part.start..range.end - part.start)
        .collect()
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::single_range_in_vec_init,
        reason = "a list of ranges, of which there may be one"
    )]

    use super::*;
    use crate::resource::budget::Budget;

    const PART_BYTES: usize = 64 * 1024;

    /// Three of them are a part.
    const SEGMENT: usize = PART_BYTES / 8 * 3;

    fn pages() -> Arc<Pages> {
        Pages::new(Arc::new(Budget::new(1 << 30, 75)), PART_BYTES)
    }

    /// Returns a tail of segments of this length, and its content.
    fn tail(segments: u8) -> (Tail, Vec<u8>) {
        let pages = pages();
        let mut tail = Tail::default();
        let mut all = Vec::new();
        for number in 0..segments {
            let segment = vec![number; SEGMENT];
            assert!(tail.try_append(&pages, &segment));
            all.extend(segment);
        }
        (tail, all)
    }

    fn content(tail: &Tail) -> Vec<u8> {
        tail.slices().concat()
    }

    #[test]
    fn a_long_tail_is_written_out_in_parts_of_whole_segments() {
        let (mut tail, all) = tail(7);
        assert_eq!((tail.len(), content(&tail)), (7 * SEGMENT, all.clone()));
        let mut out = Vec::new();
        let mut counts = Vec::new();
        while tail.len() > 0 {
            out.push(tail.first_slices().concat());
            counts.push(tail.drop_first());
        }
        assert_eq!(counts, [3, 3, 1]);
        assert_eq!(out.concat(), all);
        assert!(out.iter().all(|part| part.len() % SEGMENT == 0));
    }

    #[test]
    fn a_range_is_shared_over_the_ends_of_parts() {
        let (tail, all) = tail(5);
        for range in [
            0..10,
            2 * SEGMENT..4 * SEGMENT + 7,
            5 * SEGMENT - 1..5 * SEGMENT,
        ] {
            assert_eq!(tail.share(&range).concat(), all[range]);
        }
        assert_eq!(tail.share(&(0..usize::MAX)).concat(), all);
    }

    #[test]
    fn kept_segments_move_within_parts_and_bytes_that_readers_hold_do_not_move() {
        let (mut tail, all) = tail(5);
        let kept = [SEGMENT..3 * SEGMENT, 4 * SEGMENT..5 * SEGMENT];
        let reader = tail.share(&(4 * SEGMENT..4 * SEGMENT + 1));
        assert!(!tail.try_keep(&kept));
        assert_eq!(content(&tail), all);
        drop(reader);
        // The last part does not change: a reader that shares its end does not prevent it.
        let (mut tail, _) = self::tail(5);
        let reader = tail.share(&(4 * SEGMENT..4 * SEGMENT + 1));
        assert!(tail.try_keep(&[SEGMENT..5 * SEGMENT]));
        assert_eq!(content(&tail), all[SEGMENT..]);
        drop(reader);
        assert!(tail.try_keep(&[]));
        assert_eq!((tail.len(), content(&tail)), (0, Vec::new()));
        assert_eq!((tail.drop_first(), tail.drop_first()), (3, 2));
    }

    #[test]
    fn a_tail_grows_while_readers_share_it() {
        let pages = pages();
        let mut tail = Tail::default();
        assert!(tail.try_append(&pages, b"read"));
        let reader = tail.share(&(0..4));
        assert!(tail.try_append(&pages, b" and not"));
        assert_eq!(content(&tail), b"read and not");
        assert_eq!(reader.concat(), b"read");
        tail.mark_read();
        assert!(tail.was_read());
        assert!(tail.try_append(&pages, b"!"));
        assert!(!tail.was_read());
    }
}
