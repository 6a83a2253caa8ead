// SPDX-License-Identifier: Apache-2.0
//! What merging costs and saves, in seconds of tasks, as the benchmarks measured it. Each number is
//! a range: machines and jobs differ. docs/plan.md says where each comes from.

use super::rule::Settings;
use super::shuffles::Shuffle;
use crate::cli::Disk;

/// From the least to the most.
#[derive(Debug, Default, Clone, Copy, PartialEq, serde::Serialize)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Range {
    pub(super) const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self::new(self.low * factor, self.high * factor)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self::new(self.low - other.high, self.high - other.low)
    }

    fn at_most(self, limit: f64) -> Self {
        Self::new(self.low.min(limit), self.high.min(limit))
    }
}

/// CPU time to read a block by itself (decision 5).
pub(super) const SECONDS_PER_READ: Range = Range::new(12e-6, 25e-6);
/// The least time of a read on a disk with a head: 200 a second.
pub(super) const SECONDS_PER_SLOW_READ: f64 = 5e-3;
/// Linux reads so many bytes first at a new place of a file that is read in steps of 8 KiB.
const FIRST_READ_BYTES: u64 = 16 << 10;
/// CPU time of executors and services to merge a gigabyte (decision 5; `sort` of real-jobs.txt).
pub(super) const SECONDS_PER_MERGED_GB: Range = Range::new(0.8, 3.0);
/// The same in mode remote, which writes nothing on executors (`sort`, `tiny`, `rows`, less auto).
pub(super) const SECONDS_PER_REMOTE_GB: Range = Range::new(-2.0, 1.0);
/// A second replica (copies.txt).
pub(super) const SECONDS_PER_COPIED_GB: Range = Range::new(1.0, 2.5);
/// What Lodestone's writer saves for each block: `tiny` without merging (decision 5).
pub(super) const SECONDS_PER_WRITTEN_BLOCK: Range = Range::new(5e-6, 12e-6);
/// A file for each partition in each map task: `plain` beside `tuned` of network.txt (least) and of
/// `sort` of real-jobs.txt (most).
pub(super) const SECONDS_PER_FILE: Range = Range::new(0.0, 1.1e-3);
/// The most of its map tasks' time that this saved (`sql` of real-jobs.txt: 6.95 s to 2.29 s).
pub(super) const MOST_OF_FILES: f64 = 0.67;
/// Part of the time of map tasks that rows encoded by Lodestone's writer saved: `auto` beside
/// `tuned`, from `rows` of cold.txt to TPC-H of network.txt.
pub(super) const PART_OF_SQL_MAPS: Range = Range::new(0.01, 0.18);

const GB: f64 = 1e9;

/// The disks of executors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disks {
    pub(super) kind: Disk,
    /// How many tasks wait for one disk at a time on average.
    pub(super) tasks: f64,
}

/// What would happen to a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Spark writes and reads it.
    Spark,
    /// Lodestone writes it, and its originals are read.
    Kept,
    Merged,
    Remote {
        copies: u32,
    },
}

/// Returns the seconds of tasks and services that are saved.
pub(super) fn saved(
    shuffle: &Shuffle,
    fate: Fate,
    is_encoded: bool,
    settings: &Settings<'_>,
    disks: Disks,
) -> Range {
    let gigabytes = shuffle.bytes as f64 / GB;
    let written = written(shuffle, is_encoded, settings);
    match fate {
        Fate::Spark => Range::default(),
        Fate::Kept => written,
        Fate::Merged => written
            .plus(read(shuffle, disks))
            .minus(SECONDS_PER_MERGED_GB.times(gigabytes)),
        Fate::Remote { copies } => written
            .plus(read(shuffle, disks))
            .minus(SECONDS_PER_REMOTE_GB.times(gigabytes))
            .minus(SECONDS_PER_COPIED_GB.times(gigabytes * f64::from(copies.saturating_sub(1)))),
    }
}

fn written(shuffle: &Shuffle, is_encoded: bool, settings: &Settings<'_>) -> Range {
    // Spark's writers write shuffles that combine.
    if shuffle.combines {
        return Range::default();
    }
    let map_seconds = shuffle.map_run_ms as f64 / 1000.0;
    let blocks = shuffle.blocks as f64;
    let mut saved = SECONDS_PER_WRITTEN_BLOCK.times(blocks);
    if shuffle.partitions <= settings.bypass_threshold() {
        saved = saved.plus(SECONDS_PER_FILE.times(blocks));
    }
    let mut limit = MOST_OF_FILES;
    if is_encoded {
        saved = saved.plus(PART_OF_SQL_MAPS.times(map_seconds));
        limit += PART_OF_SQL_MAPS.high * (1.0 - limit);
    }
    saved.at_most(limit * map_seconds)
}

/// What reading chunks saves. The time in which readers waited is the most that it can save beside
/// their CPU time: on a fast disk what Spark counted, on a slow one all in which they computed
/// nothing, because Spark does not count reads of files on the reader's own host. The least on a
/// slow one is the time of the disk, for which the tasks of a host wait together.
fn read(shuffle: &Shuffle, disks: Disks) -> Range {
    let fewer = shuffle.reads.saturating_sub(shuffle.chunks) as f64;
    let part = if shuffle.reads == 0 {
        0.0
    } else {
        fewer / shuffle.reads as f64
    };
    let waited = match disks.kind {
        Disk::Ssd => Range::new(0.0, shuffle.wait_ms as f64 / 1000.0 * part),
        Disk::Hdd => {
            let idle = shuffle.idle_ms as f64 / 1000.0 * part;
            let of_a_block = 1 + shuffle.mean_block() / FIRST_READ_BYTES;
            let at_the_disk = fewer * of_a_block as f64 * SECONDS_PER_SLOW_READ;
            Range::new((at_the_disk * disks.tasks).min(idle), idle)
        }
    };
    SECONDS_PER_READ.times(fewer).plus(waited)
}
