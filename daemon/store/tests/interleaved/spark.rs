// SPDX-License-Identifier: Apache-2.0
//! Spark's own push: blocks collide, and the shuffle is finalized meanwhile.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lodestone_model::*;
use lodestone_store::ExecutorInfo;
use shuttle::thread;

use crate::clients::insist;
use crate::explore::explore;
use crate::world::*;

const LOCAL_DIR: &str = "/data/blockmgr-a";
const MAPS: u32 = 3;
const REDUCE: u32 = 3;

/// Two of them are written together.
const BLOCK_BYTES: usize = 140_000;

fn world() -> Arc<World> {
    let world = World::with(1, MIB);
    world.fs.add_dir(Path::new(LOCAL_DIR));
    let info = ExecutorInfo {
        local_dirs: vec![LOCAL_DIR.to_owned()],
        sub_dirs: 64,
        merge_dir: Some("merge_manager".to_owned()),
    };
    let registered = world
        .store
        .register_executor(&app(), "1", AppAttempt(-1), info);
    registered.unwrap();
    Arc::new(world)
}

/// Pushes the block of a map until it is taken, or comes too late. Returns true if it was taken.
fn push(world: &World, map: u32) -> bool {
    let block = payload(map, REDUCE, BLOCK_BYTES);
    let (map, reduce) = (MapIndex(map), ReduceId(REDUCE));
    let pushed = insist(|| {
        let pushed = world.store.push_block(&key(), map, reduce, &block);
        pushed.map_err(|refusal| refusal.code)
    });
    match pushed.unwrap() {
        Code::Ok => true,
        Code::Duplicate | Code::TooLate => false,
        other => panic!("{other}"),
    }
}

fn finalize(world: &World) -> Vec<MergeStatus> {
    let finalized = insist(|| {
        let statuses = world.store.merge_statuses(&key(), usize::MAX);
        statuses.map_err(|refusal| refusal.code)
    });
    finalized.unwrap()
}

#[test]
fn a_finalized_partition_has_the_blocks_that_were_taken_once_each() {
    let merged = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&merged);
    explore(move || {
        let world = world();
        // The last map is pushed by two attempts.
        let pushers: Vec<_> = (0..=MAPS)
            .map(|n| {
                let (world, map) = (Arc::clone(&world), n.min(MAPS - 1));
                thread::spawn(move || push(&world, map).then_some(map))
            })
            .collect();
        let finalizes = {
            let world = Arc::clone(&world);
            thread::spawn(move || finalize(&world))
        };
        let first = finalize(&world);
        assert_eq!(finalizes.join().unwrap(), first, "a repeated request");
        let taken: Vec<u32> = pushers
            .into_iter()
            .filter_map(|pusher| pusher.join().unwrap())
            .collect();
        let maps: BTreeSet<u32> = taken.iter().copied().collect();
        assert_eq!(maps.len(), taken.len(), "a map was taken twice");
        assert_eq!(finalize(&world), first, "it changed afterwards");
        count.fetch_add(first.len(), Relaxed);
        check(&world, &first, &maps);
    });
    assert!(merged.load(Relaxed) > 0, "nothing was merged");
}

/// The merged data has the blocks of these maps, and its status says so. Or there is no status, and
/// Spark reads the originals: finalize waited for a lock in vain.
fn check(world: &World, statuses: &[MergeStatus], maps: &BTreeSet<u32>) {
    let Some(status) = statuses.first() else {
        return;
    };
    let data = merged_data(world);
    assert_eq!(status.maps.iter().collect::<BTreeSet<u32>>(), *maps);
    assert_eq!(status.bytes, data.len() as u64);
    let mut left = maps.clone();
    for block in data.chunks(BLOCK_BYTES) {
        let map = left
            .iter()
            .copied()
            .find(|map| payload(*map, REDUCE, BLOCK_BYTES) == block);
        assert!(left.remove(&map.unwrap()));
    }
    assert!(left.is_empty(), "{left:?} are not in the file");
}

fn merged_data(world: &World) -> Vec<u8> {
    let mut files = world.fs.below(Path::new("/data"));
    files.retain(|path| path.extension().is_some_and(|kind| kind == "data"));
    let bytes = files.iter().map(|path| world.fs.content(path).unwrap());
    bytes.collect::<Vec<_>>().concat()
}
