// SPDX-License-Identifier: Apache-2.0
//! The end of Spark's own push.

use lodestone_model::{MergeStatus, Refusal, ShuffleKey};

use super::push::generation_to_finalize;
use crate::resource::reading;
use crate::state::store::Store;

impl Store {
    /// Spark's `FinalizeShuffleMerge`: finalizes and tells what is merged. A shuffle of a known
    /// application that nothing was pushed for is finalized empty, and late pushes are refused.
    pub fn merge_statuses(&self, key: &ShuffleKey) -> Result<Vec<MergeStatus>, Refusal> {
        let generation = generation_to_finalize(self, key)?;
        generation.finalize(&self.resources)?;
        let partitions: Vec<_> = {
            let partitions = reading(&generation.partitions);
            partitions
                .by_reduce
                .iter()
                .map(|(id, p)| (*id, p.clone()))
                .collect()
        };
        let mut statuses = Vec::with_capacity(partitions.len());
        for (reduce, partition) in partitions {
            let status = partition
                .view(|view| MergeStatus {
                    reduce_id: reduce,
                    maps: view.segments.maps(),
                    bytes: view.segments.bytes(),
                })
                .map_err(|code| generation.refuse(code))?;
            if !status.maps.is_empty() {
                statuses.push(status);
            }
        }
        Ok(statuses)
    }
}
