// SPDX-License-Identifier: Apache-2.0
//! Where on disk the bytes of a partition are: a list of extents, in the order of the partition.

use serde::{Deserialize, Serialize};

use crate::resource::home::DataFile;

/// No file has a byte behind this one.
pub(super) const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Consecutive bytes of a partition that are consecutive in one file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Extent {
    file: DataFile,
    /// Where it starts in the file.
    offset: u64,
    /// Where it ends in the partition.
    end: u64,
}

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRange {
    pub(crate) file: DataFile,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// The extents that hold all bytes of a partition that were written out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Extents {
    list: Vec<Extent>,
}

impl Extents {
    /// Bytes in all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.list.last().map_or(0, |last| last.end)
    }

    /// True if a daemon with so many disks may have all of these bytes in its files.
    pub(super) fn are_sound(&self, disks: usize) -> bool {
        let mut start = 0;
        self.list.iter().all(|extent| {
            let length = extent.end.checked_sub(start);
            start = extent.end;
            let file_end = length.and_then(|length| extent.offset.checked_add(length));
            usize::from(extent.file.disk()) < disks
                && file_end.is_some_and(|end| end <= FILE_BYTES_MAX)
                && extent.end <= FILE_BYTES_MAX
        })
    }

    /// Appends a range; one that continues the last is joined with it.
    pub(crate) fn push(&mut self, range: FileRange) {
        if range.length == 0 {
            return;
        }
        let start = self.bytes();
        let end = start + range.length;
        let before = self
            .list
            .len()
            .checked_sub(2)
            .and_then(|at| self.list.get(at));
        let last_start = before.map_or(0, |before| before.end);
        if let Some(last) = self.list.last_mut()
            && last.file == range.file
            && last.offset + (last.end - last_start) == range.offset
        {
            last.end = end;
            return;
        }
        if self.list.len() == self.list.capacity() {
            self.list.reserve_exact(1.max(self.list.len() / 4));
        }
        let (file, offset) = (range.file, range.offset);
        self.list.push(Extent { file, offset, end });
    }

    /// Returns the file ranges that hold a range of the partition's bytes; nothing beyond
    /// [`Extents::bytes`].
    pub(crate) fn ranges(&self, offset: u64, length: u64) -> impl Iterator<Item = FileRange> {
        let first = self.list.partition_point(|extent| extent.end <= offset);
        let before = first.checked_sub(1).and_then(|at| self.list.get(at));
        let mut start = before.map_or(0, |before| before.end);
        let until = offset + length;
        self.list.iter().skip(first).map_while(move |extent| {
            let from = start.max(offset);
            let to = extent.end.min(until);
            let range = FileRange {
                file: extent.file,
                offset: extent.offset + (from - start),
                length: to.checked_sub(from).filter(|length| *length > 0)?,
            };
            start = extent.end;
            Some(range)
        })
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Frees the memory that is reserved for growth.
    pub(crate) fn shrink(&mut self) {
        self.list.shrink_to_fit();
    }

    /// Heap memory of the list.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Extent>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(file: DataFile, offset: u64, length: u64) -> FileRange {
        FileRange {
            file,
            offset,
            length,
        }
    }

    fn sample() -> Extents {
        let mut extents = Extents::default();
        extents.push(range(DataFile::Shared(0), 1000, 10));
        extents.push(range(DataFile::Shared(0), 1010, 10));
        extents.push(range(DataFile::Shared(0), 5000, 30));
        extents.push(range(DataFile::Own(1), 0, 50));
        extents
    }

    #[test]
    fn a_range_is_found_in_the_file_ranges_that_hold_it() {
        let extents = sample();
        assert_eq!(extents.bytes(), 100);
        let ranges = |offset, length| extents.ranges(offset, length).collect::<Vec<_>>();
        let all = [
            range(DataFile::Shared(0), 1000, 20),
            range(DataFile::Shared(0), 5000, 30),
            range(DataFile::Own(1), 0, 50),
        ];
        assert_eq!(ranges(0, 100), all);
        assert_eq!(ranges(5, 5), [range(DataFile::Shared(0), 1005, 5)]);
        assert_eq!(ranges(20, 30), [range(DataFile::Shared(0), 5000, 30)]);
        assert_eq!(
            ranges(49, 2),
            [
                range(DataFile::Shared(0), 5029, 1),
                range(DataFile::Own(1), 0, 1)
            ]
        );
        assert_eq!(ranges(90, 10), [range(DataFile::Own(1), 40, 10)]);
    }

    #[test]
    fn unwritten_bytes_are_in_no_file_range() {
        let extents = sample();
        assert_eq!(extents.ranges(100, 5).count(), 0);
        let held: u64 = extents.ranges(95, 20).map(|range| range.length).sum();
        assert_eq!(held, 5);
        assert_eq!(Extents::default().ranges(0, 1).count(), 0);
    }
}
