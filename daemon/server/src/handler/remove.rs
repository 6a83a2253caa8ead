// SPDX-License-Identifier: Apache-2.0
//! Remove: shuffles, applications, blocks of executors that are gone.

use lodestone_model::{AppAttempt, GenerationId, Refusal, ShuffleKey};
use lodestone_store::NamedBlocks;
use lodestone_wire::Message;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::remove::{BlocksRemoved, RemoveBlocks, RemoveShuffleMerge};

use super::{Answer, Call, decode, fail};

/// The number that means whichever generation is current.
const ALL_GENERATIONS: GenerationId = GenerationId(-1);

pub(super) fn shuffle(call: &Call, message: RemoveShuffleMerge) -> Result<(), Refusal> {
    let ShuffleKey {
        app,
        attempt,
        shuffle,
        generation,
    } = message.key;
    let attempt = attempt.unwrap_or(AppAttempt::NONE);
    let generation = (generation != ALL_GENERATIONS).then_some(generation);
    call.service
        .store
        .remove_shuffle(&app, attempt, shuffle, generation)?;
    call.service.metrics.remove_shuffles_total.inc();
    tracing::info!(connection = call.connection, %app, %shuffle, "shuffle removed");
    Ok(())
}

pub(super) fn application(call: &Call, message: EndApplication) -> Result<Done, Refusal> {
    let app = message.app;
    call.service
        .store
        .end_application(&app, message.app_attempt)?;
    call.service.metrics.remove_applications_total.inc();
    tracing::info!(connection = call.connection, %app, "application ended");
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}

/// Decodes a request, unless it is refused.
pub fn removal(call: &Call, body: &[u8]) -> Result<RemoveBlocks, Answer> {
    decode(body).map_err(|refusal| fail(call, &refusal))
}

/// Returns the blocks on each disk. Asks no disk. An error is the answer.
pub fn blocks_by_place(call: &Call, some: RemoveBlocks) -> Result<Vec<NamedBlocks>, Answer> {
    let RemoveBlocks {
        app,
        exec_id,
        block_ids,
    } = some;
    let store = &call.service.store;
    let by_place = store.blocks_by_place(&app, &exec_id, block_ids);
    by_place.map_err(|refusal| fail(call, &refusal))
}

/// Removes some of the blocks of a request, and counts them. An error is the answer.
pub fn remove_some(call: &Call, some: &NamedBlocks) -> Result<u32, Answer> {
    let removed = call.service.store.remove_blocks(some);
    removed.map_err(|refusal| fail(call, &refusal))
}

/// The answer to a request whose blocks were removed.
pub fn removed(count: u32) -> Answer {
    Answer::Response(BlocksRemoved { count }.to_bytes())
}
