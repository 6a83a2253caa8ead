// SPDX-License-Identifier: Apache-2.0
//! Some space stays free on each disk, for others that write there.

use std::path::Path;

use lodestone_model::*;
use lodestone_store::*;

use crate::world::*;

const BLOCK: usize = 1 << 20;
const DISK_BYTES: u64 = 20 * MIB;
const KEPT: u64 = 8 * MIB;

#[test]
fn a_disk_keeps_its_reserve_free_and_is_used_again_when_there_is_more() {
    let world = World::with_reserve(DISK_BYTES, Reserve::Bytes(KEPT)).registered();
    let push = |map| world.push(map, map, &payload(map, 0, BLOCK));
    let taken = (0..).take_while(|map| push(*map) == Code::Ok).count() as u32;
    assert_eq!(
        push(taken),
        Code::DiskFull,
        "no look at the disk is needed to know"
    );
    let free = DISK_BYTES - world.data_bytes(DISK) as u64;
    assert!(
        (KEPT - 2 * MIB..=KEPT).contains(&free),
        "{free} bytes are free"
    );
    assert_eq!(world.load().state, State::DiskFull);
    assert_eq!(push(taken), Code::DiskFull, "nor does a look change it");
    world.fs.set_capacity(Path::new(DISK), 2 * DISK_BYTES);
    assert_eq!(world.load().state, State::Serving);
    assert_eq!(push(taken), Code::Ok);
    world.commit_all();
    for reduce in 0..=taken {
        assert_eq!(world.fetch(reduce), payload(reduce, 0, BLOCK));
    }
}

#[test]
fn data_that_would_be_lost_when_the_daemon_ends_may_use_the_reserve() {
    let world = World::with_reserve(DISK_BYTES, Reserve::Bytes(DISK_BYTES)).remote();
    let mut attempt = world.attempt(1, 100);
    assert_eq!(
        attempt.push(&[(3, b"kept")]),
        [Code::Ok],
        "there is memory for it"
    );
    attempt.commit().unwrap();
    assert_eq!(world.load().state, State::DiskFull);
    assert_eq!(world.write_step(), 4);
    assert_eq!(world.fetch(3), b"kept");
}
