// SPDX-License-Identifier: Apache-2.0
//! Remove: shuffles, applications, blocks of executors that are gone.

use lodestone_store::{AppAttempt, MergeId, Refusal, ShuffleId};
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::remove::{BlocksRemoved, RemoveBlocks, RemoveShuffleMerge};

use super::{Call, app_id};

/// The merge id that means whichever generation is current.
const ALL_GENERATIONS: i32 = -1;

pub(super) fn shuffle(call: &Call, message: RemoveShuffleMerge) -> Result<(), Refusal> {
    let key = message.key;
    let app = app_id(&key.app)?;
    let (attempt, shuffle) = (AppAttempt(key.app_attempt), ShuffleId(key.shuffle_id));
    let merge = (key.merge_id != ALL_GENERATIONS).then_some(MergeId(key.merge_id));
    call.service
        .store
        .remove_shuffle(&app, attempt, shuffle, merge)?;
    call.service.metrics.remove_shuffles_total.inc();
    tracing::info!(connection = call.connection, %app, %shuffle, "shuffle removed");
    Ok(())
}

pub(super) fn application(call: &Call, message: EndApplication) -> Result<Done, Refusal> {
    let app = app_id(&message.app)?;
    call.service
        .store
        .end_application(&app, AppAttempt(message.app_attempt))?;
    call.service.metrics.remove_applications_total.inc();
    tracing::info!(connection = call.connection, %app, "application ended");
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}

pub(super) fn blocks(call: &Call, message: RemoveBlocks) -> Result<BlocksRemoved, Refusal> {
    let app = app_id(&message.app)?;
    let store = &call.service.store;
    let count = store.remove_blocks(&app, &message.exec_id, &message.block_ids)?;
    Ok(BlocksRemoved { count })
}
