// SPDX-License-Identifier: Apache-2.0
//! Many pushes at once to a disk of executors that is slow for a while, or hangs.

use lodestone_model::{AppId, ShuffleKey};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushCode};
use lodestone_wire::spark::register::RegisterExecutor;

use crate::bad_disk::{BAD, Host, block, shuffle};
use crate::support::Client;
use crate::support::client::read;
use crate::support::trap::Does;

/// Threads that hang in a disk while many blocks wait for it.
const HANGING: usize = 16;

/// Pushes so many first blocks of partitions, each over its own connection.
fn push_first_blocks(
    host: &Host,
    key: &ShuffleKey,
    count: u32,
    bytes: usize,
) -> Vec<(Client, i64)> {
    let pusher = |reduce| {
        let mut client = host.daemon.connect();
        let id = client.send_upload(&block(key.clone(), reduce), &vec![7; bytes]);
        (client, id)
    };
    (0..count).map(pusher).collect()
}

/// The disk is busy until many blocks wait for it: all of them are merged in the end.
fn no_block_is_refused(does: Does, count: u32, bytes: usize) {
    let mut host = Host::start();
    let slow = host.fs.hang(host.path(BAD), &[does]);
    let pushers = push_first_blocks(&host, &shuffle(BAD, 3), count, bytes);
    host.fs.await_hanging(HANGING);
    host.everything_else_goes_on();
    drop(slow);
    for (mut client, id) in pushers {
        let answer: BlockPushReturnCode = read(&client.answer_to(id));
        assert_eq!(
            answer.code,
            PushCode::Success,
            "its map task loses a merged block"
        );
    }
    host.daemon.stop();
}

#[test]
fn first_blocks_that_a_busy_disk_looks_for_are_all_merged() {
    no_block_is_refused(Does::Look, 200, 1_000);
}

#[test]
fn first_blocks_that_a_busy_disk_writes_at_once_are_all_merged() {
    no_block_is_refused(Does::Open, 80, 300_000);
}

#[test]
fn blocks_that_are_more_than_may_wait_for_a_busy_disk_are_all_merged() {
    no_block_is_refused(Does::Open, 400, 300_000);
}

#[test]
fn blocks_that_wait_for_a_disk_that_hangs_leave_memory_to_those_of_other_disks() {
    let mut host = Host::start();
    let mut client = host.daemon.connect();
    let keys = ["1", "2", "3", "4"].map(|number| {
        let app = AppId::new(format!("app-bad-{number}").as_str()).unwrap();
        let id = client.send_rpc(&RegisterExecutor {
            app: app.clone(),
            ..host.registration(BAD, number)
        });
        assert!(client.answer_to(id).is_empty());
        ShuffleKey {
            app,
            ..shuffle(BAD, 3)
        }
    });
    let mended = host.fs.hang(host.path(BAD), &[Does::Open]);
    // One application may have half of the memory for uploads. Together they push twice as much.
    let pushers = keys.map(|key| push_first_blocks(&host, &key, 100, 300_000));
    host.everything_else_goes_on();
    host.ends_in_time();
    drop((mended, pushers));
    host.daemon.stop();
}
