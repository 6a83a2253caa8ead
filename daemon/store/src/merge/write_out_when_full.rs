// SPDX-License-Identifier: Apache-2.0
//! When memory is short, writes out tails of one place that readers have taken, then the largest,
//! many in one write.

use std::sync::Arc;

use lodestone_planted::{self as planted, Bug};

use super::extents::FileRange;
use super::partition::{Inner, Partition};
use super::write_out::Writer;
use crate::resource::Resources;
use crate::resource::disk::DiskIndex;
use crate::resource::home::DataFile;
use crate::resource::timed_mutex::TimedGuard;

/// Bytes of a group: so many that the call costs nothing beside the bytes, and so few that appends
/// to one of the partitions do not wait for long.
const GROUP_BYTES: usize = 1024 * 1024;

/// Partitions of a group. With these and their bytes a write stays below the number of slices that
/// the system takes at once (1,024).
const GROUP_PARTITIONS: usize = 512;

/// A partition that has something in memory.
struct Candidate {
    bytes: usize,
    was_read: bool,
    /// Position of its generation: only partitions of one are written together.
    generation: usize,
    partition: Arc<Partition>,
}

/// The tail of one partition that is being written, under its lock: no other thread appends
/// meanwhile.
struct WriteOutPart<'a> {
    partition: &'a Partition,
    inner: TimedGuard<'a, Inner>,
}

/// Writes out so many bytes of tails that readers have taken, and of the largest tails. It takes
/// the tails that `place` gets. Returns how many bytes left memory.
///
/// `partitions` are all that may be written out, each with the position of its generation.
pub(crate) fn write_out_largest<Partitions>(
    resources: &Resources,
    place: usize,
    bytes: u64,
    partitions: impl FnOnce() -> Partitions,
) -> u64
where
    Partitions: Iterator<Item = (usize, Arc<Partition>)>,
{
    let mut freed = 0;
    if bytes == 0 {
        return freed;
    }
    let is_here = |partition: &Partition| {
        // If no disk takes the bytes, tails with originals are dropped, which any thread can do.
        partition.next_place(resources).unwrap_or(place) == place
    };
    let mut candidates: Vec<_> = partitions()
        .filter_map(Candidate::of)
        .filter(|candidate| is_here(&candidate.partition))
        .collect();
    candidates.sort_by_key(|candidate| (candidate.was_read, candidate.bytes));
    loop {
        let mut chosen = Vec::new();
        let mut left = bytes.saturating_sub(freed).min(resources.budget.surplus());
        while left > 0
            && let Some(candidate) = candidates.pop()
        {
            left = left.saturating_sub(candidate.bytes as u64);
            chosen.push(candidate);
        }
        if chosen.is_empty() {
            return freed;
        }
        // Neighbours are read one after the other.
        chosen.sort_by_key(|chosen| (chosen.generation, chosen.partition.reduce()));
        for group in groups(&chosen) {
            write_out_group(resources, place, group);
        }
        freed += chosen.iter().map(Candidate::freed).sum::<u64>();
    }
}

impl Candidate {
    fn of((generation, partition): (usize, Arc<Partition>)) -> Option<Self> {
        let bytes = partition.tail_hint();
        (bytes > 0).then_some(Self {
            bytes,
            was_read: partition.read_hint(),
            generation,
            partition,
        })
    }

    /// Bytes that it has no more in memory, as far as is known.
    fn freed(&self) -> u64 {
        self.bytes.saturating_sub(self.partition.tail_hint()) as u64
    }
}

/// Cuts the list into groups of one generation that are small enough to be written together.
fn groups(chosen: &[Candidate]) -> impl Iterator<Item = &[Candidate]> {
    let mut bytes = 0;
    let mut count = 0;
    chosen.chunk_by(move |one, next| {
        if count == 0 {
            bytes = one.bytes;
        }
        (bytes, count) = (bytes + next.bytes, count + 1);
        let fits =
            one.generation == next.generation && bytes <= GROUP_BYTES && count < GROUP_PARTITIONS;
        if !fits {
            count = 0;
        }
        fits
    })
}

/// Writes out partitions of one generation that go to one place: those whose next bytes go to the
/// shared file of the disk in one write, each other one alone. A failure is logged and recorded
/// where it happens.
///
/// All locks that are held while a disk works belong to partitions on this disk: a disk that hangs
/// blocks no partition on another one.
fn write_out_group(resources: &Resources, place: usize, candidates: &[Candidate]) {
    let shared: Vec<&Partition> = candidates
        .iter()
        .map(|candidate| candidate.partition.as_ref())
        .filter(|partition| partition.goes_to_shared_file(resources, place))
        .collect();
    if let Some(disk) = resources.disks.at(place) {
        let parts = shared
            .into_iter()
            .filter_map(|partition| WriteOutPart::of(resources, partition, disk));
        write_shared(resources, disk, parts.collect());
    }
}

impl Partition {
    /// Returns true if the tail goes to the shared file of this disk. A partition that goes to its
    /// own file is written out here.
    fn goes_to_shared_file(&self, resources: &Resources, place: usize) -> bool {
        let Some(mut inner) = self.try_lock_with_tail() else {
            return false;
        };
        let writer = Writer::Place(place);
        match self.next_file(resources, writer, &inner, inner.tail.len() as u64) {
            Ok(DataFile::Shared(disk)) => usize::from(disk) == place,
            Ok(DataFile::Own(_)) => {
                drop(inner);
                let _ = self.write_out_if_free(resources, place);
                false
            }
            Err(_) => {
                let _ = self.write_out_locked(resources, writer, &mut inner, &[]);
                false
            }
        }
    }
}

fn write_shared(resources: &Resources, disk: DiskIndex, parts: Vec<WriteOutPart<'_>>) {
    let Some(first) = parts.first().map(|part| part.partition) else {
        return;
    };
    let slices: Vec<&[u8]> = parts
        .iter()
        .flat_map(|part| part.inner.tail.slices())
        .collect();
    match first.home().write_shared(resources, None, disk, &slices) {
        Ok(mut offset) => {
            for part in parts {
                let length = part.inner.tail.len() as u64;
                let range = FileRange {
                    file: DataFile::Shared(disk),
                    offset,
                    length,
                };
                part.written(range);
                if !planted::is(Bug::PartsMixedUp) {
                    offset += length;
                }
            }
        }
        Err(error) => {
            let code = first.home().report(resources, disk, &error);
            tracing::warn!(disk, %code, %error, "a write of several partitions together failed");
            let partitions: Vec<_> = parts.into_iter().map(|part| part.partition).collect();
            partitions
                .into_iter()
                .for_each(|partition| write_alone(resources, disk, partition));
        }
    }
}

/// If no disk takes the bytes, each partition drops its segments if it may. Otherwise the thread of
/// another disk writes them.
fn write_alone(resources: &Resources, disk: DiskIndex, partition: &Partition) {
    if let Some(mut inner) = partition.try_lock_with_tail() {
        let _ = partition.write_out_locked(resources, Writer::Place(disk.into()), &mut inner, &[]);
    }
}

impl<'a> WriteOutPart<'a> {
    /// Returns the partition with its lock, if it still goes to the shared file of this disk.
    fn of(resources: &Resources, partition: &'a Partition, disk: DiskIndex) -> Option<Self> {
        let inner = partition.try_lock_with_tail()?;
        let length = inner.tail.len() as u64;
        let file = partition.next_file(resources, Writer::Place(disk.into()), &inner, length);
        file.is_ok_and(|file| file == DataFile::Shared(disk))
            .then_some(Self { partition, inner })
    }

    fn written(mut self, range: FileRange) {
        self.partition.record_extent(&mut self.inner, range);
        self.partition.leave_memory(&mut self.inner);
    }
}
