// SPDX-License-Identifier: Apache-2.0
//! Shares of the memory for uploads. Uploads that come slowly hold memory here, as those for a disk
//! that hangs do.

use std::thread;

use lodestone_model::{AppId, Code};
use lodestone_store::Environment;
use lodestone_wire::extension::ShuffleAddress;

use crate::support::Client;
use crate::support::client::batch;
use crate::support::inside::Inside;

const MIB: u64 = 1 << 20;

/// An application may hold 7 of the 14 MiB for large uploads, and a connection 3.5.
const MEMORY: u64 = 64 * MIB;

const LARGE: usize = 4 << 20;

/// A daemon with connections of one application that hold all memory that it may have, and wait
/// for more.
fn crowded() -> (Inside, ShuffleAddress, Vec<Client>) {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    daemon.connect().register(&key, 8, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &vec![7; LARGE])]);
    let begun = (0..6).map(|_| {
        let mut client = daemon.connect();
        client.begin_upload(&meta, &body, 20_000);
        client
    });
    let clients = begun.collect();
    while daemon.service.uploads.used_bytes() < LARGE as u64 {
        thread::yield_now();
    }
    (daemon, key, clients)
}

#[test]
fn a_small_push_waits_for_no_large_one() {
    let (daemon, key, _crowd) = crowded();
    let codes = daemon.connect().push(&key, 1, 2, &[(0, b"small")]);
    assert_eq!(codes, [Code::Ok]);
    daemon.stop();
}

#[test]
fn an_application_leaves_memory_for_the_large_pushes_of_others() {
    let (daemon, mut other, _crowd) = crowded();
    other.shuffle.app = AppId::new("application_other").unwrap();
    let mut honest = daemon.connect();
    honest.register(&other, 1, 1);
    let codes = honest.push(&other, 0, 1, &[(0, &vec![8; LARGE])]);
    assert_eq!(codes, [Code::Ok]);
    daemon.stop();
}

#[test]
fn an_upload_that_is_larger_than_all_shares_gets_in_alone() {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    let mut client = daemon.connect();
    client.register(&key, 1, 1);
    let codes = client.push(&key, 0, 1, &[(0, &vec![7; 12 << 20])]);
    assert_eq!(codes, [Code::Ok]);
    assert_eq!(daemon.service.uploads.used_bytes(), 0);
    daemon.stop();
}
