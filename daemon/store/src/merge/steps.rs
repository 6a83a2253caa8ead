// SPDX-License-Identifier: Apache-2.0
//! Writes out the data of remote shuffles in steps, by a thread of each disk: when an operator
//! drains the store, and before it is closed.

use std::cmp::Reverse;
use std::sync::Arc;

use super::partition::Partition;
use crate::resource::Resources;

/// Bytes that one place writes out in a step. After each step the caller learns the progress.
pub const STEP_BYTES: u64 = 64 * 1024 * 1024;

/// A partition, the length of its tail, and its position among all of them.
type Unwritten = (usize, u64, Arc<Partition>);

/// Bytes that these partitions have in memory only.
pub(crate) fn unwritten_bytes(partitions: impl Iterator<Item = Arc<Partition>>) -> u64 {
    unwritten(partitions).map(|(_, bytes, _)| bytes).sum()
}

/// Writes out some of what `place` gets, and returns how many bytes left memory. What cannot be
/// written stays in memory, and is served from there: no disk takes it, or another thread has the
/// lock of the partition, or left it half changed. While pushes arrive, there may be as many
/// unwritten bytes afterwards as before.
pub(crate) fn write_step(
    resources: &Resources,
    place: usize,
    partitions: impl Iterator<Item = Arc<Partition>>,
) -> u64 {
    let is_here = |partition: &Arc<Partition>| partition.next_place(resources) == Some(place);
    let mut freed = 0;
    for (_, bytes, partition) in next_step(partitions.filter(is_here)) {
        // Each failure was logged where it happened, and the next partition may have better luck.
        let _ = partition.write_out_if_free(resources);
        freed += bytes.saturating_sub(partition.tail_hint() as u64);
    }
    freed
}

/// Returns the largest ones, in order: segments that were pushed since the step before are not
/// written in small pieces as long as there is anything larger.
fn next_step(partitions: impl Iterator<Item = Arc<Partition>>) -> Vec<Unwritten> {
    let mut all: Vec<_> = unwritten(partitions).collect();
    all.sort_by_key(|(_, bytes, _)| Reverse(*bytes));
    let mut left = STEP_BYTES;
    let mut step: Vec<_> = all
        .into_iter()
        .take_while(|(_, bytes, _)| {
            let is_next = left > 0;
            left = left.saturating_sub(*bytes);
            is_next
        })
        .collect();
    step.sort_by_key(|(position, ..)| *position);
    step
}

fn unwritten(partitions: impl Iterator<Item = Arc<Partition>>) -> impl Iterator<Item = Unwritten> {
    partitions
        .enumerate()
        .map(|(position, partition)| (position, partition.tail_hint() as u64, partition))
        .filter(|(_, bytes, _)| *bytes > 0)
}
