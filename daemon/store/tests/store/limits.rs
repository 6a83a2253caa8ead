// SPDX-License-Identifier: Apache-2.0
//! What clients make up takes a limited part of the memory: names of applications, of shuffles, of
//! map attempts, of directories.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use lodestone_model::*;
use lodestone_store::{ExecutorInfo, Store};

use crate::stalled::{LONGEST, Mended};
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

#[test]
fn removals_of_shuffles_that_never_were_leave_memory_to_others() {
    let world = World::with(1, MIB);
    let (greedy, honest) = (key(), named("honest", 1));
    let store = &world.store;
    for key in [&greedy, &honest] {
        store.register_shuffle(key, spec()).unwrap();
    }
    let remove = |shuffle: i32| {
        let removed = Some(GenerationId(0));
        store.remove_shuffle(&greedy.app, AppAttempt::NONE, ShuffleId(shuffle), removed)
    };
    let before = store.load().memory_used;
    for shuffle in 100..60_000 {
        assert_eq!(remove(shuffle), Ok(()));
    }
    let used = store.load().memory_used;
    assert!(used > before + 100_000, "they are counted: {used}");
    assert!(used < MIB * 3 / 4, "{used} bytes of what clients made up");
    works(store, &honest, 0);
    assert_eq!(remove(greedy.shuffle.0), Ok(()), "a removal always works");
    for app in [&greedy.app, &honest.app] {
        store.end_application(app, AppAttempt::NONE).unwrap();
    }
    assert_eq!(store.load().memory_used, 0);
}

#[test]
fn names_of_applications_that_are_made_up_leave_memory_to_those_that_are_known() {
    let world = World::with(1, MIB);
    let honest = named("honest", 1);
    let store = &world.store;
    store.register_shuffle(&honest, spec()).unwrap();
    let made_up = |number: usize| {
        let key = named(&format!("made-up-{number}"), 1);
        store.register_shuffle(&key, spec()).err()
    };
    let refused = (0..10_000).find_map(made_up).expect("names have a limit");
    assert_eq!(refused.code, Code::Overloaded);
    for map in 0..100 {
        works(store, &honest, map);
    }
    for shuffle in 2..50 {
        let key = named("honest", shuffle);
        assert_eq!(store.register_shuffle(&key, spec()), Ok(()));
        works(store, &key, 0);
    }
    assert!(store.load().memory_used < MIB);
}

#[test]
fn large_applications_leave_memory_to_small_ones() {
    let world = World::with(1, 8 * MIB);
    let honest = named("honest", 1);
    let store = &world.store;
    store.register_shuffle(&honest, spec()).unwrap();
    for name in ["large", "larger"] {
        let key = named(name, 1);
        store.register_shuffle(&key, spec()).unwrap();
        let headers: Vec<_> = (0..1_000).map(|_| header(0, b"x")).collect();
        let body = vec![b'x'; headers.len()];
        let push = |map: u32| {
            let codes = store.push_batch(&key, &batch(map, i64::from(map), &headers, &body));
            codes.unwrap().contains(&Code::Ok)
        };
        assert!((0..2_000).any(|map| !push(map)), "two million segments");
    }
    for map in 0..50 {
        works(store, &honest, map);
    }
}

/// An executor whose directories have names of this many bytes together.
fn executor(number: usize, bytes: usize) -> ExecutorInfo {
    ExecutorInfo {
        local_dirs: vec![format!("/{number:0>990}"); bytes / 1_000],
        sub_dirs: 64,
        merge_dir: None,
    }
}

#[test]
fn executors_of_one_application_leave_room_for_those_of_others() {
    let world = World::new();
    let register = |app: &str, number: usize, bytes: usize| {
        let (app, id) = (AppId::new(app).unwrap(), number.to_string());
        let info = executor(number, bytes);
        let store = &world.store;
        store.register_executor(&app, &id, AppAttempt::NONE, info)
    };
    let fill = |app: &str| {
        let refused = (0..100).find_map(|number| register(app, number, 20_000).err());
        let refusal = refused.expect("two megabytes of names");
        assert_eq!(refusal.code, Code::Overloaded);
        assert!(refusal.detail.contains("--memory"), "{}", refusal.detail);
    };
    fill("greedy");
    fill("another-one");
    for number in 0..10 {
        assert_eq!(register("honest", number, 1_000), Ok(()));
    }
    assert_eq!(
        register("greedy", 0, 4_000).unwrap_err().code,
        Code::Overloaded
    );
    for app in ["greedy", "another-one", "honest"] {
        assert!(world.store.end_everywhere(app));
    }
    assert_eq!(register("honest", 0, 250_000), Ok(()), "all of it is free");
}

#[test]
fn an_application_with_some_executors_gets_free_room_for_more_when_others_have_come() {
    let world = World::new();
    let register = |app: &str, number: usize| {
        let (app, id) = (AppId::new(app).unwrap(), number.to_string());
        let info = executor(number, 5_000);
        let store = &world.store;
        store.register_executor(&app, &id, AppAttempt::NONE, info)
    };
    assert!((0..2).all(|number| register("first", number).is_ok()));
    let large = (0..100).take_while(|number| register("large", *number).is_ok());
    assert!(large.count() > 50, "most of the room");
    let names = (0..100).map(|number| format!("another-{number}"));
    let others: Vec<_> = names.take_while(|name| register(name, 0).is_ok()).collect();
    assert!(others.len() > 5, "{others:?}");
    assert!(world.store.end_everywhere(&others[0]));
    assert_eq!(register("first", 2), Ok(()));
}

#[test]
fn an_executor_that_registers_again_needs_no_room() {
    let world = World::new();
    let register = |number: usize, bytes| {
        let (store, id) = (&world.store, number.to_string());
        store.register_executor(&app(), &id, AppAttempt::NONE, executor(number, bytes))
    };
    let refused = (0..100).find(|number| register(*number, 20_000).is_err());
    assert_eq!(register(0, 20_000), Ok(()), "of {refused:?}");
    let other = register(0, 21_000).unwrap_err();
    assert_eq!(other.code, Code::Overloaded, "these are other directories");
}

#[test]
fn executors_whose_directories_are_gone_make_room_for_the_next_one_of_their_application() {
    let world = World::new();
    let register = |number: usize| {
        let (store, id) = (&world.store, number.to_string());
        store.register_executor(&app(), &id, AppAttempt::NONE, executor(number, 20_000))
    };
    let dir = |number| executor(number, 1_000).local_dirs.concat();
    let come = |number| {
        world.fs.add_dir(Path::new(&dir(number)));
        register(number)
    };
    let end = |number| world.fs.wipe(Path::new(&dir(number)));
    let is_known = |number: usize| world.store.local_dirs(&app(), &number.to_string()).is_ok();
    let next = (0..100).find(|number| come(*number).is_err()).unwrap();
    assert!((0..next).all(is_known), "their directories are there");
    end(1);
    world.clock.advance_ms(60_000);
    end(next);
    assert!(
        register(next).is_err(),
        "the disk of all of them may be away"
    );
    assert!(is_known(1));
    assert_eq!(come(next), Ok(()));
    assert!(!is_known(1));
    assert!((2..=next).all(is_known));
    for number in next + 1..next + 100 {
        end(number - 1);
        world.clock.advance_ms(60_000);
        assert_eq!(come(number), Ok(()), "a long-living application");
    }
}

#[test]
fn an_executor_gets_the_room_of_one_that_is_gone_while_the_disk_of_another_one_hangs() {
    let world = World::new();
    let register = |number: usize| {
        let (store, id) = (&world.store, number.to_string());
        let info = executor(number, 20_000);
        world.fs.add_dir(Path::new(&info.local_dirs[0]));
        store.register_executor(&app(), &id, AppAttempt::NONE, info)
    };
    let dir = |number: usize| executor(number, 1_000).local_dirs.concat();
    let is_known = |number: usize| world.store.local_dirs(&app(), &number.to_string()).is_ok();
    let next = (0..100).find(|number| register(*number).is_err()).unwrap();
    for gone in [0, 1] {
        world.fs.wipe(Path::new(&dir(gone)));
    }
    world.clock.advance_ms(60_000);
    // Each executor has a disk of its own.
    world.fs.hold_calls_below(Path::new(&dir(0)));
    thread::scope(|scope| {
        let _mended = Mended(&world);
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || sender.send(register(next)));
        assert_eq!(receiver.recv_timeout(LONGEST), Ok(Ok(())));
        assert!(is_known(0), "nobody knows whether its directory is gone");
        assert!(!is_known(1));
    });
}

#[test]
fn all_executors_that_had_room_have_it_after_a_restart() {
    let mut world = World::new();
    world.fs.add_dir(Path::new("/data"));
    let mut registered = Vec::new();
    // Later daemons take them over in the order of their names.
    for app in ["z-first", "m-second", "a-third"] {
        let app = AppId::new(app).unwrap();
        for number in 0..100 {
            let info = ExecutorInfo {
                local_dirs: vec!["/data".into(); 50],
                sub_dirs: 64,
                merge_dir: None,
            };
            let (store, id) = (&world.store, number.to_string());
            let done = store.register_executor(&app, &id, AppAttempt::NONE, info);
            registered.extend(done.is_ok().then_some((app.clone(), id)));
        }
    }
    assert!(registered.len() < 300, "the names have a limit");
    for seed in 2..4 {
        world.fs.crash();
        world = World::on(world.fs.clone(), vec![DISK.into()], LITTLE_MEMORY, seed);
        for (app, id) in &registered {
            assert!(world.store.local_dirs(app, id).is_ok(), "{id} of {app}");
        }
    }
}
