// SPDX-License-Identifier: Apache-2.0
//! Finalize: the end of appends.

use std::collections::HashSet;

use lodestone_store::{FinalizeSummary, MapId, Refusal};
use lodestone_wire::extension::finalize::{FinalizeMerge, FinalizeMergeReply, RetainAttempts};
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatus, MergeStatuses};

use super::{Call, merge_key, spark_key};

pub(super) fn merge(call: &Call, message: FinalizeMerge) -> Result<FinalizeMergeReply, Refusal> {
    let key = merge_key(call, &message.key)?;
    let summary = call.service.store.finalize(&key)?;
    call.service.metrics.finalize_requests_total.inc();
    let (partitions, segments, bytes) = (summary.partitions, summary.segments, summary.bytes);
    let connection = call.connection;
    let lost = summary.lost_segments;
    tracing::info!(connection, shuffle = %key, partitions, segments, bytes, lost, "finalized");
    Ok(totals(call, &summary))
}

pub(super) fn retain(call: &Call, message: RetainAttempts) -> Result<FinalizeMergeReply, Refusal> {
    let key = merge_key(call, &message.key)?;
    let attempts: HashSet<MapId> = message.map_ids.into_iter().map(MapId).collect();
    let summary = call.service.store.retain(&key, &attempts)?;
    let (attempts, segments) = (attempts.len(), summary.segments);
    let connection = call.connection;
    tracing::info!(connection, shuffle = %key, attempts, segments, "attempts were retained");
    Ok(totals(call, &summary))
}

fn totals(call: &Call, summary: &FinalizeSummary) -> FinalizeMergeReply {
    FinalizeMergeReply {
        incarnation: call.service.incarnation(),
        partitions: summary.partitions,
        segments: summary.segments as i64,
        bytes: summary.bytes as i64,
        lost_segments: summary.lost_segments as i64,
        checksum: summary.checksum as i64,
    }
}

pub(super) fn shuffle(
    call: &Call,
    message: FinalizeShuffleMerge,
) -> Result<MergeStatuses, Refusal> {
    let key = spark_key(&message.key)?;
    let merged = call.service.store.merge_statuses(&key)?;
    call.service.metrics.finalize_requests_total.inc();
    let connection = call.connection;
    tracing::info!(connection, shuffle = %key, partitions = merged.len(), "finalized for Spark");
    let status = |partition: lodestone_store::MergeStatus| {
        let mut maps = partition.maps;
        maps.optimize();
        MergeStatus {
            maps,
            reduce_id: partition.reduce.0,
            size: partition.bytes as i64,
        }
    };
    Ok(MergeStatuses {
        shuffle_id: key.shuffle.0,
        merge_id: key.merge.0,
        partitions: merged.into_iter().map(status).collect(),
    })
}
