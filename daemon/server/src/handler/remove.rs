// SPDX-License-Identifier: Apache-2.0
//! Remove: shuffles, applications, blocks of executors that are gone.

use bytes::{Buf, Bytes};
use lodestone_model::{AppAttempt, Code, GenerationId, Refusal, ShuffleKey};
use lodestone_store::NamedBlocks;
use lodestone_wire::Message;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::remove::{
    BlocksRemoved, RemoveBlocksHead, RemoveShuffleMerge, names_in,
};

use super::{Answer, Call, fail, malformed};

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

/// The operator's word for the end of an application, which may have said so itself.
pub(super) fn ended_application(call: &Call, message: EndApplication) -> Result<Done, Refusal> {
    let app = message.app;
    if !call.service.store.end_everywhere(app.as_str()) {
        let detail = format!("nothing of {app} is held");
        return Err(Code::UnknownApplication.because(detail));
    }
    call.service.metrics.remove_applications_total.inc();
    tracing::info!(%app, "application ended, says an operator");
    Ok(Done {
        incarnation: call.service.incarnation(),
    })
}

/// The names of blocks that are decoded at once: a name takes more memory than its bytes.
pub const NAMES_AT_ONCE: usize = 512;

/// A request of which a part of the names is not decoded yet.
#[derive(Debug)]
pub struct Removal {
    head: RemoveBlocksHead,
    /// The names that are left.
    bytes: Bytes,
}

impl Removal {
    /// Decodes the beginning of a request, which is here as a whole. An error is the answer.
    pub fn begin(call: &Call, mut body: Bytes) -> Result<Self, Answer> {
        // The type of the message.
        body.advance(1);
        let head = match RemoveBlocksHead::read(&body) {
            Ok(Some(head)) => head,
            Ok(None) => return Err(malformed(call, "RemoveBlocks: it ends early".to_owned())),
            Err(error) => return Err(malformed(call, error.to_string())),
        };
        body.advance(head.bytes);
        let store = &call.service.store;
        let own = call.check_app(head.app.as_str());
        let known = own.and_then(|()| store.check_executor(&head.app, &head.exec_id));
        known.map_err(|refusal| fail(call, &refusal))?;
        Ok(Self { head, bytes: body })
    }

    /// Decodes some of the names, and returns their blocks on each disk; none if all are decoded.
    /// Asks no disk. An error is the answer.
    pub fn next_by_place(&mut self, call: &Call) -> Result<Vec<NamedBlocks>, Answer> {
        let head = &mut self.head;
        if head.names == 0 {
            return Ok(Vec::new());
        }
        let most = head.names.min(NAMES_AT_ONCE);
        let (names, bytes) =
            names_in(&self.bytes, most).map_err(|error| malformed(call, error.to_string()))?;
        if names.len() < most {
            return Err(malformed(
                call,
                "RemoveBlocks: a name is missing".to_owned(),
            ));
        }
        self.bytes.advance(bytes);
        head.names -= most;
        blocks_by_place(call, head, names)
    }
}

/// Returns the blocks of these names on each disk. Asks no disk. An error is the answer.
pub fn blocks_by_place(
    call: &Call,
    head: &RemoveBlocksHead,
    names: Vec<String>,
) -> Result<Vec<NamedBlocks>, Answer> {
    let store = &call.service.store;
    let own = call.check_app(head.app.as_str());
    let by_place = own.and_then(|()| store.blocks_by_place(&head.app, &head.exec_id, names));
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
