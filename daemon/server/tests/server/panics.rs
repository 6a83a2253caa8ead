// SPDX-License-Identifier: Apache-2.0
//! A bug in a handler costs one connection: the daemon's disk panics when the test wants it.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::Code;

use crate::support::client::batch;
use crate::support::inside::Inside;
use crate::support::trap::TrapFs;

fn memory_of(daemon: &Inside) -> usize {
    daemon.service.store.load().memory_limit.try_into().unwrap()
}

#[test]
fn a_handler_that_panics_costs_its_own_connection_only() {
    let disk = TrapFs::default();
    let daemon = Inside::start(disk.environment());
    let (mut victim, mut bystander) = (daemon.connect(), daemon.connect());
    victim.register(&daemon.key(1), 4, 1);
    bystander.register(&daemon.key(2), 1, 1);
    // Memory is not short yet, and has no room for the next segment: its push writes it to disk.
    let block = vec![7; memory_of(&daemon) / 16 * 5];
    for map in 0..2 {
        let codes = victim.push(&daemon.key(1), map, 1, &[(0, &block)]);
        assert_eq!(codes, [Code::Ok]);
    }
    disk.arm(|_| panic!("the trap was sprung"));
    let (meta, body) = batch(&daemon.key(1), 2, 1, &[(0, &block)]);
    victim.send_upload(&meta, &body);
    assert_eq!(victim.receive(), None, "the connection is closed");
    disk.disarm();

    bystander.output(&daemon.key(2), 0, 1, &[(0, b"unharmed")]);
    assert_eq!(bystander.partition(&daemon.key(2), 0)[0].2, "unharmed");
    assert_eq!(
        daemon.service.uploads.used_bytes(),
        0,
        "the memory of the lost request came back"
    );
    daemon.stop();
}

#[test]
fn a_panic_while_memory_is_freed_costs_what_was_written_and_memory_is_freed_later() {
    let disk = TrapFs::default();
    let daemon = Inside::start(disk.environment());
    let mut client = daemon.connect();
    client.register(&daemon.key(1), 2, 1);
    client.register(&daemon.key(2), 2, 1);
    let (sprung, springs) = mpsc::channel();
    disk.arm(move |_| {
        sprung.send(()).unwrap();
        panic!("the trap was sprung");
    });
    let block = vec![7; memory_of(&daemon) / 16 * 4];
    for (shuffle, map) in [(1, 0), (1, 1), (2, 0)] {
        let codes = client.push(&daemon.key(shuffle), map, 1, &[(0, &block)]);
        assert_eq!(codes, [Code::Ok]);
    }
    springs.recv().unwrap();
    disk.disarm();
    let store = &daemon.service.store;
    let before = store.load().memory_used;
    client.output(&daemon.key(2), 1, 1, &[(0, b"calls for room again")]);
    let end = Instant::now() + Duration::from_secs(20);
    while store.load().memory_used > before - block.len() as u64 / 2 {
        assert!(Instant::now() < end, "nobody frees memory any more");
        thread::yield_now();
    }
    daemon.stop();
}
