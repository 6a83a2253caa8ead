// SPDX-License-Identifier: Apache-2.0
//! Finalize: the end of appends.

use std::collections::HashSet;

use lodestone_model::{FinalizeSummary, MapId, Refusal};
use lodestone_wire::extension::finalize::{FinalizeMerge, FinalizeMergeReply, RetainAttempts};
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};

use super::{Call, generation};

pub(super) fn merge(call: &Call, message: FinalizeMerge) -> Result<FinalizeMergeReply, Refusal> {
    let key = generation(call, &message.key)?;
    let summary = call.service.store.finalize(key)?;
    call.service.metrics.finalize_requests_total.inc();
    let (partitions, segments, bytes) = (summary.partitions, summary.segments, summary.bytes);
    let connection = call.connection;
    let lost = summary.lost_segments;
    tracing::info!(connection, shuffle = %key, partitions, segments, bytes, lost, "finalized");
    Ok(totals(call, summary))
}

pub(super) fn retain(call: &Call, message: RetainAttempts) -> Result<FinalizeMergeReply, Refusal> {
    let key = generation(call, &message.key)?;
    let attempts: HashSet<MapId> = message.map_ids.into_iter().collect();
    let summary = call.service.store.retain(key, &attempts)?;
    let (attempts, segments) = (attempts.len(), summary.segments);
    let connection = call.connection;
    tracing::info!(connection, shuffle = %key, attempts, segments, "attempts were retained");
    Ok(totals(call, summary))
}

fn totals(call: &Call, summary: FinalizeSummary) -> FinalizeMergeReply {
    FinalizeMergeReply {
        incarnation: call.service.incarnation(),
        summary,
    }
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
        merge_id: key.merge,
        partitions,
    })
}
