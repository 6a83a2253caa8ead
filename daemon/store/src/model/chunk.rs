// SPDX-License-Identifier: Apache-2.0
//! Cutting a partition into chunks: whole segments, in layout order, until 2 MiB are reached.

use super::id::MapRange;
use super::segment::{LaidSegment, Segments};

/// A chunk ends at the first segment boundary at or past this many bytes. Spark's default
/// (`spark.shuffle.push.server.minChunkSizeInMergedShuffleFile`), and part of our protocol.
pub const CHUNK_BYTES: u64 = 2 * 1024 * 1024;

/// A segment and where it starts in the partition's bytes (file first, then the memory tail).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) offset: u64,
    pub(crate) segment: LaidSegment,
}

/// The chunks of the segments that `range` selects.
pub(crate) fn cut(segments: &Segments, range: MapRange) -> impl Iterator<Item = Vec<Placed>> {
    let mut offset = 0;
    let mut selected = segments
        .iter()
        .map(move |segment| {
            let placed = Placed { offset, segment };
            offset += u64::from(segment.length);
            placed
        })
        .filter(move |placed| range.contains(placed.segment.map_index));
    std::iter::from_fn(move || {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        for placed in selected.by_ref() {
            bytes += u64::from(placed.segment.length);
            chunk.push(placed);
            if bytes >= CHUNK_BYTES {
                break;
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MapId, MapIndex};

    fn lengths(of: &[u32], range: MapRange) -> Vec<Vec<(u64, u32)>> {
        let mut segments = Segments::default();
        for (map, &length) in (0..).zip(of) {
            let map_index = MapIndex(map);
            segments.push(&LaidSegment {
                map_index,
                map_id: MapId(1),
                length,
                records: 1,
                crc: 0,
            });
        }
        cut(&segments, range)
            .map(|chunk| chunk.iter().map(|p| (p.offset, p.segment.length)).collect())
            .collect()
    }

    const MIB: u32 = 1024 * 1024;

    #[test]
    fn a_chunk_ends_at_the_first_boundary_at_or_past_two_mebibytes() {
        let exact = lengths(&[MIB, MIB, 1], MapRange::ALL);
        assert_eq!(
            exact,
            [
                vec![(0, MIB), (MIB.into(), MIB)],
                vec![(2 * u64::from(MIB), 1)]
            ]
        );
        let short = lengths(&[MIB, MIB - 1, 1, 1], MapRange::ALL);
        assert_eq!(short.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        let large = lengths(&[5 * MIB, 1], MapRange::ALL);
        assert_eq!(large.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn a_map_range_cuts_over_the_selected_segments_only() {
        let range = MapRange::new(1, 4).unwrap();
        let cut = lengths(&[MIB, MIB, MIB, 7, MIB], range);
        let mib = u64::from(MIB);
        assert_eq!(cut, [vec![(mib, MIB), (2 * mib, MIB)], vec![(3 * mib, 7)]]);
        assert!(lengths(&[1, 2], MapRange::new(7, 9).unwrap()).is_empty());
        assert!(lengths(&[], MapRange::ALL).is_empty());
    }
}
