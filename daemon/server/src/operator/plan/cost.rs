// SPDX-License-Identifier: Apache-2.0
//! What merging costs and saves, in seconds of tasks, as the benchmarks measured it. Each number is
//! a range: machines and jobs differ. docs/plan.md says where each comes from.

use super::range::Range;
use super::rule::Settings;
use super::shuffles::Shuffle;
use crate::cli::Disk;

/// CPU time to read a block by itself (decision 5).
pub(super) const SECONDS_PER_READ: Range = Range::new(12e-6, 25e-6);
/// From here on a small read is one of a slow disk, as the plugin measures it
/// (`MapSample.SlowMicros`).
pub(super) const SECONDS_PER_SLOW_READ: f64 = 2e-3;
/// CPU time of executors and services to merge a gigabyte (decision 5; `sort` of real-jobs.txt).
pub(super) const SECONDS_PER_MERGED_GB: Range = Range::new(0.8, 3.0);
/// The same in mode remote, which writes nothing on executors (`sort`, `tiny`, `rows`, less auto).
pub(super) const SECONDS_PER_REMOTE_GB: Range = Range::new(-2.0, 1.0);
/// A second replica (copies.txt).
pub(super) const SECONDS_PER_COPIED_GB: Range = Range::new(1.0, 2.5);
/// What Lodestone's writer saves for each block: `tiny` without merging (decision 5).
pub(super) const SECONDS_PER_WRITTEN_BLOCK: Range = Range::new(5e-6, 12e-6);
/// What a file for each partition costs, in parts of the time in which Spark wrote. This time has
/// names for the files, writes, copies and deletions, but not the system's call that opens a file,
/// and not the set-up of its stream. Least and most: docs/plan.md.
pub(super) const FILES_PER_WRITE: Range = Range::new(2.5, 6.5);
/// What such a file costs: at least in docs/plan.md, at most `plain` beside `tuned` of `sort` of
/// real-jobs.txt. The time in which Spark wrote grows with bytes, too, which cost the same in one
/// file.
pub(super) const SECONDS_PER_FILE: Range = Range::new(0.49e-3, 1.1e-3);
/// The part of its map tasks' time that this saved: at least in docs/plan.md, at most `sql` of
/// real-jobs.txt (6.95 s to 2.29 s).
pub(super) const PART_OF_FILES: Range = Range::new(0.27, 0.67);
/// Part of the time of map tasks that rows encoded by Lodestone's writer saved: `auto` beside
/// `tuned`, from `rows` of cold.txt to TPC-H of network.txt.
pub(super) const PART_OF_SQL_MAPS: Range = Range::new(0.01, 0.18);

/// The part of readers' idle time that merging saved on a slow disk (docs/plan.md).
const PART_OF_IDLE: f64 = 0.95;

const GB: f64 = 1e9;

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

/// Seconds of tasks and services.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Saved {
    /// What Lodestone alone saves.
    pub(super) own: Range,
    /// What its writer saves, and a setting of Spark too: a file for each partition.
    pub(super) files: Range,
}

/// Returns the seconds of tasks and services that are saved.
pub(super) fn saved(
    shuffle: &Shuffle,
    fate: Fate,
    is_encoded: bool,
    settings: &Settings<'_>,
    disk: Disk,
) -> Saved {
    let gigabytes = shuffle.bytes as f64 / GB;
    if fate == Fate::Spark {
        return Saved::default();
    }
    let Saved { own, files } = written(shuffle, is_encoded, settings, disk);
    let own = match fate {
        Fate::Spark | Fate::Kept => own,
        Fate::Merged => own
            .plus(read(shuffle, shuffle.least_chunks, shuffle.chunks, disk))
            .minus(SECONDS_PER_MERGED_GB.times(gigabytes)),
        Fate::Remote { copies } => own
            .plus(read(
                shuffle,
                shuffle.least_chunks.min(shuffle.remote_chunks),
                shuffle.remote_chunks,
                disk,
            ))
            .minus(SECONDS_PER_REMOTE_GB.times(gigabytes))
            .minus(SECONDS_PER_COPIED_GB.times(gigabytes * f64::from(copies.saturating_sub(1)))),
    };
    Saved { own, files }
}

/// Returns what `spark.shuffle.sort.bypassMergeThreshold=1` saves, without Lodestone.
pub(super) fn without_files(shuffle: &Shuffle, settings: &Settings<'_>, disk: Disk) -> Range {
    if shuffle.combines || shuffle.partitions > settings.bypass_threshold() {
        return Range::default();
    }
    let by_write = FILES_PER_WRITE.times(seconds(shuffle.map_write_ms));
    let by_part = PART_OF_FILES.times(seconds(shuffle.map_run_ms));
    let saved = by_write.or_less(by_part);
    // An empty block has no file. Nobody has measured what a file costs on a slow disk.
    match disk {
        Disk::Ssd => saved.or_less(SECONDS_PER_FILE.by(blocks(shuffle))),
        Disk::Hdd => saved,
    }
}

fn blocks(shuffle: &Shuffle) -> Range {
    let (least, most) = (shuffle.least_blocks as f64, shuffle.blocks as f64);
    // A hash gives a shuffle nearly as many blocks as there can be.
    Range::between(least, most, most)
}

fn written(shuffle: &Shuffle, is_encoded: bool, settings: &Settings<'_>, disk: Disk) -> Saved {
    // Spark's writers write shuffles that combine.
    if shuffle.combines {
        return Saved::default();
    }
    let map_seconds = seconds(shuffle.map_run_ms);
    let files = without_files(shuffle, settings, disk);
    let mut own = SECONDS_PER_WRITTEN_BLOCK.by(blocks(shuffle));
    let mut limit = PART_OF_FILES.high;
    if is_encoded {
        own = own.plus(PART_OF_SQL_MAPS.times(map_seconds));
        limit += PART_OF_SQL_MAPS.high * (1.0 - limit);
    }
    // What Lodestone alone saves is not less because a setting might save more.
    let own = own.at_most(limit * map_seconds);
    let files = files.at_most((limit * map_seconds - own.high).max(0.0));
    Saved { own, files }
}

/// What reading chunks saves. The time in which readers waited may be less, too.
fn read(shuffle: &Shuffle, least: u64, most: u64, disk: Disk) -> Range {
    let reads = shuffle.reads as f64;
    // More reads than now cost.
    let (least, most) = (least as f64, most as f64);
    let fewer = Range::between(reads - most, reads - most, reads - least);
    let mut part = fewer.times(1.0 / reads.max(1.0)).at_least(0.0).at_most(1.0);
    let waiting = match disk {
        Disk::Ssd => waiting_for_others(shuffle),
        Disk::Hdd => waiting_for_the_disk(shuffle),
    };
    // Chunks wait for no disk while the service has them in memory.
    if disk == Disk::Hdd && part.high > 0.5 {
        part.high = 1.0;
    }
    SECONDS_PER_READ.by(fewer).plus(waiting.by(part))
}

/// What Spark counted as waiting for blocks. While a task waits, another thread of the machine
/// reads its block, and `SECONDS_PER_READ` has this. The rest may have other causes.
fn waiting_for_others(shuffle: &Shuffle) -> Range {
    let reading = SECONDS_PER_READ.high * shuffle.reads as f64;
    Range::new(0.0, (seconds(shuffle.wait_ms) - reading).max(0.0))
}

/// The time in which readers were idle: Spark does not count reads of files on the reader's own
/// host. At least what only the disk explains, beyond the time that a small read may take with
/// bytes in the page cache. If this is as long again, the disk is slow for sure, and merging leaves
/// little of the idle time.
fn waiting_for_the_disk(shuffle: &Shuffle) -> Range {
    let quick = SECONDS_PER_SLOW_READ * shuffle.reads as f64;
    let least = (seconds(shuffle.disk_ms) - quick).max(0.0);
    let idle = seconds(shuffle.idle_ms);
    if least > quick {
        Range::between(least, least.max(PART_OF_IDLE * idle), idle)
    } else {
        Range::new(least, idle)
    }
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}
