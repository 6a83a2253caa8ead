// SPDX-License-Identifier: Apache-2.0
//! A repeated batch is compared with the first one: only the very same counts as done.

use crate::world::*;

use lodestone_model::*;

fn pushed(world: &World, map_id: i64, segments: &[Segment], body: &[u8]) -> Vec<Code> {
    let batch = batch(1, map_id, segments, body);
    world.store.push_batch(&key(), &batch).unwrap()
}

#[test]
fn a_merged_segment_that_comes_again_with_other_bytes_is_refused_and_the_first_one_stays() {
    let world = World::new().registered();
    let one = header(0, b"one");
    assert_eq!(pushed(&world, 10, &[one], b"one"), [Code::Ok]);
    let others = [
        (header(0, b"two"), b"two".to_vec()),
        (header(0, b"longer"), b"longer".to_vec()),
        (Segment { records: 2, ..one }, b"one".to_vec()),
    ];
    for (other, body) in others {
        assert_eq!(pushed(&world, 10, &[other], &body), [Code::OtherContent]);
    }
    assert_eq!(pushed(&world, 10, &[one], b"one"), [Code::Duplicate]);
    assert_eq!(
        pushed(&world, 11, &[header(0, b"two")], b"two"),
        [Code::Ok],
        "what another attempt wrote need not be the same"
    );
    world
        .attempt(1, 10)
        .commit_as(ledger_of(1, 10, &one))
        .unwrap();
    assert_eq!(world.fetch(0), b"one");
}

#[test]
fn a_batch_that_comes_again_with_other_segments_is_refused_as_a_whole() {
    for world in [World::new().remote(), World::new().registered()] {
        refuses_other_segments(&world);
    }
}

fn refuses_other_segments(world: &World) {
    let (one, two) = (header(1, b"one"), header(2, b"two"));
    assert_eq!(
        pushed(world, 10, &[one, two], b"onetwo"),
        [Code::Ok, Code::Ok]
    );
    let other = Code::OtherContent;
    let numbered = Segment { sequence: 1, ..one };
    for first in [header(1, b"ONE"), header(3, b"one"), numbered] {
        let codes = pushed(world, 10, &[first, two], b"ONEtwo");
        assert_eq!(codes, [other, other], "{first:?}");
    }
    assert_eq!(pushed(world, 10, &[one], b"one"), [other], "a part of it");
    assert_eq!(
        pushed(world, 10, &[one, two], b"onetwo"),
        [Code::Duplicate, Code::Duplicate]
    );
    world.store.drain();
    let (again, new) = ([one, two], [header(1, b"ONE"), two]);
    let drained = pushed(world, 10, &again, b"onetwo");
    assert_eq!(drained, [Code::Duplicate, Code::Duplicate]);
    assert_eq!(pushed(world, 10, &new, b"ONEtwo"), [other, other]);
}

#[test]
fn the_next_daemon_compares_a_repeated_batch_too() {
    let first = World::with(2, LITTLE_MEMORY).remote();
    let one = header(1, b"one");
    assert_eq!(pushed(&first, 10, &[one], b"one"), [Code::Ok]);
    let next = crate::handover::handed_over(&first, 2, 2);
    let two = header(2, b"two");
    let codes = pushed(&next, 10, &[header(1, b"ONE"), two], b"ONEtwo");
    assert_eq!(codes, [Code::OtherContent; 2]);
    let codes = pushed(&next, 10, &[one, two], b"onetwo");
    assert_eq!(codes, [Code::Duplicate, Code::Ok]);
}
