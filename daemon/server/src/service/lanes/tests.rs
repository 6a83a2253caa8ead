// SPDX-License-Identifier: Apache-2.0
//! Tests of the threads for calls.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

#[test]
fn calls_that_fill_their_lane_leave_threads_for_all_others() {
    for disks in [1, 2, 12, 1024] {
        let lanes = Lanes::new(disks, Threads::OfRuntime);
        let all = [
            &lanes.control,
            &lanes.questions,
            &lanes.pushes.all,
            &lanes.aborts,
            &lanes.removals.all,
            &lanes.operators,
            &lanes.registrations.all,
            &lanes.diagnoses.all,
            &lanes.chunks,
            &lanes.foreign_reads.all,
        ];
        let of = |lane: &Lane| lane.0.available_permits();
        let calls: usize = all.into_iter().map(of).sum();
        let reads: usize = lanes.reads.iter().map(of).sum();
        assert_eq!(lanes.reads.len(), disks);
        assert!(lanes.reads.iter().all(|lane| of(lane) > 0));
        assert_eq!(
            calls + reads + OTHERS,
            Lanes::threads(disks),
            "{disks} disks"
        );
    }
}

const LONG: Duration = Duration::from_secs(20);

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
