// SPDX-License-Identifier: Apache-2.0
//! A generation on its way out: it waits for no thread that still works on a part of it.

use std::sync::Arc;

use lodestone_model::ReduceId;

use super::attempt::Attempt;
use super::attempts::try_discard;
use super::generation::{GENERATION_BYTES, Generation, Phase};
use crate::merge::Partition;
use crate::resource::timed_mutex::TimedMutex;
use crate::resource::{Resources, writing};

/// The end of a generation, or of one partition of Spark's own push, as far as it has come.
#[derive(Debug)]
pub(crate) struct Removal {
    generation: Arc<Generation>,
    reduces: Vec<ReduceId>,
    /// Those on which other threads work.
    partitions: Vec<Arc<Partition>>,
    attempts: Vec<Arc<TimedMutex<Attempt>>>,
    /// Memory that it has beside these.
    bytes: usize,
}

impl Removal {
    /// Ends pushes and fetches. Chunks that are open stay readable. `None`: it was removed before.
    pub(crate) fn begin(generation: Arc<Generation>) -> Option<Self> {
        let removed = {
            let mut partitions = writing(&generation.partitions);
            if partitions.phase == Phase::Removed {
                return None;
            }
            partitions.phase = Phase::Removed;
            std::mem::take(&mut partitions.by_reduce)
        };
        Some(Self {
            reduces: removed.keys().copied().collect(),
            partitions: removed.into_values().collect(),
            attempts: generation.attempts.end(&generation.account),
            bytes: GENERATION_BYTES,
            generation,
        })
    }

    /// Ends a partition that is in no table any more. Its generation stays.
    pub(crate) fn of_partition(generation: &Arc<Generation>, partition: Arc<Partition>) -> Self {
        Self {
            reduces: vec![partition.reduce()],
            partitions: vec![partition],
            attempts: Vec::new(),
            bytes: 0,
            generation: Arc::clone(generation),
        }
    }

    /// Gives back what no other thread works on. Returns true when that is all: then the files are
    /// garbage.
    pub(crate) fn go_on(&mut self, resources: &Resources) -> bool {
        self.partitions
            .retain(|partition| !partition.try_discard(resources));
        self.attempts
            .retain(|attempt| !try_discard(&self.generation.account, attempt));
        let is_done = self.partitions.is_empty() && self.attempts.is_empty();
        if is_done {
            let reduces = self.reduces.iter().copied();
            self.generation.home.discard(resources, reduces);
            self.generation.account.resize(self.bytes, 0);
        }
        is_done
    }
}
