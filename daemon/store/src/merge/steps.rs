// SPDX-License-Identifier: Apache-2.0
//! What remote shuffles have in memory only is written out in steps, while the store goes on: by who
//! drains it, and before it is closed.

use std::cmp::Reverse;
use std::sync::Arc;

use super::partition::Partition;
use crate::model::code::Code;
use crate::store::Store;

/// Bytes that are written out in a step: whoever waits for it learns how far it is.
pub const STEP_BYTES: u64 = 64 * 1024 * 1024;

/// A partition, how much of it is in memory only, and its position among all of them.
type Unwritten = (usize, u64, Arc<Partition>);

impl Store {
    /// Bytes that remote shuffles have in memory only.
    pub fn unwritten_bytes(&self) -> u64 {
        self.unwritten().map(|(_, bytes, _)| bytes).sum()
    }

    /// Writes out some of them, and says how many: none if there are none that can be written. While
    /// pushes come in there may be as many afterwards as before.
    pub fn write_some_out(&self) -> Result<u64, Code> {
        let mut written = 0;
        for (_, bytes, partition) in self.next_step() {
            // It stays in memory if it cannot be written, and is served from there.
            match partition.write_out(&self.resources) {
                Ok(()) => written += bytes,
                // A thread panicked with this one, and nobody can write it; the others can be.
                Err(Code::Internal) => {}
                Err(code) => return Err(code),
            }
        }
        Ok(written)
    }

    /// The largest ones, in order: what was pushed since the step before is not written in small pieces
    /// as long as there is anything larger.
    fn next_step(&self) -> Vec<Unwritten> {
        let mut all: Vec<_> = self.unwritten().collect();
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

    fn unwritten(&self) -> impl Iterator<Item = Unwritten> {
        self.all_remote()
            .into_iter()
            .flat_map(|generation| generation.all_partitions())
            .enumerate()
            .map(|(position, partition)| (position, partition.tail_hint() as u64, partition))
            .filter(|(_, bytes, _)| *bytes > 0)
    }
}
