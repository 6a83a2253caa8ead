// SPDX-License-Identifier: Apache-2.0
//! Register, push, commit, fetch, remove: the promise of each.

use crate::world::*;
use std::path::Path;

use bytes::Bytes;
use lodestone_model::*;

fn refused<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> Code {
    outcome.unwrap_err().code
}

fn other_generation(generation: i32) -> ShuffleKey {
    ShuffleKey {
        generation: GenerationId(generation),
        ..key()
    }
}

fn other_attempt(attempt: i32) -> ShuffleKey {
    ShuffleKey {
        attempt: Some(AppAttempt(attempt)),
        ..key()
    }
}

#[test]
fn readers_fetch_the_pushed_bytes() {
    let world = World::new().registered();
    let mut attempt = world.attempt(2, 9);
    let codes = attempt.push(&[(0, b"first"), (3, b"second one")]);
    assert_eq!(codes, [Code::Ok, Code::Ok]);
    attempt.commit().unwrap();
    assert_eq!(world.push(5, 3, b"third"), Code::Ok);
    assert_eq!(world.commit_all(), 1);
    assert_eq!(world.fetch(0), b"first");
    assert_eq!(world.fetch(3), b"second onethird");
    let second = LaidSegment {
        map_index: MapIndex(2),
        map_id: MapId(9),
        sequence: 1,
        length: 10,
        records: 1,
        crc32c: Crc32c(crc32c::crc32c(b"second one")),
    };
    assert_eq!(world.segments(3)[0], second);
}

#[test]
fn a_repeated_segment_is_a_duplicate_and_another_attempt_is_taken_beside_it() {
    let world = World::new().registered();
    assert_eq!(world.push_attempt(1, 10, 0, b"one"), Code::Ok);
    assert_eq!(world.push_attempt(1, 10, 0, b"one"), Code::Duplicate);
    assert_eq!(world.push_attempt(1, 11, 0, b"two"), Code::Ok);
    world.commit_all();
    assert_eq!(world.fetch(0), b"onetwo");
    assert_eq!(world.shown(0), [(1, 10, ONLY), (1, 11, ONLY)]);
}

#[test]
fn a_damaged_segment_is_refused_with_all_behind_it_until_it_comes_undamaged() {
    let world = World::new().registered();
    let mut segments = [header(0, b"aa"), header(1, b"bb"), header(2, b"cc")];
    let good = segments;
    segments[1].crc32c.0 ^= 1;
    let push = |segments: &[Segment]| {
        let pushed = batch(0, 1, segments, b"aabbcc");
        world.store.push_batch(&key(), &pushed).unwrap()
    };
    let damaged = Code::ChecksumMismatch;
    assert_eq!(push(&segments), [Code::Ok, damaged, damaged]);
    assert_eq!(push(&segments), [Code::Duplicate, damaged, damaged]);
    assert_eq!(push(&good), [Code::Duplicate, Code::Ok, Code::Ok]);
}

#[test]
fn a_malformed_batch_has_no_effect() {
    let world = World::new().registered();
    let push = |map, segments: &[Segment], body: &'static [u8]| {
        let body = Bytes::from_static(body);
        refused(
            world
                .store
                .push_batch(&key(), &batch(map, 1, segments, &body)),
        )
    };
    let good = header(0, b"aa");
    assert_eq!(push(100_000, &[good], b"aa"), Code::Malformed);
    assert_eq!(
        push(0, &[good, header(20_000, b"b")], b"aab"),
        Code::Malformed
    );
    assert_eq!(push(0, &[good, header(1, b"")], b"aa"), Code::Malformed);
    assert_eq!(push(0, &[good, header(1, b"b")], b"aabb"), Code::Malformed);
    assert_eq!(push(0, &[good, header(1, b"bb")], b"aab"), Code::Malformed);
    let beyond = Segment {
        sequence: 1 << 31,
        ..good
    };
    assert_eq!(push(0, &[beyond], b"aa"), Code::Malformed);
    let layout = world.store.layout(&key(), MapRange::ALL, ReduceId(0));
    assert_eq!(refused(layout), Code::UnknownPartition);
    let nothing = world.attempt(0, 1);
    assert_eq!(nothing.commit(), Ok(()));
}

#[test]
fn commit_is_idempotent_and_a_later_push_is_a_repetition_or_does_not_count() {
    let world = World::new().registered();
    let mut attempt = world.attempt(0, 10);
    attempt.push(&[(0, b"in time")]);
    for _ in 0..2 {
        attempt.commit().unwrap();
    }
    assert_eq!(attempt.push(&[(0, b"late")]), [Code::Duplicate]);
    attempt.commit().unwrap();
    assert_eq!(world.fetch(0), b"in time");
    assert_eq!(world.push(1, 9, b"of another map"), Code::Ok);
    world.commit_all();
    assert_eq!(world.fetch(9), b"of another map");
}

#[test]
fn unknown_is_refused_and_never_empty() {
    let world = World::new();
    let layout = |key: &ShuffleKey, reduce| {
        refused(world.store.layout(key, MapRange::ALL, ReduceId(reduce)))
    };
    assert_eq!(layout(&key(), 0), Code::UnknownApplication);
    let commit = || {
        let (map, map_id) = (MapIndex(0), MapId(1));
        let nothing = Ledger::default();
        refused(world.store.commit_map(&key(), map, map_id, nothing))
    };
    assert_eq!(commit(), Code::UnknownApplication);
    world.store.register_shuffle(&key(), spec()).unwrap();
    assert_eq!(
        layout(
            &ShuffleKey {
                shuffle: ShuffleId(8),
                ..key()
            },
            0
        ),
        Code::UnknownShuffle
    );
    assert_eq!(layout(&other_generation(1), 0), Code::UnknownShuffle);
    assert_eq!(layout(&other_attempt(0), 0), Code::UnknownApplication);
    assert_eq!(layout(&key(), 0), Code::UnknownPartition);
    world.push(0, 0, b"x");
    assert!(world.segments(0).is_empty(), "it has not committed");
    world.commit_all();
    assert_eq!(layout(&key(), 1), Code::UnknownPartition);
    let slot = |slot| at(&world.store, 0, slot);
    assert_eq!(refused(slot(1..2)), Code::Malformed);
    assert_eq!(read(&slot(0..1).unwrap()), b"x");
    // Chunks of Spark's own protocol would also show segments that were not committed.
    let (meta, statuses) = (
        world.store.merged_meta(&key(), ReduceId(0), usize::MAX),
        world.store.merge_statuses(&key(), usize::MAX),
    );
    assert_eq!(refused(meta), Code::Malformed);
    assert_eq!(refused(statuses), Code::Malformed);
    let chunk = world.store.chunk(&key(), ReduceId(0), 0);
    assert_eq!(refused(chunk), Code::Malformed);
    let unregistered = ShuffleKey {
        shuffle: ShuffleId(8),
        ..key()
    };
    let (body, segments) = (Bytes::from_static(b"x"), [header(0, b"x")]);
    let push = world
        .store
        .push_batch(&unregistered, &batch(0, 0, &segments, &body));
    assert_eq!(refused(push), Code::UnknownShuffle);
}

#[test]
fn registering_again_is_harmless_with_the_same_numbers_and_malformed_with_others() {
    let world = World::new().registered();
    world.push(0, 0, b"kept");
    world.store.register_shuffle(&key(), spec()).unwrap();
    let other = ShuffleSpec {
        num_maps: 3,
        ..spec()
    };
    assert_eq!(
        refused(world.store.register_shuffle(&key(), other)),
        Code::Malformed
    );
    world.commit_all();
    assert_eq!(world.fetch(0), b"kept");
}

#[test]
fn a_higher_generation_replaces_the_older_one_and_its_files() {
    let world = World::new().registered();
    world.push(0, 0, &payload(0, 0, 300_000));
    assert_eq!(world.data_files(DISK).len(), 1);
    world
        .store
        .register_shuffle(&other_generation(2), spec())
        .unwrap();
    assert_eq!(world.data_files(DISK).len(), 0);
    let refuse = |outcome| assert_eq!(refused(outcome), Code::StaleGeneration);
    refuse(world.store.register_shuffle(&key(), spec()));
    let commit = |key: &ShuffleKey| {
        let (map, map_id) = (MapIndex(0), MapId(1000));
        world.store.commit_map(key, map, map_id, Ledger::default())
    };
    refuse(commit(&key()));
    let (body, segments) = (Bytes::from_static(b"x"), [header(0, b"x")]);
    let push = world
        .store
        .push_batch(&key(), &batch(0, 0, &segments, &body));
    refuse(push.map(|_| ()));
    refuse(world.store.remove_shuffle(
        &app(),
        AppAttempt::NONE,
        ShuffleId(7),
        Some(GenerationId(1)),
    ));
    commit(&other_generation(2)).unwrap();
}

#[test]
fn a_higher_attempt_replaces_the_older_one_and_its_files() {
    let world = World::new();
    world
        .store
        .register_shuffle(&other_attempt(1), spec())
        .unwrap();
    let (body, segments) = (Bytes::from_static(b"x"), [header(0, b"x")]);
    let push = |attempt| {
        let key = other_attempt(attempt);
        world.store.push_batch(&key, &batch(0, 0, &segments, &body))
    };
    assert_eq!(push(1).unwrap(), [Code::Ok]);
    world
        .store
        .register_shuffle(&other_attempt(2), spec())
        .unwrap();
    assert_eq!(refused(push(1)), Code::StaleAttempt);
    let again = world.store.register_shuffle(&other_attempt(1), spec());
    assert_eq!(refused(again), Code::StaleAttempt);
    assert_eq!(
        refused(world.store.end_application(&app(), AppAttempt(1))),
        Code::StaleAttempt
    );
    assert_eq!(push(2).unwrap(), [Code::Ok]);
}

#[test]
fn a_removed_shuffle_is_unknown_its_files_are_gone_and_late_pushes_are_refused() {
    let world = World::new().registered();
    let idle = world.store.load().memory_used;
    world.push(0, 0, &payload(0, 0, 300_000));
    world.push(0, 1, b"tail");
    world.commit_all();
    assert!(world.store.load().memory_used > idle);
    let open = at(&world.store, 0, 0..1).unwrap();
    world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None)
        .unwrap();
    assert_eq!(world.data_files(DISK).len(), 0);
    assert!(
        world.store.load().memory_used < idle,
        "memory of the shuffle is given back"
    );
    assert_eq!(world.store.load().shuffles, 0);
    assert_eq!(
        world.fs.below(Path::new(DISK)).len(),
        3,
        "root, lock and marker are left"
    );
    assert_eq!(
        read(&open),
        payload(0, 0, 300_000),
        "an open chunk stays readable"
    );
    assert_eq!(world.push(1, 0, b"late"), Code::TooLate);
    let layout = world.store.layout(&key(), MapRange::ALL, ReduceId(0));
    assert_eq!(refused(layout), Code::UnknownShuffle);
    let commit = world.attempt(0, 1000).commit();
    assert_eq!(commit, Err(Code::UnknownShuffle));
    assert_eq!(
        refused(world.store.register_shuffle(&key(), spec())),
        Code::TooLate
    );
    world
        .store
        .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), None)
        .unwrap();
    world
        .store
        .register_shuffle(&other_generation(1), spec())
        .unwrap();
}

#[test]
fn an_ended_application_is_forgotten_with_its_files_and_memory() {
    let world = World::new().registered();
    world.push(0, 0, &payload(0, 0, 300_000));
    world
        .store
        .end_application(&app(), AppAttempt::NONE)
        .unwrap();
    assert_eq!(world.data_files(DISK).len(), 0);
    assert_eq!(world.store.load().memory_used, 0);
    let commit = world.attempt(0, 1000).commit();
    assert_eq!(commit, Err(Code::UnknownApplication));
    world
        .store
        .end_application(&app(), AppAttempt::NONE)
        .unwrap();
}

#[test]
fn an_application_lives_as_long_as_its_lease() {
    let world = World::new().registered();
    world.clock.advance_ms(119_999);
    assert!(world.store.expire_leases(world.store.now_ms()).is_empty());
    let renew = |ttl_ms| world.store.renew_lease(&app(), AppAttempt::NONE, ttl_ms);
    assert_eq!(renew(30_000), Ok(30_000));
    world.clock.advance_ms(29_999);
    assert!(world.store.expire_leases(world.store.now_ms()).is_empty());
    world.store.register_shuffle(&key(), spec()).unwrap();
    world.clock.advance_ms(1);
    assert_eq!(
        world.store.expire_leases(world.store.now_ms()),
        [app()],
        "registering does not renew a lease"
    );
    assert_eq!(refused(renew(30_000)), Code::UnknownApplication);
    assert_eq!(world.store.load().memory_used, 0);
}

#[test]
fn time_in_which_the_daemon_stood_still_does_not_count_for_leases() {
    let world = World::new().registered();
    world.clock.advance_ms(119_999 + 300_000);
    world.store.prolong_leases(300_000);
    assert!(world.store.expire_leases(world.store.now_ms()).is_empty());
    world.clock.advance_ms(1);
    assert_eq!(world.store.expire_leases(world.store.now_ms()), [app()]);
}

#[test]
fn a_daemon_that_stands_still_in_the_middle_of_a_look_at_leases_forgets_nobody() {
    let world = World::new().registered();
    let look_began_ms = world.store.now_ms();
    world.clock.advance_ms(300_000);
    assert!(world.store.expire_leases(look_began_ms).is_empty());
}

#[test]
fn a_shuffle_that_comes_when_the_lease_has_just_run_out_is_kept() {
    let world = World::new().registered();
    world.clock.advance_ms(120_001);
    let mut other = key();
    other.shuffle = ShuffleId(8);
    world.store.register_shuffle(&other, spec()).unwrap();
    assert!(world.store.expire_leases(world.store.now_ms()).is_empty());
    world.clock.advance_ms(120_000);
    assert_eq!(world.store.expire_leases(world.store.now_ms()), [app()]);
}

#[test]
fn leases_are_granted_between_ten_seconds_and_an_hour() {
    let world = World::new().registered();
    let renew = |attempt, ttl_ms| world.store.renew_lease(&app(), AppAttempt(attempt), ttl_ms);
    assert_eq!(renew(-1, 0), Ok(10_000));
    assert_eq!(renew(-1, u64::MAX), Ok(3_600_000));
    assert_eq!(renew(-2, 1).unwrap_err().code, Code::StaleAttempt);
    assert_eq!(renew(0, 1).unwrap_err().code, Code::UnknownApplication);
}
