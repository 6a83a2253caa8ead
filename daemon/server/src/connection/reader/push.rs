// SPDX-License-Identifier: Apache-2.0
//! Pushes on threads that may wait. A block of Spark's own push waits for its turn at the disk of
//! executors before it has a thread: a disk that is only slow refuses none. When the large blocks
//! for a disk have their memory, connections that bring more of them read nothing until others are
//! merged. So a disk that hangs has no more than its share, of threads and of memory for these.

use std::sync::Arc;
use std::time::Duration;

use lodestone_model::Code;
use lodestone_store::{PushPlaces, Store};
use tokio::time::timeout;

use super::{at_once, carry_out};
use crate::connection::CloseReason;
use crate::handler::{self, Answer, Call, Upload};
use crate::service::body::PooledBody;
use crate::service::lanes::{Kind, Lanes, Turns};
use crate::service::pool::Reserved;
use crate::service::uploads::SMALL_BYTES;

/// How often a block that waits looks whether its disk hangs.
const LOOK: Duration = Duration::from_millis(500);

/// Waits for memory of the large blocks for the disk of a push, unless the disk hangs: the store
/// then refuses the push. Its connection reads nothing meanwhile. Small blocks do not wait for it:
/// a thousand connections bring many at a time, and would take twice the processor time.
pub(super) async fn room(
    call: &Call,
    upload: &Upload,
    bytes: u64,
) -> Result<Option<Reserved>, CloseReason> {
    if bytes <= SMALL_BYTES {
        return Ok(None);
    }
    let Some(places) = places_of(call, upload)? else {
        return Ok(None);
    };
    let service = &call.service;
    let blocks = service.blocks_at(places.write);
    while !stalls(&service.store, &places) {
        if let Ok(memory) = timeout(LOOK, blocks.reserve(bytes)).await {
            return Ok(Some(memory));
        }
    }
    Ok(None)
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

/// True if the next disk that a push needs hangs.
fn stalls(store: &Store, places: &PushPlaces) -> bool {
    match places.look {
        Some(place) => store.looks_are_stalled(place),
        None => store.writes_are_stalled(places.write),
    }
}

/// Carries out an upload, of which the first segments got the codes `before`.
pub(super) async fn push(
    call: Call,
    upload: Upload,
    body: PooledBody,
    before: Vec<Code>,
) -> Result<Answer, CloseReason> {
    let Some(mut places) = places_of(&call, &upload)? else {
        let work = move |call: &Call| handler::upload(call, &upload, &body, &before);
        return carry_out(call, Kind::Push, work).await;
    };
    let service = Arc::clone(&call.service);
    let (store, lanes) = (&service.store, &service.lanes);
    if let (Some(place), Upload::Block(block)) = (places.look, &upload) {
        let turns = turns(lanes, place, || stalls(store, &places)).await;
        let (looking, block) = (call.clone(), block.clone());
        let look = move || handler::begin_block(&looking, &block);
        let begun = lanes.run_in(turns, Kind::Push, look).await;
        if let Some(answer) = begun.map_err(|_| CloseReason::Panic)? {
            return Ok(answer);
        }
    }
    // Memory may take it: after a look, or after a moment in which another push was merged.
    let now = call.without_waiting();
    if let Ok(answer) = at_once(|| handler::upload_now(&now, &upload, &body))? {
        return Ok(answer);
    }
    places.look = None;
    let turns = turns(lanes, places.write, || stalls(store, &places)).await;
    let merge = move || handler::upload(&call, &upload, &body, &before);
    let merged = lanes.run_in(turns, Kind::Push, merge).await;
    merged.map_err(|_| CloseReason::Panic)
}

/// Waits for a turn at a disk of executors, but not if the disk hangs: the store then refuses the
/// push at once.
async fn turns(lanes: &Lanes, place: usize, stalls: impl Fn() -> bool) -> Turns {
    // It ends before this waits for others: a turn goes to the next one in its line, also if that
    // one is not asked any more.
    {
        let here = [place];
        let turns = lanes.turns_for(Kind::Push, &here);
        tokio::pin!(turns);
        let mut longest = Duration::ZERO;
        loop {
            if let Ok(turns) = timeout(longest, &mut turns).await {
                return turns;
            }
            if stalls() {
                break;
            }
            longest = LOOK;
        }
    }
    lanes.turns_for(Kind::Push, &[]).await
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
            let stalls = move || {
                left.fetch_add(1, Relaxed);
                true
            };
            pushes.spawn(async move { drop(turns(&lanes, 1, stalls).await) });
        }
        while left.load(Relaxed) < pushes.len() {
            tokio::task::yield_now().await;
        }
        drop(all);
        let ended = timeout(Duration::from_secs(20), pushes.join_all()).await;
        assert!(ended.is_ok());
    }
}
