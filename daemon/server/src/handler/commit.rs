// SPDX-License-Identifier: Apache-2.0
//! Commit and abort of map attempts.

use lodestone_store::{Ledger, MapId, MapIndex, Refusal};
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::status::Done;

use super::{Call, merge_key};

pub(super) fn map(call: &Call, message: CommitMap) -> Result<Done, Refusal> {
    let key = merge_key(call, &message.key)?;
    let pushed = Ledger {
        segments: message.segments.cast_unsigned(),
        checksum: message.checksum.cast_unsigned(),
    };
    let (map_index, map_id) = (MapIndex(message.map_index), MapId(message.map_id));
    let metrics = &call.service.metrics;
    call.service
        .store
        .commit_map(&key, map_index, map_id, pushed)
        .inspect_err(|_| {
            metrics.commit_refused_total.inc();
        })?;
    metrics.commit_maps_total.inc();
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}

pub(super) fn abort(call: &Call, message: AbortMap) -> Result<Done, Refusal> {
    let key = merge_key(call, &message.key)?;
    let (map_index, map_id) = (MapIndex(message.map_index), MapId(message.map_id));
    call.service.store.abort_map(&key, map_index, map_id)?;
    call.service.metrics.commit_aborts_total.inc();
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}
