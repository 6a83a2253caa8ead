// SPDX-License-Identifier: Apache-2.0
//! Memory: its limit, its use, and the data that is written out to keep the limit.

use std::sync::Arc;
use std::time::Duration;

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

    /// Memory of the names of applications and of removed shuffles, which stays when all data goes.
    pub fn memory_of_names(&self) -> u64 {
        self.resources.budget.names()
    }

    /// True if metadata takes more than half of what it may take: soon it is refused, first to
    /// applications that have much of it.
    pub fn is_short_of_metadata(&self) -> bool {
        self.resources.budget.is_short_of_metadata()
    }

    /// True if data should leave the memory: pushes go to disk, or soon will.
    pub fn is_short_of_memory(&self) -> bool {
        self.resources.budget.is_short()
    }

    /// Memory that the store holds, free pages included.
    pub fn memory_held(&self) -> u64 {
        self.resources.pages.bytes() + self.resources.budget.metadata()
    }

    /// Writes out data of one place whenever it is called: memory is short, or the store is drained
    /// or ends. Returns after [`Store::end_writing`]. Each place needs a thread for it: the data
    /// directories, and then the directories of executors.
    pub fn write_out_when_called(&self, place: u16) {
        let at = usize::from(place);
        while self.resources.write_calls.wait(at) {
            match self.write_out_as_called(place) {
                0 => self.resources.write_calls.rest(at),
                _ => self.resources.call_if_short(),
            }
        }
    }

    /// Each place gets a thread that writes out data. Call before they start.
    pub fn begin_writing(&self) {
        self.resources.write_calls.begin();
    }

    /// Makes these threads return, each after the write in work. Does not wait for them.
    pub fn end_writing(&self) {
        self.resources.write_calls.end();
    }

    /// Writes out the share of one place, if it was called since it did so last. Returns how many
    /// bytes left memory.
    pub fn write_out_as_called(&self, place: u16) -> u64 {
        let at = usize::from(place);
        let goal = self.resources.write_calls.take(at);
        let partitions = || self.partitions_by_generation();
        let mut freed = merge::write_out_largest(&self.resources, at, goal, partitions);
        if let Some(mut step) = self.resources.write_calls.take_all(at) {
            step.freed = merge::write_step(&self.resources, at, self.remote_partitions());
            freed += step.freed;
        }
        if freed > 0 {
            self.resources.pages.trim();
        }
        freed
    }

    /// Bytes that remote shuffles have in memory only.
    pub fn unwritten_bytes(&self) -> u64 {
        merge::unwritten_bytes(self.remote_partitions())
    }

    /// Calls the threads of the places to write them out. A thread ends after a step in which
    /// nothing left memory: while pushes arrive, and while a partition is in use, call again.
    pub fn call_to_write_out(&self) {
        self.resources.disks.open_reserve();
        self.resources.write_calls.call_for_all();
    }

    /// Waits until those threads can write no more, for `limit` at the most. Returns true if that
    /// is so. Without threads it does not wait.
    pub fn wait_until_written(&self, limit: Duration) -> bool {
        self.resources.write_calls.wait_until_done(limit)
    }

    /// True if a disk takes writes, as far as is known.
    pub fn takes_writes(&self) -> bool {
        let (disks, environment) = (&self.resources.disks, &self.resources.environment);
        disks.known(environment).is_ok()
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
