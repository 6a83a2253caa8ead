// SPDX-License-Identifier: Apache-2.0
//! Pushes on threads that may wait. A block of Spark's own push waits for its turn at the disk of
//! executors before it has a thread. When the large blocks for a disk have their memory,
//! connections that bring more of them read nothing until others are merged. When the small ones
//! that wait have theirs, more of them are refused. So a disk that hangs has no more than its
//! share, of threads and of memory.

use std::sync::Arc;
use std::time::Duration;

use lodestone_model::Code;
use lodestone_store::PushPlaces;
use tokio::time::timeout;

use super::{at_once, carry_out};
use crate::connection::CloseReason;
use crate::handler::{self, Answer, Call, Upload};
use crate::service::block_memory::{BlockMemory, LargeBlock};
use crate::service::body::{PooledBody, memory_bytes};
use crate::service::lanes::{Kind, Lanes, Turns};
use crate::service::pool::{Pool, Reserved};

/// How often a block that waits looks whether its disk hangs.
const LOOK: Duration = Duration::from_millis(500);

/// Looks for the first block of a partition, and waits for the memory of a large block. The
/// connection reads nothing until then. Small blocks do not wait for such memory: a thousand
/// connections bring many at a time, and would take twice the processor time. An answer refuses the
/// push.
pub(super) async fn room(
    call: &Call,
    upload: &Upload,
    connection: &Pool,
    bytes: u64,
) -> Result<Result<Option<LargeBlock>, Answer>, CloseReason> {
    if !BlockMemory::is_large(bytes) {
        return Ok(Ok(None));
    }
    let Some(places) = places_of(call, upload)? else {
        return Ok(Ok(None));
    };
    if let Some(answer) = look(call, upload, &places).await? {
        return Ok(Err(answer));
    }
    let service = &call.service;
    let blocks = service.blocks_at(places.write);
    let memory = blocks.reserve_large(&service.uploads, upload.app(), connection, bytes);
    tokio::pin!(memory);
    while !service.store.writes_are_stalled(places.write) {
        if let Ok(memory) = timeout(LOOK, &mut memory).await {
            return Ok(Ok(Some(memory)));
        }
    }
    // If the shuffle has ended meanwhile, the block is too late.
    Ok(match places_of(call, upload)? {
        Some(_) => Err(handler::upload_to_a_disk_that_hangs(call, upload)),
        None => Ok(None),
    })
}

/// Looks for what an earlier daemon left of a partition, if this is its first block. An answer
/// refuses the block.
async fn look(
    call: &Call,
    upload: &Upload,
    places: &PushPlaces,
) -> Result<Option<Answer>, CloseReason> {
    let (Some(place), Upload::Block(block)) = (places.look, upload) else {
        return Ok(None);
    };
    let (service, call, block) = (&call.service, call.clone(), block.clone());
    let hangs = || service.store.looks_are_stalled(place);
    let turn = turn(&service.lanes, place, hangs).await;
    if turn.has_waited && places_of(&call, upload)?.is_some_and(|places| places.look.is_none()) {
        // Another block has looked for it meanwhile: blocks of many map tasks come together.
        return Ok(None);
    }
    let look = move || handler::begin_block(&call, &block);
    let begun = service.lanes.run_in(turn.turns, Kind::Push, look).await;
    begun.map_err(|_| CloseReason::Panic)
}

/// Returns what a push needs at disks of executors.
fn places_of(call: &Call, upload: &Upload) -> Result<Option<PushPlaces>, CloseReason> {
    match upload {
        Upload::Block(block) => {
            let store = &call.service.store;
            at_once(|| store.places_of_push(&block.key, block.reduce_id))
        }
        Upload::Batch(_) => Ok(None),
    }
}

/// An upload that memory did not take at once.
pub(super) struct Waiting {
    pub(super) upload: Upload,
    pub(super) body: PooledBody,
    /// The codes that its first segments got.
    pub(super) before: Vec<Code>,
    /// The memory of a large block at its disk.
    pub(super) room: Option<[Reserved; 2]>,
}

/// Carries out an upload. A block that has no memory at the disk for which it waits takes that of
/// small ones, or is refused.
pub(super) async fn push(call: Call, waiting: Waiting) -> Result<Answer, CloseReason> {
    let Waiting {
        upload,
        body,
        before,
        room,
    } = waiting;
    let bytes = memory_bytes(body.len()) as u64;
    let Some(places) = places_of(&call, &upload)? else {
        let work = move |call: &Call| handler::upload(call, &upload, &body, &before);
        return carry_out(call, Kind::Push, work).await;
    };
    let service = Arc::clone(&call.service);
    if let Some(place) = places.look {
        let Some(_memory) = service.blocks_at(place).try_small(bytes) else {
            return Ok(handler::upload_without_room(&call, &upload));
        };
        if let Some(answer) = look(&call, &upload, &places).await? {
            return Ok(answer);
        }
        let now = call.without_waiting();
        if let Ok(answer) = at_once(|| handler::upload_now(&now, &upload, &body))? {
            return Ok(answer);
        }
    }
    let small = || service.blocks_at(places.write).try_small(bytes);
    let memory = room.map(Vec::from);
    let Some(_memory) = memory.or_else(|| small().map(|small| vec![small])) else {
        return Ok(handler::upload_without_room(&call, &upload));
    };
    let hangs = || service.store.writes_are_stalled(places.write);
    let turn = turn(&service.lanes, places.write, hangs).await;
    if turn.has_waited {
        // Another block may have written the tail meanwhile. If none has, this one does it; not to
        // a disk that hangs, whose tail stays as long as there is room.
        let now = match turn.is_at_disk {
            true => call.again_without_waiting(),
            false => call.without_waiting(),
        };
        if let Ok(answer) = at_once(|| handler::upload_now(&now, &upload, &body))? {
            return Ok(answer);
        }
    }
    let call = match turn.is_at_disk {
        true => call.at_its_disk(),
        false => call,
    };
    let merge = move || handler::upload(&call, &upload, &body, &before);
    let merged = service.lanes.run_in(turn.turns, Kind::Push, merge).await;
    merged.map_err(|_| CloseReason::Panic)
}

/// A turn of a push.
struct PushTurn {
    turns: Turns,
    /// False if the disk hangs: then the turn is at none, and the store begins no write.
    is_at_disk: bool,
    /// Others came first.
    has_waited: bool,
}

/// Waits for a turn at a disk of executors, unless the disk hangs.
async fn turn(lanes: &Lanes, place: usize, hangs: impl Fn() -> bool) -> PushTurn {
    // It ends before this waits for others: a turn goes to the next one in its line, also if that
    // one is not asked any more.
    {
        let here = [place];
        let turns = lanes.turns_for(Kind::Push, &here);
        tokio::pin!(turns);
        let mut longest = Duration::ZERO;
        loop {
            if let Ok(turns) = timeout(longest, &mut turns).await {
                return PushTurn {
                    turns,
                    is_at_disk: true,
                    has_waited: !longest.is_zero(),
                };
            }
            if hangs() {
                break;
            }
            longest = LOOK;
        }
    }
    PushTurn {
        turns: lanes.turns_for(Kind::Push, &[]).await,
        is_at_disk: false,
        has_waited: true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::task::JoinSet;

    use super::*;
    use crate::service::lanes::Threads;

    #[tokio::test]
    async fn pushes_that_leave_the_line_of_a_disk_that_hangs_take_no_turn_of_others() {
        let lanes = Arc::new(Lanes::new(1, Threads::OfRuntime));
        let mut all = Vec::new();
        while let Ok(turn) = timeout(Duration::ZERO, lanes.turns_for(Kind::Push, &[])).await {
            all.push(turn);
        }
        let (mut pushes, left) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 * all.len() {
            let (lanes, left) = (Arc::clone(&lanes), Arc::clone(&left));
            let hangs = move || {
                left.fetch_add(1, Relaxed);
                true
            };
            pushes.spawn(async move { drop(turn(&lanes, 1, hangs).await) });
        }
        while left.load(Relaxed) < pushes.len() {
            tokio::task::yield_now().await;
        }
        drop(all);
        let ended = timeout(Duration::from_secs(20), pushes.join_all()).await;
        assert!(ended.is_ok());
    }
}
