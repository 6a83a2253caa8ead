// SPDX-License-Identifier: Apache-2.0
//! Register, push, finalize, fetch, remove: what each promises.

use crate::world::*;
use std::path::Path;

use bytes::Bytes;
use lodestone_model::*;

fn refused<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> Code {
    outcome.unwrap_err().code
}

fn other_merge(merge: i32) -> ShuffleKey {
    ShuffleKey {
        merge: MergeId(merge),
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
fn what_was_pushed_is_what_is_fetched() {
    let world = World::new().registered();
    let segments = [header(0, b"first"), header(3, b"second one")];
    let body = Bytes::from_static(b"firstsecond one");
    let codes = world
        .store
        .push_batch(&key(), &batch(2, 9, &segments, &body))
        .unwrap();
    assert_eq!(codes, [Code::Ok, Code::Ok]);
    assert_eq!(world.push(5, 3, b"third"), Code::Ok);
    let summary = world.store.finalize(&key()).unwrap();
    assert_eq!((summary.partitions, summary.segments), (2, 3));
    assert_eq!((summary.bytes, summary.lost_segments), (20, 0));
    assert_eq!(world.fetch(0), b"first");
    assert_eq!(world.fetch(3), b"second onethird");
    let first = LaidSegment {
        map_index: MapIndex(2),
        map_id: MapId(9),
        sequence: 0,
        length: 10,
        records: 1,
        crc32c: Crc32c(crc32c::crc32c(b"second one")),
    };
    assert_eq!(world.segments(3)[0], first);
}

#[test]
fn a_repeated_segment_is_a_duplicate_and_another_attempt_is_told_so() {
    let world = World::new().registered();
    assert_eq!(world.push_attempt(1, 10, 0, b"one"), Code::Ok);
    assert_eq!(world.push_attempt(1, 10, 0, b"one"), Code::Duplicate);
    assert_eq!(world.push_attempt(1, 11, 0, b"two"), Code::OtherAttempt);
    world.store.finalize(&key()).unwrap();
    assert_eq!(world.fetch(0), b"one");
    assert_eq!(world.maps(0), [1]);
}

#[test]
fn a_damaged_segment_is_refused_and_its_neighbours_are_merged() {
    let world = World::new().registered();
    let mut segments = [header(0, b"aa"), header(1, b"bb"), header(2, b"cc")];
    segments[1].crc32c.0 ^= 1;
    let body = Bytes::from_static(b"aabbcc");
    let push = || {
        world
            .store
            .push_batch(&key(), &batch(0, 1, &segments, &body))
            .unwrap()
    };
    assert_eq!(push(), [Code::Ok, Code::ChecksumMismatch, Code::Ok]);
    assert_eq!(
        push(),
        [Code::Duplicate, Code::ChecksumMismatch, Code::Duplicate]
    );
    assert_eq!(world.push_attempt(0, 1, 1, b"bb"), Code::Ok);
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
    assert_eq!(
        push(0, &[good, header(1, b"b"), good], b"aabaa"),
        Code::Malformed
    );
    let summary = world.store.finalize(&key()).unwrap();
    assert_eq!(summary, FinalizeSummary::default());
}

#[test]
fn finalize_is_idempotent_and_what_comes_after_is_too_late() {
    let world = World::new().registered();
    world.push(0, 0, b"in time");
    let summary = world.store.finalize(&key()).unwrap();
    assert_eq!(world.push(1, 0, b"late"), Code::TooLate);
    assert_eq!(
        world.push(1, 9, b"late, and to a new partition"),
        Code::TooLate
    );
    assert_eq!(world.store.finalize(&key()).unwrap(), summary);
    assert_eq!(world.fetch(0), b"in time");
}

#[test]
fn unknown_is_refused_and_never_empty() {
    let world = World::new();
    let layout = |key: &ShuffleKey, reduce| {
        refused(world.store.layout(key, MapRange::ALL, ReduceId(reduce)))
    };
    assert_eq!(layout(&key(), 0), Code::UnknownApplication);
    assert_eq!(
        refused(world.store.finalize(&key())),
        Code::UnknownApplication
    );
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
    assert_eq!(layout(&other_merge(1), 0), Code::UnknownShuffle);
    assert_eq!(layout(&other_attempt(0), 0), Code::UnknownApplication);
    assert_eq!(layout(&key(), 0), Code::NotFinalized);
    world.push(0, 0, b"x");
    assert_eq!(layout(&key(), 0), Code::NotFinalized);
    world.store.finalize(&key()).unwrap();
    assert_eq!(layout(&key(), 1), Code::UnknownPartition);
    assert_eq!(
        refused(world.store.merged_meta(&key(), ReduceId(1))),
        Code::UnknownPartition
    );
    let place = |place| at(&world.store, 0, place);
    assert_eq!(refused(place(1..2)), Code::Malformed);
    assert_eq!(read(&place(0..1).unwrap()), b"x");
    let chunk = |number| world.store.chunk(&key(), ReduceId(0), number);
    assert_eq!(refused(chunk(1)), Code::Malformed);
    assert_eq!(read(&chunk(0).unwrap()), b"x");
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
    world.store.finalize(&key()).unwrap();
    assert_eq!(world.fetch(0), b"kept");
}

#[test]
fn a_higher_merge_id_replaces_the_older_generation_and_its_files() {
    let world = World::new().registered();
    world.push(0, 0, &payload(0, 0, 300_000));
    assert_eq!(world.data_files(DISK).len(), 1);
    world
        .store
        .register_shuffle(&other_merge(2), spec())
        .unwrap();
    assert_eq!(world.data_files(DISK).len(), 0);
    let refuse = |outcome| assert_eq!(refused(outcome), Code::StaleMerge);
    refuse(world.store.register_shuffle(&key(), spec()));
    refuse(world.store.finalize(&key()).map(|_| ()));
    let (body, segments) = (Bytes::from_static(b"x"), [header(0, b"x")]);
    let push = world
        .store
        .push_batch(&key(), &batch(0, 0, &segments, &body));
    refuse(push.map(|_| ()));
    refuse(
        world
            .store
            .remove_shuffle(&app(), AppAttempt::NONE, ShuffleId(7), Some(MergeId(1))),
    );
    world.store.finalize(&other_merge(2)).unwrap();
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
fn a_removed_shuffle_is_unknown_its_files_are_gone_and_late_pushes_are_told() {
    let world = World::new().registered();
    let idle = world.store.load().memory_used;
    world.push(0, 0, &payload(0, 0, 300_000));
    world.push(0, 1, b"tail");
    world.store.finalize(&key()).unwrap();
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
    assert_eq!(refused(world.store.finalize(&key())), Code::UnknownShuffle);
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
        .register_shuffle(&other_merge(1), spec())
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
    assert_eq!(
        refused(world.store.finalize(&key())),
        Code::UnknownApplication
    );
    world
        .store
        .end_application(&app(), AppAttempt::NONE)
        .unwrap();
}

#[test]
fn an_application_lives_as_long_as_its_lease() {
    let world = World::new().registered();
    world.clock.advance_ms(119_999);
    assert!(world.store.expire_leases().is_empty());
    let renew = |ttl_ms| world.store.renew_lease(&app(), AppAttempt::NONE, ttl_ms);
    assert_eq!(renew(30_000), Ok(30_000));
    world.clock.advance_ms(29_999);
    assert!(world.store.expire_leases().is_empty());
    world.store.register_shuffle(&key(), spec()).unwrap();
    world.clock.advance_ms(1);
    assert_eq!(
        world.store.expire_leases(),
        [app()],
        "registering does not renew a lease"
    );
    assert_eq!(refused(renew(30_000)), Code::UnknownApplication);
    assert_eq!(world.store.load().memory_used, 0);
}

#[test]
fn a_shuffle_that_comes_when_the_lease_has_just_run_out_is_kept() {
    let world = World::new().registered();
    world.clock.advance_ms(120_001);
    let mut other = key();
    other.shuffle = ShuffleId(8);
    world.store.register_shuffle(&other, spec()).unwrap();
    assert!(world.store.expire_leases().is_empty());
    world.clock.advance_ms(120_000);
    assert_eq!(world.store.expire_leases(), [app()]);
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
