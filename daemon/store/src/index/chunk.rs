// SPDX-License-Identifier: Apache-2.0
//! Cuts a partition into the chunks of Spark's own protocol: whole segments, in order of arrival,
//! until a chunk has 2 MiB.

use roaring::RoaringBitmap;

use super::segment::Segments;
use super::slot::{SegmentAt, with_offsets};

/// A chunk ends at the first segment boundary at or past this many bytes. Spark's default
/// (`spark.shuffle.push.server.minChunkSizeInMergedShuffleFile`).
pub const CHUNK_BYTES: u64 = 2 * 1024 * 1024;

/// The chunks of a partition.
pub(crate) fn cut(segments: &Segments) -> impl Iterator<Item = Vec<SegmentAt>> {
    let mut all = with_offsets(segments, (0, 0));
    std::iter::from_fn(move || {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        for found in all.by_ref() {
            bytes += u64::from(found.segment.length);
            chunk.push(found);
            if bytes >= CHUNK_BYTES {
                break;
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    })
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

    fn lengths(of: &[u32]) -> Vec<Vec<(u64, u32)>> {
        let mut segments = Segments::new(Kind::SparkPush);
        for (map, &length) in (0..).zip(of) {
            let map_index = MapIndex(map);
            segments.push(&LaidSegment {
                map_index,
                map_id: MapId(1),
                sequence: 0,
                length,
                records: 1,
                crc32c: Crc32c(0),
            });
        }
        cut(&segments)
            .map(|chunk| chunk.iter().map(|p| (p.offset, p.segment.length)).collect())
            .collect()
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
