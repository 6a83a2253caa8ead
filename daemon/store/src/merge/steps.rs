// SPDX-License-Identifier: Apache-2.0
//! Writes out the data of remote shuffles in steps, while the store serves: when an operator drains
//! it, and before it is closed.

use std::cmp::Reverse;
use std::sync::Arc;

use lodestone_model::Code;

use super::partition::Partition;
use crate::resource::Resources;

/// Bytes that are written out in a step. After each step the caller learns the progress.
pub const STEP_BYTES: u64 = 64 * 1024 * 1024;

/// A partition, the length of its tail, and its position among all of them.
type Unwritten = (usize, u64, Arc<Partition>);

/// Bytes that these partitions have in memory only.
pub(crate) fn unwritten_bytes(partitions: impl Iterator<Item = Arc<Partition>>) -> u64 {
    unwritten(partitions).map(|(_, bytes, _)| bytes).sum()
}

/// Writes out some of them, and returns how many bytes; 0 if nothing can be written. While pushes
/// arrive, there may be as many unwritten bytes afterwards as before.
pub(crate) fn write_some_out(
    resources: &Resources,
    partitions: impl Iterator<Item = Arc<Partition>>,
) -> Result<u64, Code> {
    let mut written = 0;
    for (_, bytes, partition) in next_step(partitions) {
        // It stays in memory if it cannot be written, and is served from there.
        match partition.write_out(resources) {
            Ok(()) => written += bytes,
            // A thread panicked while it changed this partition, so it cannot be written; the
            // others can.
            Err(Code::Internal) => {}
            Err(code) => return Err(code),
        }
    }
    Ok(written)
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
