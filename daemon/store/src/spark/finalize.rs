// SPDX-License-Identifier: Apache-2.0
//! The end of Spark's own push: no more appends, and files that executors read. A repetition gets
//! the same answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use lodestone_model::{Code, MergeStatus, Refusal, ShuffleKey};

use super::push::generation_to_finalize;
use crate::merge;
use crate::resource::dirs::MergedFile;
use crate::resource::home::Home;
use crate::resource::timed_mutex::{LockWaits, Wait};
use crate::resource::{reading, writing};
use crate::state::generation::{Generation, Phase};
use crate::state::removal::Removal;
use crate::state::store::Store;

/// Memory of a status without its maps.
pub const STATUS_BYTES: usize = 128;

impl Store {
    /// Spark's `FinalizeShuffleMerge`: finalizes and returns what is merged. A shuffle of a known
    /// application without any push is finalized empty, and late pushes are refused. Partitions
    /// whose statuses would take more than `most_bytes` together are left out: Spark reads their
    /// originals.
    pub fn merge_statuses(
        &self,
        key: &ShuffleKey,
        most_bytes: usize,
    ) -> Result<Vec<MergeStatus>, Refusal> {
        let generation = generation_to_finalize(self, key)?;
        generation.finalize(self)?;
        let partitions: Vec<_> = {
            let partitions = reading(&generation.partitions);
            partitions
                .by_reduce
                .iter()
                .map(|(id, p)| (*id, p.clone()))
                .collect()
        };
        let mut statuses = Vec::new();
        let (mut bytes, mut left_out) = (0, 0);
        for (reduce, partition) in partitions {
            let mut status = partition
                .view(Wait::InTime, |view| MergeStatus {
                    reduce_id: reduce,
                    maps: view.segments.maps(),
                    bytes: view.segments.bytes(),
                })
                .map_err(|code| generation.refuse(code))?;
            status.maps.optimize();
            bytes += STATUS_BYTES + status.maps.serialized_size();
            match status.maps.is_empty() {
                true => {}
                false if bytes > most_bytes => left_out += 1,
                false => statuses.push(status),
            }
        }
        if left_out > 0 {
            tracing::warn!(
                shuffle = %key, partitions = left_out, most_bytes,
                "the statuses of merged partitions are too large for the memory for answers: Spark \
                 reads originals in place of some partitions; start the daemon with more --memory"
            );
        }
        Ok(statuses)
    }
}

impl Store {
    /// How many partitions and segments [`Store::merge_statuses`] is about at most, as far as is
    /// known. Waits for no partition.
    pub fn merged_at_most(&self, key: &ShuffleKey) -> (usize, usize) {
        let Ok(generation) = self.generation(key, Code::UnknownShuffle) else {
            return (0, 0);
        };
        let partitions = reading(&generation.partitions);
        let segments = partitions.by_reduce.values().map(|one| one.segments_hint());
        (partitions.by_reduce.len(), segments.sum())
    }
}

impl Generation {
    /// Holds a lock of its own, so that a repeated request waits for the first one (with a
    /// time-out). Pushes of other shuffles, and fetches, do not wait for its locks longer than one
    /// partition takes.
    fn finalize(self: &Arc<Self>, store: &Store) -> Result<(), Refusal> {
        self.check_sparks_own()?;
        let Home::Spark { dirs, key } = self.home.as_ref() else {
            return Err(self.refuse(Code::Internal));
        };
        let mut is_finalized = self.is_finalized.lock().map_err(|code| self.refuse(code))?;
        if *is_finalized {
            return Ok(());
        }
        let partitions: Vec<_> = {
            let mut partitions = writing(&self.partitions);
            if partitions.phase == Phase::Removed {
                return Err(self.refuse(Code::UnknownShuffle));
            }
            partitions.phase = Phase::Finalizing;
            // Without this, the finalize would stand behind all pushes that wait for a partition.
            partitions.by_reduce.values().for_each(|one| one.close());
            partitions
                .by_reduce
                .iter()
                .map(|(id, p)| (*id, p.clone()))
                .collect()
        };
        // Spark gives the answer ten seconds (`spark.shuffle.push.results.timeout`): only one long
        // wait in vain for all partitions on a disk that hangs.
        let mut lock_waits: BTreeMap<usize, LockWaits> = BTreeMap::new();
        for (reduce, partition) in partitions {
            let place = dirs.place_of_merged(key, reduce, MergedFile::Data);
            let lock_waits = lock_waits.entry(place).or_default();
            let resources = &store.resources;
            let published = merge::publish(&partition, resources, dirs, key, reduce, lock_waits);
            if let Err(code) = published {
                tracing::warn!(shuffle = %self.key, %reduce, %code, "partition left out");
                writing(&self.partitions).by_reduce.remove(&reduce);
                store.finish(Removal::of_partition(self, partition));
            }
        }
        let mut partitions = writing(&self.partitions);
        if partitions.phase == Phase::Removed {
            return Err(self.refuse(Code::UnknownShuffle));
        }
        partitions.phase = Phase::Finalized;
        *is_finalized = true;
        Ok(())
    }
}
