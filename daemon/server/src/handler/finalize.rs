// SPDX-License-Identifier: Apache-2.0
//! Finalize: the end of appends.

use lodestone_store::Refusal;
use lodestone_wire::extension::finalize::{FinalizeMerge, FinalizeMergeReply};
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatus, MergeStatuses};

use super::{Call, merge_key, spark_key};

pub(super) fn merge(call: &Call, message: FinalizeMerge) -> Result<FinalizeMergeReply, Refusal> {
    let key = merge_key(call, &message.key)?;
    let summary = call.service.store.finalize(&key)?;
    call.service.metrics.finalize_requests_total.add(1);
    let (partitions, segments, bytes) = (summary.partitions, summary.segments, summary.bytes);
    let connection = call.connection;
    let lost = summary.lost_segments;
    tracing::info!(connection, shuffle = %key, partitions, segments, bytes, lost, "finalized");
    Ok(FinalizeMergeReply {
        incarnation: call.service.incarnation(),
        partitions,
        segments: segments as i64,
        bytes: bytes as i64,
        lost_segments: summary.lost_segments as i64,
        checksum: summary.checksum as i64,
    })
}

pub(super) fn shuffle(
    call: &Call,
    message: FinalizeShuffleMerge,
) -> Result<MergeStatuses, Refusal> {
    let key = spark_key(&message.key)?;
    let merged = call.service.store.merge_statuses(&key)?;
    call.service.metrics.finalize_requests_total.add(1);
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
