// SPDX-License-Identifier: Apache-2.0
//! Removes the segments of an aborted attempt and frees their space: gaps in memory are closed, and
//! the thread of a disk punches holes in its files.

use std::ops::Range;

use lodestone_model::{Code, LaidSegment, MapId, MapIndex};

use super::extents::FileRange;
use super::partition::{Inner, Partition, Phase};
use crate::resource::Resources;
use crate::resource::holes::Hole;
use crate::resource::timed_mutex::AbortWaits;

/// Disks free whole blocks: a smaller hole would free nothing.
const HOLE_BYTES_MIN: u64 = 4096;

impl Partition {
    /// Takes the segments of an attempt out.
    pub(crate) fn abort(
        &self,
        resources: &Resources,
        waits: &AbortWaits,
        attempt: (MapIndex, MapId),
    ) -> Result<(), Code> {
        let holes = {
            let mut inner = self.lock_to_abort(waits)?;
            if inner.phase == Phase::Removed {
                return Ok(());
            }
            let before = inner.index_bytes();
            let holes = inner.abort(attempt);
            self.account().resize(before, inner.index_bytes());
            self.update_index_hints(&inner);
            self.update_tail_hints(&inner);
            holes
        };
        // The thread of the disk punches them: a disk that hangs must not take those for aborts.
        for FileRange {
            file,
            offset,
            length,
        } in holes
        {
            let hole = Hole {
                home: self.shared_home(),
                file,
                reduce: self.reduce(),
                bytes: (offset, length),
            };
            let place = self.home().place(file, self.reduce());
            resources.trash.put_hole(place, hole);
        }
        Ok(())
    }
}

impl Inner {
    /// Marks the segments as gone, closes the gaps in the tail, and returns the ranges of files
    /// that hold their bytes. If readers share the tail, it is not changed: the bytes stay, and no
    /// reader finds them.
    fn abort(&mut self, attempt: (MapIndex, MapId)) -> Vec<FileRange> {
        let (map_index, map_id) = attempt;
        let is_its =
            |segment: &LaidSegment| segment.map_index == map_index && segment.map_id == map_id;
        let in_tail = self.segments.iter().skip(self.on_file);
        let mut kept: Vec<Range<usize>> = Vec::new();
        let mut end = 0;
        for segment in in_tail {
            let start = end;
            end += segment.length as usize;
            match kept.last_mut() {
                _ if is_its(&segment) => {}
                Some(last) if last.end == start => last.end = end,
                _ => kept.push(start..end),
            }
        }
        let all_kept = kept.iter().map(|range| range.len()).sum::<usize>() == end;
        let closed_up = all_kept || self.tail.try_keep(&kept);
        let on_disk = self.extents.bytes();
        let left = self.segments.abort(attempt, self.on_file, closed_up);
        let on_disk = left.into_iter().filter(|(offset, _)| *offset < on_disk);
        let ranges = on_disk.flat_map(|(offset, length)| self.extents.ranges(offset, length));
        joined(ranges)
    }
}

/// Runs that follow one another are one hole.
fn joined(ranges: impl Iterator<Item = FileRange>) -> Vec<FileRange> {
    let mut holes: Vec<FileRange> = Vec::new();
    for range in ranges {
        match holes.last_mut() {
            Some(last) if last.file == range.file && last.offset + last.length == range.offset => {
                last.length += range.length;
            }
            _ => holes.push(range),
        }
    }
    holes.retain(|hole| hole.length >= HOLE_BYTES_MIN);
    holes
}
