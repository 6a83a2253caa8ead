// SPDX-License-Identifier: Apache-2.0
//! Memory: its limit, its use, and the data that is written out to keep the limit.

use std::sync::Arc;

use lodestone_model::Code;

use crate::merge::{self, Partition};
use crate::state::store::Store;

impl Store {
    /// Changes the memory limit, when the memory that the host can spare changes. Data above the
    /// new limit goes to disk.
    pub fn limit_memory(&self, bytes: u64) {
        self.resources.budget.set_limit(bytes);
        self.write_out_if_short();
        self.resources.pages.trim();
    }

    /// Gives memory back that was not needed for half an hour.
    pub fn give_back_idle_memory(&self) {
        self.resources.pages.give_back_idle(self.now_ms());
    }

    /// Memory that the store holds, free pages included.
    pub fn memory_held(&self) -> u64 {
        self.resources.pages.bytes() + self.resources.budget.metadata()
    }

    /// If memory is short, writes out partitions until it is not.
    pub(crate) fn write_out_if_short(&self) {
        merge::write_out_if_short(&self.resources, || self.partitions_by_generation());
    }

    /// Bytes that remote shuffles have in memory only.
    pub fn unwritten_bytes(&self) -> u64 {
        merge::unwritten_bytes(self.remote_partitions())
    }

    /// Writes out some of them, and returns how many bytes; 0 if nothing can be written. While
    /// pushes arrive, there may be as many unwritten bytes afterwards as before.
    pub fn write_some_out(&self) -> Result<u64, Code> {
        merge::write_some_out(&self.resources, self.remote_partitions())
    }

    /// Each with the position of its generation.
    fn partitions_by_generation(&self) -> impl Iterator<Item = (usize, Arc<Partition>)> {
        self.all_applications()
            .into_iter()
            .flat_map(|application| application.generations())
            .enumerate()
            .flat_map(|(at, generation)| {
                generation
                    .all_partitions()
                    .into_iter()
                    .map(move |partition| (at, partition))
            })
    }

    fn remote_partitions(&self) -> impl Iterator<Item = Arc<Partition>> {
        self.all_remote()
            .into_iter()
            .flat_map(|generation| generation.all_partitions())
    }
}
