// SPDX-License-Identifier: Apache-2.0
//! Finalize: the end of Spark's own push.

use lodestone_model::Refusal;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};

use super::Call;

pub(super) fn shuffle(
    call: &Call,
    message: FinalizeShuffleMerge,
) -> Result<MergeStatuses, Refusal> {
    let key = message.key;
    let mut partitions = call.service.store.merge_statuses(&key)?;
    call.service.metrics.finalize_requests_total.inc();
    let connection = call.connection;
    let count = partitions.len();
    tracing::info!(connection, shuffle = %key, partitions = count, "finalized for Spark");
    for partition in &mut partitions {
        partition.maps.optimize();
    }
    Ok(MergeStatuses {
        shuffle_id: key.shuffle,
        shuffle_merge_id: key.generation,
        partitions,
    })
}
