// SPDX-License-Identifier: Apache-2.0
//! Tests of the threads for calls.

use std::sync::{RwLock, mpsc};
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// All kinds, in the order of their declaration.
fn kinds() -> impl Iterator<Item = Kind> {
    let next = |kind: &Kind| match kind {
        Kind::Control => Some(Kind::Question),
        Kind::Question => Some(Kind::Push),
        Kind::Push => Some(Kind::Abort),
        Kind::Abort => Some(Kind::Removal),
        Kind::Removal => Some(Kind::Operator),
        Kind::Operator => Some(Kind::Registration),
        Kind::Registration => Some(Kind::Diagnosis),
        Kind::Diagnosis => Some(Kind::Handshake),
        Kind::Handshake => None,
    };
    std::iter::successors(Some(Kind::Control), next)
}

/// Takes turns as long as there are any.
async fn all_turns<T>(take: impl AsyncFn() -> T) -> Vec<T> {
    let mut taken = Vec::new();
    while let Ok(turns) = timeout(Duration::ZERO, take()).await {
        taken.push(turns);
    }
    taken
}

/// Fills each lane with such calls, and returns their number.
async fn fill(
    lanes: &Arc<Lanes>,
    disks: usize,
    call: impl FnOnce() + Clone + Send + 'static,
) -> usize {
    let mut calls = 0;
    for kind in kinds() {
        for turns in all_turns(async || lanes.turns_for(kind, &[]).await).await {
            let (lanes, call) = (Arc::clone(lanes), call.clone());
            tokio::spawn(async move { lanes.run_in(turns, kind, call).await });
            calls += 1;
        }
    }
    let places = (0..disks + FOREIGN_PLACES).map(|place| vec![place]);
    for places in places.chain([Vec::new()]) {
        for turns in all_turns(async || lanes.reading(&places).await).await {
            let (lanes, call) = (Arc::clone(lanes), call.clone());
            let places = places.clone();
            tokio::spawn(async move { lanes.send(places, (turns, None), |_| call()).await });
            calls += 1;
        }
    }
    for _ in 0..OTHERS {
        spawn_blocking(call.clone());
    }
    calls + OTHERS
}

#[test]
fn calls_that_hang_in_all_lanes_at_a_time_have_a_thread_each() {
    for disks in [1, 2, 12] {
        let runtime = Lanes::runtime(disks).unwrap();
        let lanes = Arc::new(Lanes::new(disks, Threads::OfRuntime));
        let gate = Arc::new(RwLock::new(()));
        // However the test ends, they go on before the runtime waits for them.
        let held = gate.write().unwrap();
        let (begun, begins) = mpsc::channel();
        let hang = {
            let gate = Arc::clone(&gate);
            move || {
                begun.send(()).ok();
                drop(gate.read());
            }
        };
        let calls = runtime.block_on(fill(&lanes, disks, hang));
        for call in 0..calls {
            let begins = begins.recv_timeout(LONG);
            assert!(
                begins.is_ok(),
                "{call} of {calls} have a thread: {disks} disks"
            );
        }
        drop(held);
    }
}

#[tokio::test]
async fn a_disk_of_executors_that_hangs_leaves_half_of_a_lane_to_the_others() {
    let lanes = Lanes::new(2, Threads::OfRuntime);
    for (lane, threads) in [
        (&lanes.removals, REMOVALS),
        (&lanes.registrations, REGISTRATIONS),
        (&lanes.diagnoses, DIAGNOSES),
        (&lanes.foreign_reads, FOREIGN_READS),
    ] {
        let mut held = Vec::new();
        for _ in 0..threads / 2 {
            held.push(lanes.at(&[2], lane).await);
        }
        let one_more = lanes.at(&[2, 3], lane);
        assert!(timeout(Duration::ZERO, one_more).await.is_err());
        for _ in 0..threads / 2 {
            held.push(timeout(LONG, lanes.at(&[3], lane)).await.unwrap());
        }
    }
}

#[tokio::test]
async fn who_waits_for_a_place_that_hangs_holds_no_turn_of_another_one() {
    let lanes = Lanes::new(2, Threads::OfRuntime);
    let mut hanging = Vec::new();
    for _ in 0..reads_of_each(2) {
        hanging.push(lanes.reading(&[1]).await);
    }
    let lanes = Arc::new(lanes);
    let mut waiting = JoinSet::new();
    for _ in 0..50 {
        let lanes = Arc::clone(&lanes);
        waiting.spawn(async move { drop(lanes.reading(&[0, 1, 2]).await) });
    }
    // The runtime has one thread: all of them wait by now.
    tokio::task::yield_now().await;
    for place in [0, 2] {
        for _ in 0..reads_of_each(2) {
            hanging.push(timeout(LONG, lanes.reading(&[place])).await.unwrap());
        }
    }
    hanging.clear();
    assert_eq!(waiting.join_all().await.len(), 50);
}

#[tokio::test]
async fn blocks_on_a_disk_that_hangs_hold_few_turns_of_the_disks_of_the_next_ones() {
    let lanes = Lanes::new(1, Threads::OfRuntime);
    let mut hanging = Vec::new();
    for _ in 0..READS_OF_DISK {
        let (mut places, mut turns) = (vec![1], lanes.reading(&[1]).await);
        let gather = lanes.gather(&mut places, &mut turns, &[1, 2]);
        hanging.push((turns, gather));
    }
    for _ in 0..READS_OF_DISK / 2 {
        let turns = timeout(LONG, lanes.reading(&[2])).await;
        hanging.push((turns.unwrap(), None));
    }
}
