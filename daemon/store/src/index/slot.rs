// SPDX-License-Identifier: Apache-2.0
//! Slots: the index of a segment in its partition, by which readers name it. The list of a
//! partition's segments only grows, so a slot means the same segment as long as the partition
//! exists.

use lodestone_model::{LaidRun, LaidSegment, SegmentRun};

use super::segment::{Segments, is_gone};

/// A segment and its offset in the bytes of the partition (files first, then the memory tail).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentAt {
    pub(crate) offset: u64,
    pub(crate) segment: LaidSegment,
}

/// Returns the segments from a slot on with their offsets, of which the first is given.
pub(crate) fn with_offsets(
    segments: &Segments,
    (slot, mut offset): (usize, u64),
) -> impl Iterator<Item = SegmentAt> {
    segments.from(slot).map(move |segment| {
        let found = SegmentAt { offset, segment };
        offset += u64::from(segment.length);
        found
    })
}

/// Returns the segments that are wanted, in runs.
pub(crate) fn selected(
    segments: &Segments,
    is_wanted: impl Fn(&LaidSegment) -> bool,
) -> Vec<LaidRun> {
    let mut runs: Vec<LaidRun> = Vec::new();
    for (slot, segment) in (0..).zip(segments.iter()) {
        if is_gone(&segment) || !is_wanted(&segment) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end() == slot => run.segments.push(segment),
            _ => runs.push(LaidRun {
                first: slot,
                segments: vec![segment],
            }),
        }
    }
    runs
}

/// Returns an error that says what is wrong if these are not slots of the partition, in order.
pub(crate) fn check_slots(segments: &Segments, slots: &[SegmentRun]) -> Result<(), &'static str> {
    if slots.is_empty() || slots.iter().any(|run| run.count == 0) {
        return Err("has an empty run");
    }
    if !slots.is_sorted_by(|one, next| one.end() <= next.first) {
        return Err("has runs that are not in order");
    }
    if slots
        .last()
        .is_some_and(|last| last.end() as usize > segments.len())
    {
        return Err("goes beyond them");
    }
    Ok(())
}

/// Returns the segments in these slots, which must have passed [`check_slots`].
pub(crate) fn at(segments: &Segments, slots: &[SegmentRun]) -> Vec<SegmentAt> {
    let mut found = Vec::with_capacity(slots.iter().map(|run| run.count as usize).sum());
    let mut next = (0, 0);
    for run in slots {
        let first = run.first as usize;
        // Slots and offsets grow together: the larger pair is the closer one.
        let start = segments.known_offset(first).max(next);
        let count = run.count as usize;
        found.extend(
            with_offsets(segments, start)
                .skip(first - start.0)
                .take(count),
        );
        if let Some(last) = found.last() {
            next = (first + count, last.offset + u64::from(last.segment.length));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::single_range_in_vec_init,
        reason = "a list of ranges, of which there may be one"
    )]

    use std::ops::Range;

    use lodestone_model::{Crc32c, MapId, MapIndex, MapRange};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::index::kind::Kind;

    /// Segments of the maps 0, 1, ... with these lengths.
    fn segments(lengths: &[u32]) -> Segments {
        let mut segments = Segments::new(Kind::Merge);
        for (map, &length) in (0..).zip(lengths) {
            segments.push(&LaidSegment {
                map_index: MapIndex(map),
                map_id: MapId(1),
                sequence: 0,
                length,
                records: 1,
                crc32c: Crc32c(0),
            });
        }
        segments
    }

    fn slots(ranges: &[Range<u32>]) -> Vec<SegmentRun> {
        let run = |range: &Range<u32>| SegmentRun {
            first: range.start,
            count: range.end - range.start,
        };
        ranges.iter().map(run).collect()
    }

    fn shown(runs: &[LaidRun]) -> Vec<(u32, Vec<u32>)> {
        let maps = |run: &LaidRun| run.segments.iter().map(|s| s.map_index.0).collect();
        runs.iter().map(|run| (run.first, maps(run))).collect()
    }

    #[test]
    fn a_map_range_selects_runs_of_slots() {
        let mut all = segments(&[1, 1, 1]);
        let mut again = all.iter().next().unwrap();
        again.map_index = MapIndex(9);
        all.push(&again);
        again.map_index = MapIndex(7);
        all.push(&again);
        let maps =
            |range: MapRange| shown(&selected(&all, |segment| range.contains(segment.map_index)));
        assert_eq!(maps(MapRange::ALL), [(0, vec![0, 1, 2, 9, 7])]);
        let some = MapRange::new(1, 8).unwrap();
        assert_eq!(maps(some), [(1, vec![1, 2]), (4, vec![7])]);
        assert!(maps(MapRange::new(3, 7).unwrap()).is_empty());
    }

    #[test]
    fn an_aborted_segment_is_not_selected_and_its_slot_stays_empty() {
        let mut all = Segments::new(Kind::Remote);
        segments(&[1, 1, 1]).iter().for_each(|one| all.push(&one));
        all.abort((MapIndex(1), MapId(1)), 0, true);
        assert_eq!(
            shown(&selected(&all, |_| true)),
            [(0, vec![0]), (2, vec![2])]
        );
        let offsets: Vec<_> = at(&all, &slots(&[0..3])).iter().map(|p| p.offset).collect();
        assert_eq!(offsets, [0, 1, 1]);
    }

    proptest! {
        #[test]
        fn segments_are_found_where_they_start_after_pushes_drops_and_aborts(
            changes in vec((0..20_u8, 1..600_usize, 0..4_i64, any::<bool>()), 1..12),
            from_handover in any::<bool>(),
        ) {
            let mut all = Segments::new(Kind::Remote);
            let mut length = 0;
            for (change, count, map, closed_up) in changes {
                match change {
                    0..12 => (0..count).for_each(|number| {
                        length = (length * 7 + 3) % 1_000;
                        let mut segment = segments(&[length]).iter().next().unwrap();
                        segment.map_id = MapId(number as i64 % 4);
                        all.push(&segment);
                    }),
                    12..16 => {
                        let in_memory = count.min(all.len());
                        all.abort((MapIndex(0), MapId(map)), in_memory, closed_up);
                    }
                    _ => {
                        all.drop_from(count);
                    }
                }
                if from_handover {
                    let bytes = postcard::to_allocvec(&all).unwrap();
                    all = postcard::from_bytes(&bytes).unwrap();
                    if closed_up {
                        all.complete_offsets();
                    }
                }
                let mut offset = 0;
                let walked: Vec<_> = all.iter().map(|segment| {
                    let found = SegmentAt { offset, segment };
                    offset += u64::from(segment.length);
                    found
                }).collect();
                prop_assert_eq!(all.bytes(), offset);
                let length = all.len() as u32;
                let ranges = [0..length, length / 3..length / 2, length * 3 / 4..length];
                for some in [&ranges[..1], &ranges[1..2], &ranges[1..]] {
                    let some: Vec<_> = some.iter().filter(|one| !one.is_empty()).cloned().collect();
                    let expected = some.iter().flat_map(|one| {
                        walked[one.start as usize..one.end as usize].iter().copied()
                    });
                    prop_assert_eq!(at(&all, &slots(&some)), expected.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn segments_are_found_where_they_start() {
        let all = segments(&[10, 20, 30, 40]);
        let offsets = |ranges: &[Range<u32>]| {
            let slots = slots(ranges);
            check_slots(&all, &slots).ok()?;
            let found = at(&all, &slots);
            Some(found.iter().map(|p| p.offset).collect::<Vec<_>>())
        };
        assert_eq!(offsets(&[0..4]).unwrap(), [0, 10, 30, 60]);
        assert_eq!(offsets(&[1..2, 3..4]).unwrap(), [10, 60]);
        assert_eq!(offsets(&[0..1, 1..3]).unwrap(), [0, 10, 30]);
        assert_eq!(at(&all, &[]), []);
        assert_eq!(offsets(&[]), None, "no run");
        assert_eq!(offsets(&[1..1]), None, "an empty run");
        assert_eq!(offsets(&[3..5]), None);
        assert_eq!(offsets(&[2..3, 1..2]), None, "not in order");
    }
}
