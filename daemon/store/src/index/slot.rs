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

/// Returns all segments with their offsets.
pub(crate) fn with_offsets(segments: &Segments) -> impl Iterator<Item = SegmentAt> {
    let mut offset = 0;
    segments.iter().map(move |segment| {
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
    let mut all = (0_u32..).zip(with_offsets(segments));
    for run in slots {
        let within = all.by_ref().skip_while(|(slot, _)| *slot < run.first);
        found.extend(within.take(run.count as usize).map(|(_, one)| one));
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
