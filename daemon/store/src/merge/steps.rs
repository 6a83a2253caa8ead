// SPDX-License-Identifier: Apache-2.0
//! Writes out the data of remote shuffles in steps, by a thread of each place: when an operator
//! drains the store, and before it is closed.

use std::sync::Arc;

use super::partition::Partition;
use crate::resource::Resources;

/// Bytes that one place writes out in a step. After each step others see the progress.
pub const STEP_BYTES: u64 = 64 * 1024 * 1024;

/// A partition, the length of its tail, and its position among all of them.
type Unwritten = (usize, u64, Arc<Partition>);

/// Bytes that these partitions have in memory only.
pub(crate) fn unwritten_bytes(partitions: impl Iterator<Item = Arc<Partition>>) -> u64 {
    unwritten(partitions).map(|(_, bytes, _)| bytes).sum()
}

/// Writes out some of the data that `place` gets, the largest tails first, and returns how many
/// bytes left memory. Data that cannot be written stays in memory, and is served from there: no
/// disk takes it, another thread has the lock of its partition, or left the partition half changed.
/// Then the next partitions are written in its place. While pushes arrive, there may be as many
/// unwritten bytes afterwards as before.
pub(crate) fn write_step(
    resources: &Resources,
    place: usize,
    partitions: impl Iterator<Item = Arc<Partition>>,
) -> u64 {
    let is_here = |(_, _, partition): &Unwritten| partition.next_place(resources) == Some(place);
    let mut left: Vec<_> = unwritten(partitions).filter(is_here).collect();
    left.sort_by_key(|(_, bytes, _)| *bytes);
    let mut freed = 0;
    while freed < STEP_BYTES && !left.is_empty() {
        for (_, bytes, partition) in largest(&mut left, STEP_BYTES - freed) {
            if resources.write_calls.is_over() {
                return freed;
            }
            // Logged where it failed.
            let _ = partition.write_out_if_free(resources, place);
            freed += bytes.saturating_sub(partition.tail_hint() as u64);
        }
    }
    freed
}

/// Takes the largest ones out of a sorted list, at least so many bytes if there are, and returns
/// them by position: segments that were pushed since the step before are not written in small
/// pieces as long as there is anything larger.
fn largest(sorted: &mut Vec<Unwritten>, mut bytes: u64) -> Vec<Unwritten> {
    let mut taken = Vec::new();
    while bytes > 0
        && let Some(next) = sorted.pop()
    {
        bytes = bytes.saturating_sub(next.1);
        taken.push(next);
    }
    taken.sort_by_key(|(position, ..)| *position);
    taken
}

fn unwritten(partitions: impl Iterator<Item = Arc<Partition>>) -> impl Iterator<Item = Unwritten> {
    partitions
        .enumerate()
        .map(|(position, partition)| (position, partition.tail_hint() as u64, partition))
        .filter(|(_, bytes, _)| *bytes > 0)
}
