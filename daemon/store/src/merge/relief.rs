// SPDX-License-Identifier: Apache-2.0
//! When memory is short the largest tails are written out, many in one write.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use super::extents::FileRun;
use super::partition::{Inner, Partition};
use crate::resource::Resources;
use crate::resource::disk::DiskIndex;
use crate::resource::home::Place;
use crate::resource::planted::{self, Bug};
use crate::store::Store;

/// What is written together: enough that the call costs nothing beside the bytes, and little enough
/// that those who want to append to one of the partitions do not wait for long.
const TOGETHER_BYTES: usize = 1024 * 1024;

/// How many partitions are written together. With these and their bytes a write stays below the
/// number of slices that the system takes at once (1,024).
const TOGETHER_PARTITIONS: usize = 512;

/// A partition that has something in memory.
struct Candidate {
    bytes: usize,
    /// Position of its generation: only partitions of one are written together.
    generation: usize,
    partition: Arc<Partition>,
}

/// A partition under its lock.
struct Locked<'a> {
    partition: &'a Partition,
    inner: MutexGuard<'a, Inner>,
}

impl Store {
    /// If memory is short, writes out the largest tails until it is not. One thread does so at a
    /// time; the others go on, and write their own partitions through should the rest of the room
    /// go too.
    pub(crate) fn relieve_memory(&self) {
        let budget = &self.resources.budget;
        if !budget.is_pressed() {
            return;
        }
        let Some(_turn) = budget.try_relieve() else {
            return;
        };
        let mut candidates = self.candidates();
        candidates.sort_by_key(|candidate| candidate.bytes);
        loop {
            let mut chosen = Vec::new();
            let mut surplus = budget.surplus();
            while surplus > 0
                && let Some(candidate) = candidates.pop()
            {
                surplus = surplus.saturating_sub(candidate.bytes as u64);
                chosen.push(candidate);
            }
            if chosen.is_empty() {
                return;
            }
            // Neighbours are read one after the other.
            chosen.sort_by_key(|chosen| (chosen.generation, chosen.partition.reduce()));
            for together in batches(&chosen) {
                write_out_together(&self.resources, together);
            }
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let generations = self
            .all_applications()
            .into_iter()
            .flat_map(|application| application.generations());
        let candidate = |(generation, partition): (usize, Arc<Partition>)| {
            let bytes = partition.tail_hint();
            (bytes > 0).then_some(Candidate {
                bytes,
                generation,
                partition,
            })
        };
        generations
            .enumerate()
            .flat_map(|(at, generation)| {
                generation
                    .all_partitions()
                    .into_iter()
                    .map(move |p| (at, p))
            })
            .filter_map(candidate)
            .collect()
    }
}

/// Cuts into runs of one generation that are small enough to be written together.
fn batches(chosen: &[Candidate]) -> impl Iterator<Item = &[Candidate]> {
    let mut bytes = 0;
    let mut count = 0;
    chosen.chunk_by(move |one, next| {
        if count == 0 {
            bytes = one.bytes;
        }
        (bytes, count) = (bytes + next.bytes, count + 1);
        let fits = one.generation == next.generation
            && bytes <= TOGETHER_BYTES
            && count < TOGETHER_PARTITIONS;
        if !fits {
            count = 0;
        }
        fits
    })
}

/// Writes out partitions of one generation: those whose next bytes go to the file that they share on
/// a disk in one write, each other alone. A failure is logged and taken note of where it happens.
fn write_out_together(resources: &Resources, candidates: &[Candidate]) {
    let mut by_disk: BTreeMap<DiskIndex, Vec<Locked<'_>>> = BTreeMap::new();
    for candidate in candidates {
        let partition = candidate.partition.as_ref();
        let Some(mut inner) = partition.lock_with_tail() else {
            continue;
        };
        let length = inner.tail.len() as u64;
        match partition.place(resources, &inner, length) {
            Ok(Place::Spill(disk)) => {
                let group = by_disk.entry(disk).or_default();
                group.push(Locked { partition, inner });
            }
            _ => {
                let _ = partition.write_out_locked(resources, &mut inner, &[]);
            }
        }
    }
    for (disk, group) in by_disk {
        spill(resources, disk, group);
    }
}

fn spill(resources: &Resources, disk: DiskIndex, group: Vec<Locked<'_>>) {
    let Some(home) = group.first().map(|locked| locked.partition.home()) else {
        return;
    };
    let slices: Vec<&[u8]> = group
        .iter()
        .flat_map(|locked| locked.inner.tail.slices())
        .collect();
    let written = home.spill(resources, disk, &slices);
    let mut offset = match written {
        Ok(offset) => offset,
        Err(error) => {
            let code = home.report(resources, disk, &error);
            tracing::warn!(disk, %code, %error, "write out partitions together");
            // Each for itself: there may be another disk, and if not each drops what it must.
            for Locked {
                partition,
                mut inner,
            } in group
            {
                let _ = partition.write_out_locked(resources, &mut inner, &[]);
            }
            return;
        }
    };
    for Locked {
        partition,
        mut inner,
    } in group
    {
        let length = inner.tail.len() as u64;
        let run = FileRun {
            place: Place::Spill(disk),
            offset,
            length,
        };
        partition.note_written(resources, &mut inner, run);
        partition.leave_memory(resources, &mut inner);
        if !planted::is(Bug::PiecesMixedUp) {
            offset += length;
        }
    }
}
