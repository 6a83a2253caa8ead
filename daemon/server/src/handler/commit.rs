// SPDX-License-Identifier: Apache-2.0
//! Commit and abort of map attempts.

use lodestone_model::Refusal;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::status::Done;

use super::{Call, generation};

pub(super) fn map(call: &Call, message: CommitMap) -> Result<Done, Refusal> {
    let key = generation(call, &message.key)?;
    let metrics = &call.service.metrics;
    call.service
        .store
        .commit_map(key, message.map_index, message.map_id, message.pushed)
        .inspect_err(|_| {
            metrics.commit_refused_total.inc();
        })?;
    metrics.commit_maps_total.inc();
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}

pub(super) fn abort(call: &Call, message: AbortMap) -> Result<Done, Refusal> {
    let key = generation(call, &message.key)?;
    call.service
        .store
        .abort_map(key, message.map_index, message.map_id)?;
    call.service.metrics.commit_aborts_total.inc();
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}
