// SPDX-License-Identifier: Apache-2.0
//! Pushes on threads that may wait. A block of Spark's own push waits for its turn at the disk of
//! executors before it has a thread: a disk that is only slow refuses none, and one that hangs
//! holds up those on other disks neither in threads nor in memory.

use std::sync::Arc;
use std::time::Duration;

use lodestone_model::Code;
use tokio::time::timeout;

use super::{at_once, carry_out};
use crate::connection::CloseReason;
use crate::handler::{self, Answer, Call, Upload};
use crate::service::body::PooledBody;
use crate::service::lanes::{Kind, Turns};

/// How often a block that waits looks whether its disk hangs.
const LOOK: Duration = Duration::from_millis(500);

/// Carries out an upload, of which the first segments got the codes `before`.
pub(super) async fn push(
    call: Call,
    upload: Upload,
    body: PooledBody,
    before: Vec<Code>,
) -> Result<Answer, CloseReason> {
    let places = match &upload {
        Upload::Block(block) => {
            let store = &call.service.store;
            at_once(|| store.places_of_push(&block.key, block.reduce_id))?
        }
        Upload::Batch(_) => None,
    };
    let Some(places) = places else {
        let work = move |call: &Call| handler::upload(call, &upload, &body, &before);
        return carry_out(call, Kind::Push, work).await;
    };
    let bytes = body.len() as u64;
    let lanes = &Arc::clone(&call.service).lanes;
    if let (Some(place), Upload::Block(block)) = (places.look, &upload) {
        let Some(turns) = turns(&call, place, bytes).await else {
            return Ok(handler::block_without_room(&call));
        };
        let (looking, block) = (call.clone(), block.clone());
        let look = move || handler::begin_block(&looking, &block);
        let begun = lanes.run_in(turns, Kind::Push, look).await;
        if let Some(answer) = begun.map_err(|_| CloseReason::Panic)? {
            return Ok(answer);
        }
    }
    let Some(turns) = turns(&call, places.write, bytes).await else {
        return Ok(handler::block_without_room(&call));
    };
    let merge = move || handler::upload(&call, &upload, &body, &before);
    let merged = lanes.run_in(turns, Kind::Push, merge).await;
    merged.map_err(|_| CloseReason::Panic)
}

/// Waits for a turn at a disk of executors, with memory of those that wait: `None` if there is
/// none. Waits for no turn there if the disk hangs: the store then refuses the push at once.
async fn turns(call: &Call, place: usize, bytes: u64) -> Option<Turns> {
    let service = &call.service;
    let here = [place];
    let turns = service.lanes.turns_for(Kind::Push, &here);
    tokio::pin!(turns);
    if let Ok(turns) = timeout(Duration::ZERO, &mut turns).await {
        return Some(turns);
    }
    let _memory = service.waiting_blocks.try_reserve(bytes)?;
    while !service.store.is_stalled(place) {
        if let Ok(turns) = timeout(LOOK, &mut turns).await {
            return Some(turns);
        }
    }
    Some(service.lanes.turns_for(Kind::Push, &[]).await)
}
