// SPDX-License-Identifier: Apache-2.0
//! Finalize: the end of Spark's own push.

use lodestone_model::Refusal;
use lodestone_store::STATUS_BYTES;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};

use super::Call;
use super::room::answer_memory_most;

/// A map index of a partition, as value and as bytes. If the indexes are far from each other, each
/// takes a container of the bitmap.
const MAP_BYTES: u64 = 64;

/// Memory for the statuses, and for the answer that contains them.
pub(super) fn memory(call: &Call, message: &FinalizeShuffleMerge) -> u64 {
    let (partitions, segments) = call.service.store.merged_at_most(&message.key);
    let bytes = (partitions * STATUS_BYTES) as u64 + segments as u64 * MAP_BYTES;
    bytes.min(answer_memory_most(call))
}

pub(super) fn shuffle(
    call: &Call,
    message: FinalizeShuffleMerge,
) -> Result<MergeStatuses, Refusal> {
    let key = message.key;
    // As values, and as bytes.
    let most_bytes = answer_memory_most(call) / 2;
    let store = &call.service.store;
    let partitions = store.merge_statuses(&key, most_bytes as usize)?;
    call.service.metrics.finalize_requests_total.inc();
    let connection = call.connection;
    let count = partitions.len();
    tracing::info!(connection, shuffle = %key, partitions = count, "finalized for Spark");
    Ok(MergeStatuses {
        shuffle_id: key.shuffle,
        shuffle_merge_id: key.generation,
        partitions,
    })
}
