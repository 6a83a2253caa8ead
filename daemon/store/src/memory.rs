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
        self.resources.call_if_short();
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

    /// Writes out data of one place whenever memory is short, until [`Store::end_shortages`]. Each
    /// place needs a thread for it: the data directories, and then the directories of executors.
    pub fn write_out_when_short(&self, place: u16) {
        let at = usize::from(place);
        while self.resources.shortage.wait(at) {
            match self.write_out_as_called(place) {
                0 => self.resources.shortage.rest(at),
                _ => self.resources.call_if_short(),
            }
        }
    }

    /// Makes the threads return that write out data when memory is short. Does not wait for them.
    pub fn end_shortages(&self) {
        self.resources.shortage.end();
    }

    /// Writes out the share of one place, if memory became short since it did so last. Returns how
    /// many bytes left memory.
    pub fn write_out_as_called(&self, place: u16) -> u64 {
        let at = usize::from(place);
        let goal = self.resources.shortage.take(at);
        let partitions = || self.partitions_by_generation();
        let freed = merge::write_out_largest(&self.resources, at, goal, partitions);
        if freed > 0 {
            self.resources.pages.trim();
        }
        freed
    }

    /// Bytes that remote shuffles have in memory only.
    pub fn unwritten_bytes(&self) -> u64 {
        merge::unwritten_bytes(self.remote_partitions())
    }

    /// Writes out some of them, and returns how many bytes; 0 if nothing can be written. While
    /// pushes arrive, there may be as many unwritten bytes afterwards as before.
    pub fn write_some_out(&self) -> Result<u64, Code> {
        self.resources.disks.open_reserve();
        merge::write_some_out(&self.resources, self.remote_partitions())
    }

    /// Steps of writes to disks so far: if it stands still, no disk makes progress.
    pub fn write_steps(&self) -> u64 {
        self.resources.disks.steps()
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
