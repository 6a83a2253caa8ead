// SPDX-License-Identifier: Apache-2.0
//! What clients make up takes a limited part of the memory: names of
//! map attempts.

use lodestone_model::*;
use lodestone_store::Store;

use crate::world::*;

fn named(name: &str, shuffle: i32) -> ShuffleKey {
    ShuffleKey {
        app: AppId::new(name).unwrap(),
        shuffle: ShuffleId(shuffle),
        ..key()
    }
}

/// An honest application pushes and reads.
fn works(store: &Store, key: &ShuffleKey, map: u32) {
    let headers = [header(0, b"block")];
    let codes = store.push_batch(key, &batch(map, i64::from(map), &headers, b"block"));
    assert_eq!(codes, Ok(vec![Code::Ok]));
    let (map, map_id) = (MapIndex(map), MapId(i64::from(map)));
    let pushed = ledger_of(map.0, map_id.0, &headers[0]);
    assert_eq!(store.commit_map(key, map, map_id, pushed), Ok(()));
    let shown = store.layout(key, MapRange::ALL, ReduceId(0)).unwrap();
    assert!(!shown.is_empty());
}

#[test]
fn aborts_of_attempts_that_never_came_leave_memory_to_others() {
    let world = World::with(1, MIB);
    let (greedy, honest) = (key(), named("honest", 1));
    let spec = |num_maps| ShuffleSpec { num_maps, ..spec() };
    let store = &world.store;
    store
        .register_shuffle(&greedy, spec(i32::MAX as u32))
        .unwrap();
    store.register_shuffle(&honest, spec(10)).unwrap();
    works(store, &greedy, 5_000_000);
    let abort = |id: i64| store.abort_map(&greedy, MapIndex(id as u32), MapId(id));
    let refused = (0..100_000).find_map(|id| abort(id).err().map(|refusal| (id, refusal.code)));
    let (first_refused, code) = refused.expect("a hundred thousand are more than the share");
    assert_eq!(code, Code::Quota);
    assert!(store.load().memory_used < MIB);
    works(store, &honest, 0);
    // What was promised is kept, and what was refused is not taken.
    for id in [0, first_refused] {
        let headers = [header(0, b"late")];
        let codes = store.push_batch(&greedy, &batch(id as u32, id, &headers, b"late"));
        let code = [Code::Aborted, Code::Quota][usize::from(id > 0)];
        assert_eq!(codes, Ok(vec![code]));
        let (map, map_id) = (MapIndex(id as u32), MapId(id));
        let pushed = ledger_of(map.0, id, &headers[0]);
        assert!(store.commit_map(&greedy, map, map_id, pushed).is_err());
    }
    for app in [&greedy.app, &honest.app] {
        store.end_application(app, AppAttempt::NONE).unwrap();
    }
    assert_eq!(store.load().memory_used, 0);
}
