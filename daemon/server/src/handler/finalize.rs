// SPDX-License-Identifier: Apache-2.0
//! Finalize: the end of Spark's own push.

use lodestone_model::Refusal;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};

use super::Call;

/// A partition, and a map index of it, as value and as bytes. If the indexes are far from each
/// other, each takes a container of the bitmap.
const PARTITION_BYTES: u64 = 128;
const MAP_BYTES: u64 = 64;

/// Memory for the statuses, and for the answer that contains them.
pub(super) fn memory(call: &Call, message: &FinalizeShuffleMerge) -> u64 {
    let (partitions, segments) = call.service.store.merged_at_most(&message.key);
    partitions as u64 * PARTITION_BYTES + segments as u64 * MAP_BYTES
}

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
