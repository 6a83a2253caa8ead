// SPDX-License-Identifier: Apache-2.0
//! Pushes on threads that may wait. A block of Spark's own push waits for its turn at the disk of
//! executors before it has a thread: a disk that is only slow refuses none. One that hangs takes no
//! more than its share of the threads; until that is noticed, blocks that wait for it may take all
//! memory of blocks that wait.

use std::sync::Arc;
use std::time::Duration;

use lodestone_model::Code;
use tokio::time::timeout;

use super::{at_once, carry_out};
use crate::connection::CloseReason;
use crate::handler::{self, Answer, Call, Upload};
use crate::service::body::PooledBody;
use crate::service::lanes::{Kind, Lanes, Turns};
use crate::service::pool::Pool;

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
    let service = Arc::clone(&call.service);
    let (store, lanes, waiting) = (&service.store, &service.lanes, &service.waiting_blocks);
    if let (Some(place), Upload::Block(block)) = (places.look, &upload) {
        let stalls = || store.looks_are_stalled(place);
        let Some(turns) = turns(lanes, waiting, (place, bytes), stalls).await else {
            return Ok(handler::block_without_room(&call));
        };
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
    let stalls = || store.writes_are_stalled(places.write);
    let Some(turns) = turns(lanes, waiting, (places.write, bytes), stalls).await else {
        return Ok(handler::block_without_room(&call));
    };
    let merge = move || handler::upload(&call, &upload, &body, &before);
    let merged = lanes.run_in(turns, Kind::Push, merge).await;
    merged.map_err(|_| CloseReason::Panic)
}

/// Waits for a turn at a disk of executors, with memory of those that wait: `None` if there is
/// none. Waits for no turn there if the disk hangs: the store then refuses the push at once.
async fn turns(
    lanes: &Lanes,
    waiting: &Pool,
    (place, bytes): (usize, u64),
    stalls: impl Fn() -> bool,
) -> Option<Turns> {
    // It ends before this waits for others: a turn goes to the next one in its line, also if that
    // one is not asked any more.
    {
        let here = [place];
        let turns = lanes.turns_for(Kind::Push, &here);
        tokio::pin!(turns);
        if let Ok(turns) = timeout(Duration::ZERO, &mut turns).await {
            return Some(turns);
        }
        let _memory = waiting.try_reserve(bytes)?;
        while !stalls() {
            if let Ok(turns) = timeout(LOOK, &mut turns).await {
                return Some(turns);
            }
        }
    }
    Some(lanes.turns_for(Kind::Push, &[]).await)
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
        let waiting = Arc::new(Pool::new(1 << 20));
        let mut all = Vec::new();
        while let Ok(turn) = timeout(Duration::ZERO, lanes.turns_for(Kind::Push, &[])).await {
            all.push(turn);
        }
        let (mut pushes, left) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 * all.len() {
            let (lanes, waiting) = (Arc::clone(&lanes), Arc::clone(&waiting));
            let left = Arc::clone(&left);
            let stalls = move || {
                left.fetch_add(1, Relaxed);
                true
            };
            pushes.spawn(async move { turns(&lanes, &waiting, (1, 1), stalls).await.is_some() });
        }
        while left.load(Relaxed) < pushes.len() {
            tokio::task::yield_now().await;
        }
        drop(all);
        let ended = timeout(Duration::from_secs(20), pushes.join_all()).await;
        assert!(ended.is_ok_and(|ended| ended.iter().all(|has_turn| *has_turn)));
    }
}
