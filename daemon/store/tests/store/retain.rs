// SPDX-License-Identifier: Apache-2.0
//! Of a merged shuffle, attempts that nobody accounts for are not shown.

use std::collections::HashSet;

use crate::world::*;

use lodestone_model::*;
use lodestone_store::fs::fake::{Errno, Fault};

fn attempts(ids: &[i64]) -> HashSet<MapId> {
    ids.iter().copied().map(MapId).collect()
}

fn retain(world: &World, ids: &[i64]) -> Result<FinalizeSummary, Code> {
    let retained = world.store.retain(&key(), &attempts(ids));
    retained.map_err(|refusal| refusal.code)
}

/// The totals of a shuffle to which only these were pushed: map, attempt, partition, bytes.
fn totals_of(pushes: &[(u32, i64, u32, &[u8])]) -> FinalizeSummary {
    let world = World::new().registered();
    for (map, map_id, reduce, bytes) in pushes {
        world.push_attempt(*map, *map_id, *reduce, bytes);
    }
    world.store.finalize(&key()).unwrap()
}

#[test]
fn only_segments_of_retained_attempts_are_shown_and_the_totals_are_theirs() {
    let kept: [(u32, i64, u32, &[u8]); 2] = [(0, 10, 1, b"first"), (2, 12, 1, b"third")];
    let others: [(u32, i64, u32, &[u8]); 2] = [(1, 11, 1, b"second"), (1, 11, 2, b"alone")];
    let world = World::new().registered();
    for (map, map_id, reduce, bytes) in [kept[0], others[0], kept[1], others[1]] {
        assert_eq!(world.push_attempt(map, map_id, reduce, bytes), Code::Ok);
    }
    let all = world.store.finalize(&key()).unwrap();
    assert_eq!((all.partitions, all.segments), (2, 4));
    for _ in 0..2 {
        assert_eq!(retain(&world, &[10, 12, 13]), Ok(totals_of(&kept)));
    }
    assert_eq!(world.maps(1), [0, 2]);
    assert_eq!(world.fetch(1), b"firstthird");
    assert_eq!(world.segments(2), []);
    let gone = at(&world.store, 1, 1..2).unwrap_err();
    assert_eq!(gone.code, Code::Aborted);
    assert_eq!(
        world.store.finalize(&key()),
        Ok(all),
        "the answer that it had"
    );
}

#[test]
fn attempts_are_retained_after_finalize_and_where_they_are_told_apart() {
    let world = World::new().registered();
    world.push_attempt(0, 10, 1, b"first");
    assert_eq!(retain(&world, &[10]), Err(Code::NotFinalized));
    assert_eq!(retain(&World::new().remote(), &[10]), Err(Code::Malformed));
    let other = World::new();
    assert_eq!(retain(&other, &[10]), Err(Code::UnknownApplication));
}

/// What left memory by then is known by the sum of all attempts only.
#[test]
fn lost_segments_stay_in_the_totals_whoever_they_were_of() {
    let world = World::with(1, LITTLE_MEMORY).registered();
    world.push_attempt(0, 10, 1, b"lost");
    world.fs.fault_at(0, Fault::Torn(0, Errno::NOSPC));
    let large = vec![7; LARGE_BYTES];
    assert_ne!(world.push_attempt(1, 11, 1, &large), Code::Ok);
    let all = world.store.finalize(&key()).unwrap();
    assert_eq!((all.segments, all.lost_segments), (0, 1));
    assert_eq!(retain(&world, &[11]), Ok(all));
}
