// SPDX-License-Identifier: Apache-2.0
//! Many pushes at once to a disk of executors that is slow for a while, or hangs.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::{AppId, Code, MapIndex, ReduceId, ShuffleKey};
use lodestone_server::connection::pace::WINDOW;
use lodestone_server::service::lanes::{Kind, Lanes};
use lodestone_store::Wait;
use lodestone_wire::Frame;
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};
use lodestone_wire::spark::register::RegisterExecutor;

use crate::bad_disk::{BAD, Host, WELL, block, shuffle};
use crate::support::Client;
use crate::support::client::{batch, hello, read};
use crate::support::daemon::TEST_TIMEOUT;
use crate::support::trap::Does;

/// Threads that hang in a disk while many blocks wait for it.
const HANGING: usize = 16;

/// More than a connection may have of the memory for uploads, and more than half of what its
/// application may have.
const MORE_THAN_A_SHARE: usize = 20 << 20;

/// Bytes of a small block.
const BLOCK: usize = 10_000;

/// Bytes up to which a tail grows before a block writes it.
const TAIL_MAX: u32 = 256 << 10;

/// Small blocks that one connection brings.
const SMALL_BLOCKS: u32 = 8;

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
    all_are_merged(pushers);
    host.daemon.stop();
}

fn all_are_merged(pushers: Vec<(Client, i64)>) {
    for (mut client, id) in pushers {
        let answer: BlockPushReturnCode = read(&client.answer_to(id));
        assert_eq!(
            answer.code,
            PushCode::Success,
            "its map task loses a merged block"
        );
    }
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
fn blocks_of_many_maps_for_the_same_partitions_are_all_merged_by_a_busy_disk() {
    const PARTITIONS: u32 = 8;
    let host = Host::start();
    let slow = host.fs.hang(host.path(BAD), &[Does::Open]);
    let mut pushers = Vec::new();
    for map in 0..8 {
        for reduce in 0..PARTITIONS {
            let mut client = host.daemon.connect();
            let meta = PushBlockStream {
                map_index: MapIndex(map),
                ..block(shuffle(BAD, 3), reduce)
            };
            let id = client.send_upload(&meta, &vec![7; 300_000]);
            pushers.push((client, id));
        }
    }
    host.fs.await_hanging(PARTITIONS as usize);
    // Far longer than a block waits for a partition while many others do.
    a_second_passes(&host);
    drop(slow);
    all_are_merged(pushers);
    host.daemon.stop();
}

/// Blocks of other maps, which wait until pushes may use threads again.
fn push_to_one_partition(host: &Host, key: &ShuffleKey) -> Vec<(Client, i64)> {
    let pusher = |map| {
        let mut client = host.daemon.connect();
        let meta = PushBlockStream {
            map_index: MapIndex(map),
            ..block(key.clone(), 0)
        };
        let id = client.send_upload(&meta, &[7; BLOCK]);
        // The daemon has read the push before this.
        let _: HelloReply = client.ask(&hello());
        (client, id)
    };
    (1_000..1_008).map(pusher).collect()
}

/// Blocks wait for what one block does for all of them, and then need no thread: all threads hang.
fn one_block_works_for_all(fill: impl Fn(&dyn Fn(u32, Wait) -> bool)) {
    let host = Host::start();
    let key = shuffle(BAD, 3);
    let push = |map, wait| {
        let (store, map, reduce) = (&host.daemon.service.store, MapIndex(map), ReduceId(0));
        let pushed = store.push_block_if(wait, &key, map, reduce, &[7; BLOCK]);
        pushed == Ok(Code::Ok)
    };
    fill(&push);
    let turns = host.daemon.all_turns(Kind::Push);
    let pushers = push_to_one_partition(&host, &key);
    assert!(push(0, Wait::InTime));
    let disks = usize::from(host.daemon.service.store.disk_count());
    let hanging = host.daemon.hang_threads(Lanes::threads(disks));
    drop(turns);
    all_are_merged(pushers);
    drop(hanging);
    host.daemon.stop();
}

#[test]
fn blocks_that_wait_for_the_first_one_of_their_partition_need_no_thread() {
    one_block_works_for_all(|_| {});
}

#[test]
fn blocks_that_wait_until_the_tail_is_written_need_no_thread() {
    one_block_works_for_all(|push| {
        assert!(push(1, Wait::InTime));
        let is_full = |map: &u32| !push(*map, Wait::Never) && !push(*map, Wait::Never);
        let full = (2..900).find(is_full);
        assert!(full.is_some_and(|full| full > 50), "{full:?}");
    });
}

/// Bytes of merged data below a directory, which need not exist.
fn merged_bytes(dir: &Path) -> u64 {
    let bytes = |entry: fs::DirEntry| match entry.path() {
        path if path.is_dir() => merged_bytes(&path),
        path if path.extension() == Some("data".as_ref()) => entry.metadata().unwrap().len(),
        _ => 0,
    };
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries.map(|entry| bytes(entry.unwrap())).sum()
}

#[test]
fn a_block_that_waits_to_write_the_tail_writes_it() {
    let host = Host::start();
    let (key, reduce) = (shuffle(BAD, 3), ReduceId(0));
    let store = &host.daemon.service.store;
    let push = |map| store.push_block(&key, MapIndex(map), reduce, &[7; BLOCK]);
    let tail = (0..TAIL_MAX / BLOCK as u32).map(push);
    assert!(tail.into_iter().all(|pushed| pushed == Ok(Code::Ok)));
    assert_eq!(merged_bytes(&host.path(BAD).join("merge_manager")), 0);
    let turns = host.daemon.all_turns(Kind::Push);
    let mut client = host.daemon.connect();
    let meta = PushBlockStream {
        map_index: MapIndex(1_000),
        ..block(key.clone(), 0)
    };
    let id = client.send_upload(&meta, &[7; BLOCK]);
    let _: HelloReply = client.ask(&hello());
    drop(turns);
    all_are_merged(vec![(client, id)]);
    let written = merged_bytes(&host.path(BAD).join("merge_manager"));
    assert!(written > u64::from(TAIL_MAX), "{written} bytes");
    host.daemon.stop();
}

/// Applications of executors on the disk that is bad.
fn applications(host: &Host) -> [ShuffleKey; 4] {
    let mut client = host.daemon.connect();
    ["1", "2", "3", "4"].map(|number| {
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
    })
}

/// One application may have half of the memory for uploads. Four of them push more than all of it
/// to a disk that hangs, and wait.
fn memory_is_left_to_other_disks<P>(does: Does, push: impl Fn(&Host, ShuffleKey) -> P) {
    let mut host = Host::start();
    let keys = applications(&host);
    let mended = host.fs.hang(host.path(BAD), &[does]);
    let pushers = keys.map(|key| push(&host, key));
    host.fs.await_hanging(HANGING);
    host.everything_else_goes_on();
    host.ends_in_time();
    drop((mended, pushers));
    host.daemon.stop();
}

#[test]
fn large_blocks_that_wait_for_a_disk_that_hangs_leave_memory_to_those_of_other_disks() {
    memory_is_left_to_other_disks(Does::Open, |host, key| {
        push_first_blocks(host, &key, 100, 300_000)
    });
}

#[test]
fn small_blocks_that_wait_for_a_disk_that_hangs_leave_memory_to_those_of_other_disks() {
    memory_is_left_to_other_disks(Does::Look, |host, key| {
        let mut clients: Vec<_> = (0..40).map(|_| host.daemon.connect()).collect();
        for (client, connection) in clients.iter_mut().zip(0..) {
            for number in 0..SMALL_BLOCKS {
                let reduce = connection * SMALL_BLOCKS + number;
                client.send_upload(&block(key.clone(), reduce), &[7; 60_000]);
            }
        }
        clients
    });
}

#[test]
fn first_blocks_for_a_disk_that_hangs_are_refused_and_their_connections_serve_other_requests() {
    const BLOCKS: u32 = 100;
    let host = Host::start();
    let mended = host.fs.hang(host.path(BAD), &[Does::Open]);
    let (answered, answers) = mpsc::channel();
    for (mut client, id) in push_first_blocks(&host, &shuffle(BAD, 3), BLOCKS, 1 << 20) {
        let answered = answered.clone();
        // Those that hang end with the daemon.
        thread::spawn(move || {
            client.socket.set_read_timeout(None).unwrap();
            if let Some(Frame::RpcFailure(failure)) = client.receive() {
                assert_eq!(failure.request_id, id);
                let _: HelloReply = client.ask(&hello());
                // Nobody waits for the last ones.
                let _ = answered.send(());
            }
        });
    }
    for _ in 2 * HANGING..BLOCKS as usize {
        answers.recv_timeout(TEST_TIMEOUT).unwrap();
    }
    host.ends_in_time();
    drop(mended);
    host.daemon.stop();
}

#[test]
fn a_client_that_sends_no_more_of_a_block_makes_way_for_others_that_push_to_the_disk() {
    let host = Host::start();
    let [stops, goes_on, ..] = applications(&host);
    let mut silent = host.daemon.connect();
    // More than blocks for one disk may take.
    silent.begin_upload(&block(stops, 0), &vec![7; 20 << 20], 20_000);
    let _: HelloReply = host.daemon.connect().ask(&hello());
    let mut client = host.daemon.connect();
    let began = Instant::now();
    let id = client.send_upload(&block(goes_on, 0), &vec![7; 300_000]);
    let answer: BlockPushReturnCode = read(&client.answer_to(id));
    let took = began.elapsed();
    assert_eq!(answer.code, PushCode::Success);
    assert!(took < WINDOW * 4 / 5, "{took:?}");
    host.daemon.stop();
}

/// Time for the daemon to read what clients have sent, by the clock of the test.
fn a_second_passes(host: &Host) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        let _: HelloReply = host.daemon.connect().ask(&hello());
    }
}

fn wait_for_use_of(host: &Host, bytes: u64) {
    while host.daemon.service.uploads.used_bytes() < bytes {
        thread::yield_now();
    }
}

/// Begins pushes of an application that need no disk, take all memory that it may have, and stop.
fn use_up_memory_of(host: &Host, app: &AppId) -> Vec<Client> {
    let mut key = host.daemon.key(1);
    key.shuffle.app = app.clone();
    host.daemon.connect().register(&key, 2, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &vec![7; MORE_THAN_A_SHARE])]);
    let mut crowd: Vec<_> = (0..2).map(|_| host.daemon.connect()).collect();
    for client in &mut crowd {
        client.begin_upload(&meta, &body, 20_000);
    }
    wait_for_use_of(host, MORE_THAN_A_SHARE as u64);
    crowd
}

#[test]
fn an_application_that_waits_for_its_own_memory_holds_none_of_a_disk() {
    let host = Host::start();
    let [full, other, ..] = applications(&host);
    let large = vec![7; MORE_THAN_A_SHARE];
    let crowd = use_up_memory_of(&host, &full.app);
    let clock = host.daemon.stop_the_clock();
    // All that large blocks for one disk may take.
    let mut waits = host.daemon.connect();
    waits.begin_upload(&block(full, 0), &large, 20_000);
    a_second_passes(&host);
    let mut client = host.daemon.connect();
    let id = client.send_upload(&block(other, 0), &vec![7; 300_000]);
    let answer: BlockPushReturnCode = read(&client.answer_to(id));
    assert_eq!(answer.code, PushCode::Success);
    drop((clock, crowd, waits));
    host.daemon.stop();
}

#[test]
fn an_application_that_waits_for_its_own_part_of_a_disk_hurries_no_other_one() {
    const LENGTH: usize = 300_000;
    const SENT: usize = 120_000;
    let host = Host::start();
    let [full, other, ..] = applications(&host);
    let crowd = use_up_memory_of(&host, &full.app);
    let clock = host.daemon.stop_the_clock();
    let mut client = host.daemon.connect();
    let used = host.daemon.service.uploads.used_bytes();
    let body = vec![7; LENGTH];
    let id = client.begin_upload(&block(other, 0), &body, SENT);
    wait_for_use_of(&host, used + LENGTH as u64);
    // One of them waits for its application's share, and the others for its part of the disk.
    let mut waits: Vec<_> = (0..10).map(|_| host.daemon.connect()).collect();
    for (waiting, reduce) in waits.iter_mut().zip(0..) {
        let block = block(full.clone(), reduce);
        waiting.begin_upload(&block, &vec![7; MORE_THAN_A_SHARE], 20_000);
    }
    a_second_passes(&host);
    // Longer than a client may be silent for whose memory others wait.
    for _ in 0..70 {
        clock.pass(Duration::from_millis(50));
        let _: HelloReply = host.daemon.connect().ask(&hello());
    }
    client.socket.write_all(&body[SENT..]).unwrap();
    let answer: BlockPushReturnCode = read(&client.answer_to(id));
    assert_eq!(answer.code, PushCode::Success);
    drop((clock, crowd, waits));
    host.daemon.stop();
}

/// Registers an executor with directories on both disks.
fn application_on_both_disks(host: &Host) -> AppId {
    let app = AppId::new("app-both").unwrap();
    let dirs = [(BAD, "a"), (WELL, "b"), (BAD, "c")].map(|(disk, name)| {
        let dir = host.executor_dir(disk, "both").join(name);
        fs::create_dir_all(&dir).unwrap();
        dir.to_str().unwrap().to_owned()
    });
    let mut client = host.daemon.connect();
    let id = client.send_rpc(&RegisterExecutor {
        app: app.clone(),
        local_dirs: dirs.to_vec(),
        ..host.registration(BAD, "both")
    });
    assert!(client.answer_to(id).is_empty());
    app
}

#[test]
fn a_first_block_whose_shuffle_ended_while_it_waited_is_too_late_at_once() {
    let host = Host::start();
    let key = ShuffleKey {
        app: application_on_both_disks(&host),
        ..shuffle(BAD, 3)
    };
    let store = &host.daemon.service.store;
    // One disk is asked for the index of the partition, another one gets its data.
    let places = |reduce| store.places_of_push(&key, ReduceId(reduce)).unwrap();
    let on_two_disks = |reduce: &u32| places(*reduce).look != Some(places(*reduce).write);
    let reduces: Vec<u32> = (0..100).filter(on_two_disks).collect();
    let (opened, late) = (reduces[0], reduces[1]);
    let place = places(late);
    let pushed = store.push_block(&key, MapIndex(1), ReduceId(opened), &[7; BLOCK]);
    assert_eq!(pushed, Ok(Code::Ok));
    let writes = host.daemon.all_turns_at(Kind::Push, &[place.write]);
    let looks = host.daemon.all_turns_at(Kind::Push, place.look.as_slice());
    let mut client = host.daemon.connect();
    let id = client.send_upload(&block(key.clone(), late), &[7; BLOCK]);
    let _: HelloReply = client.ask(&hello());
    store.merge_statuses(&key, usize::MAX).unwrap();
    drop(looks);
    let answer: BlockPushReturnCode = read(&client.answer_to(id));
    assert_eq!(answer.code, PushCode::TooLate, "Spark pushes on");
    drop(writes);
    host.daemon.stop();
}

/// Blocks of others have filled both disks, and stop.
#[test]
fn blocks_that_wait_for_two_disks_leave_memory_to_pushes_that_need_no_disk() {
    let host = Host::start();
    let [_, other, ..] = applications(&host);
    let app = application_on_both_disks(&host);
    let mut client = host.daemon.connect();
    let clock = host.daemon.stop_the_clock();
    let mut clients = Vec::new();
    let mut begin = |meta: &PushBlockStream, length| {
        let mut client = host.daemon.connect();
        client.begin_upload(meta, &vec![7; length], 20_000);
        clients.push(client);
    };
    for key in [other, shuffle(WELL, 3)] {
        begin(&block(key, 0), MORE_THAN_A_SHARE);
    }
    wait_for_use_of(&host, MORE_THAN_A_SHARE as u64);
    let both = ShuffleKey {
        app: app.clone(),
        ..shuffle(BAD, 3)
    };
    for reduce in 0..8 {
        begin(&block(both.clone(), reduce), 15 << 20);
    }
    a_second_passes(&host);
    let mut key = host.daemon.key(1);
    key.shuffle.app = app;
    client.register(&key, 1, 1);
    let codes = client.push(&key, 0, 1, &[(0, &vec![7; 10 << 20])]);
    assert_eq!(codes, [Code::Ok]);
    drop((clock, clients));
    host.daemon.stop();
}
