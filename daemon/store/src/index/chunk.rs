// SPDX-License-Identifier: Apache-2.0
//! Cuts a partition into the chunks of Spark's own protocol: whole segments, in order of arrival,
//! until a chunk has 2 MiB.

use std::ops::Range;

use roaring::RoaringBitmap;

pub use super::chunk_starts::CHUNK_BYTES;
use super::segment::Segments;
use super::slot::{SegmentAt, with_offsets};

/// Returns the segments of one chunk of a partition of Spark's own push.
pub(crate) fn chunk(segments: &Segments, chunk: usize) -> Option<Vec<SegmentAt>> {
    let (known, slots) = walk_to(segments, chunk)?;
    let found = with_offsets(segments, known).skip(slots.start - known.0);
    Some(found.take(slots.len()).collect())
}

/// Returns the slots of a chunk, and a slot shortly before them whose offset is known.
fn walk_to(segments: &Segments, chunk: usize) -> Option<((usize, u64), Range<usize>)> {
    let slots = segments.chunk_slots(chunk)?;
    Some((segments.known_offset(slots.start), slots))
}

/// The chunks of a partition of Spark's own push.
pub(crate) fn cut(segments: &Segments) -> impl Iterator<Item = Vec<SegmentAt>> {
    (0..).map_while(|number| chunk(segments, number))
}

/// Appends the bitmap of the chunk's map indexes; writing to memory does not fail.
pub(crate) fn write_bitmap(chunk: &[SegmentAt], into: &mut Vec<u8>) -> Option<()> {
    let maps: RoaringBitmap = chunk
        .iter()
        .map(|found| found.segment.map_index.0)
        .collect();
    maps.serialize_into(into).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::kind::Kind;
    use lodestone_model::{Crc32c, LaidSegment, MapId, MapIndex};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn push(segments: &mut Segments, lengths: &[u32]) {
        let first = segments.maps().max().map_or(0, |map| map + 1);
        for (map, &length) in (first..).zip(lengths) {
            segments.push(&LaidSegment {
                map_index: MapIndex(map),
                map_id: MapId(1),
                sequence: 0,
                length,
                records: 1,
                crc32c: Crc32c(0),
            });
        }
    }

    fn lengths(of: &[u32]) -> Vec<Vec<(u64, u32)>> {
        let mut segments = Segments::new(Kind::SparkPush);
        push(&mut segments, of);
        cut(&segments)
            .map(|chunk| chunk.iter().map(|p| (p.offset, p.segment.length)).collect())
            .collect()
    }

    /// Cuts as the first lines of this file say.
    fn cut_by_the_rule(segments: &Segments) -> Vec<Vec<SegmentAt>> {
        let mut chunks: Vec<Vec<SegmentAt>> = Vec::new();
        let mut bytes = CHUNK_BYTES;
        for found in with_offsets(segments, (0, 0)) {
            if bytes >= CHUNK_BYTES {
                chunks.push(Vec::new());
                bytes = 0;
            }
            bytes += u64::from(found.segment.length);
            chunks.last_mut().unwrap().push(found);
        }
        chunks
    }

    proptest! {
        #[test]
        fn chunks_are_cut_by_the_rule_after_pushes_and_drops(
            changes in vec((vec(0..3 * MIB, 0..40), 0..60_usize), 1..6),
        ) {
            let mut segments = Segments::new(Kind::SparkPush);
            for (lengths, kept) in changes {
                push(&mut segments, &lengths);
                prop_assert_eq!(cut(&segments).collect::<Vec<_>>(), cut_by_the_rule(&segments));
                segments.drop_from(kept);
                prop_assert_eq!(cut(&segments).collect::<Vec<_>>(), cut_by_the_rule(&segments));
            }
        }
    }

    #[test]
    fn a_late_chunk_is_found_in_as_few_steps_as_an_early_one() {
        let mut segments = Segments::new(Kind::SparkPush);
        push(&mut segments, &[MIB / 2; 10_000]);
        let chunks = 10_000 / 4;
        for number in 0..chunks {
            let ((known, _), slots) = walk_to(&segments, number).unwrap();
            assert_eq!(slots, 4 * number..4 * number + 4);
            let steps = slots.end - known;
            assert!(steps < 256, "{steps} steps to the end of chunk {number}");
        }
        assert_eq!(walk_to(&segments, chunks), None);
    }

    const MIB: u32 = 1024 * 1024;

    #[test]
    fn a_chunk_ends_at_the_first_boundary_at_or_past_two_mebibytes() {
        let exact = lengths(&[MIB, MIB, 1]);
        assert_eq!(
            exact,
            [
                vec![(0, MIB), (MIB.into(), MIB)],
                vec![(2 * u64::from(MIB), 1)]
            ]
        );
        let short = lengths(&[MIB, MIB - 1, 1, 1]);
        assert_eq!(short.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        let large = lengths(&[5 * MIB, 1]);
        assert_eq!(large.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert!(lengths(&[]).is_empty());
    }
}
