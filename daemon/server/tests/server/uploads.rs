// SPDX-License-Identifier: Apache-2.0
//! Shares of the memory for uploads. Uploads that come slowly hold memory here, as those for a disk
//! that hangs do.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::{AppId, Code, Crc32c};
use lodestone_server::connection::pace::WINDOW;
use lodestone_store::Environment;
use lodestone_wire::Frame;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::push::PushBatchReply;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::frame::StreamId;

use crate::support::Client;
use crate::support::client::{batch, commit_of, read};
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
    let began = Instant::now();
    // So large that it is not merged from the buffer in which it came.
    let codes = daemon.connect().push(&key, 1, 2, &[(0, &[8; 40_000])]);
    assert_eq!(codes, [Code::Ok]);
    assert!(began.elapsed() < WINDOW, "it has waited for the large ones");
    daemon.stop();
}

/// Time stands still: no slow connection of the application is closed, and makes room.
#[test]
fn an_application_leaves_memory_for_the_large_pushes_of_others() {
    let (daemon, mut other, _crowd) = crowded();
    let clock = daemon.stop_the_clock();
    other.shuffle.app = AppId::new("application_other").unwrap();
    let mut honest = daemon.connect();
    honest.register(&other, 1, 1);
    let codes = honest.push(&other, 0, 1, &[(0, &vec![8; LARGE])]);
    assert_eq!(codes, [Code::Ok]);
    drop(clock);
    daemon.stop();
}

/// Small uploads that come slowly.
#[test]
fn a_small_push_gets_other_memory_if_that_for_small_ones_is_used_up() {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    daemon.connect().register(&key, 8, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &vec![7; 60_000])]);
    let slow = || {
        let mut client = daemon.connect();
        client.begin_upload(&meta, &body, 20_000);
        client
    };
    let crowd: Vec<_> = (0..17).map(|_| slow()).collect();
    while daemon.service.uploads.used_bytes() < MIB - 60_000 {
        thread::yield_now();
    }
    let began = Instant::now();
    let codes = daemon.connect().push(&key, 1, 2, &[(0, &[8; 40_000])]);
    assert_eq!(codes, [Code::Ok]);
    // The slow ones lose their connections after nearly 5 s.
    let at_once = Duration::from_secs(3);
    assert!(began.elapsed() < at_once, "it has waited for the slow ones");
    drop(crowd);
    daemon.stop();
}

/// A daemon whose memory for small pushes is taken too, but for less than 1 KiB.
fn without_memory() -> (Inside, ShuffleAddress, Vec<Client>) {
    let (daemon, key, mut crowd) = crowded();
    // With its request each takes 64 KiB.
    let (meta, body) = batch(&key, 0, 1, &[(0, &vec![7; 65_000])]);
    for _ in 0..16 {
        let mut client = daemon.connect();
        client.begin_upload(&meta, &body, 20_000);
        crowd.push(client);
    }
    wait_for_use_of(&daemon, LARGE as u64 + MIB);
    (daemon, key, crowd)
}

fn wait_for_use_of(daemon: &Inside, bytes: u64) {
    while daemon.service.uploads.used_bytes() < bytes {
        thread::yield_now();
    }
}

#[test]
fn a_push_that_has_come_is_merged_although_all_memory_for_pushes_is_taken() {
    let (daemon, key, crowd) = without_memory();
    let codes = daemon.connect().push(&key, 1, 2, &[(0, b"small")]);
    assert_eq!(codes, [Code::Ok]);
    let used = daemon.service.uploads.used_bytes();
    assert!(used >= LARGE as u64 + MIB, "after the end of slow ones");
    drop(crowd);
    daemon.stop();
}

/// Otherwise the writer's ledger is not that of the daemon, which then refuses the commit.
#[test]
fn a_push_that_is_refused_for_want_of_memory_leaves_nothing_behind() {
    let (daemon, key, mut crowd) = without_memory();
    let mut honest = daemon.connect();
    // A large frame. The last segment is damaged: the daemon cannot take all of them at once.
    let one: (u32, &[u8]) = (0, b"x");
    let (mut long, body) = batch(&key, 1, 2, &[one; 900]);
    long.segments[899].crc32c = Crc32c(0);
    let refused = honest.send_upload(&long, &body);
    wait_for_use_of(&daemon, LARGE as u64 + MIB + (16 << 10));
    // Others want the memory of its list.
    let frame = Frame::UploadStream {
        request_id: 1,
        meta: vec![0; (7 << 19) - 1_000].into(),
        body_bytes: 1,
    };
    for _ in 0..40 {
        let mut client = daemon.connect();
        client
            .socket
            .write_all(&frame.to_bytes()[..20_000])
            .unwrap();
        crowd.push(client);
    }
    let refusal = read::<Refused>(&honest.answer_to(refused));
    assert_eq!(refusal.code, Code::Overloaded, "{refusal:?}");
    let (mut next, body) = batch(&key, 1, 2, &[(0, b"of the same writer")]);
    next.first_segment = 900;
    let taken = honest.send_upload(&next, &body);
    honest.answer_to(taken);
    let _: Done = honest.ask(&commit_of(&[next]));
    drop(crowd);
    daemon.stop();
}

#[test]
fn a_refused_push_holds_no_memory_while_its_bytes_come() {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let mut unknown = daemon.key(1);
    unknown.shuffle.app = AppId::new("nobody").unwrap();
    let one: (u32, &[u8]) = (0, &[7; 60]);
    let (meta, body) = batch(&unknown, 0, 1, &vec![one; 60_000]);
    let refused = |mut client: Client| {
        client.begin_upload(&meta, &body, 1);
        client
    };
    let clients: Vec<_> = (0..12).map(|_| refused(daemon.connect())).collect();
    while daemon.service.metrics.push_refused_total.get() < 12 {
        thread::yield_now();
    }
    while daemon.service.uploads.used_bytes() > 0 {
        thread::yield_now();
    }
    drop(clients);
    daemon.stop();
}

#[test]
fn a_connection_that_takes_no_answers_holds_no_memory_of_frames() {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    let mut greedy = daemon.connect();
    greedy.ask_for_more_than_sockets_hold(&key);
    let name = "x".repeat(6 << 20);
    let frame = Frame::StreamRequest(StreamId { name });
    for _ in 0..2 {
        greedy.send(&frame);
    }
    let mut other = daemon.key(2);
    other.shuffle.app = AppId::new("application_other").unwrap();
    let mut honest = daemon.connect();
    honest.register(&other, 1, 1);
    let codes = honest.push(&other, 0, 1, &[(0, &vec![8; LARGE])]);
    assert_eq!(codes, [Code::Ok]);
    while daemon.service.uploads.used_bytes() > 0 {
        thread::yield_now();
    }
    drop(greedy);
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

/// The daemon does not know yet of which application they are.
#[test]
fn a_push_waits_for_no_large_request_that_is_not_complete() {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    let mut honest = daemon.connect();
    honest.register(&key, 1, 1);
    let body = vec![0; LARGE].into();
    let frame = Frame::RpcRequest {
        request_id: 1,
        body,
    };
    let begin = &frame.to_bytes()[..20_000];
    let crowd: Vec<_> = (0..20)
        .map(|_| {
            let mut client = daemon.connect();
            client.socket.write_all(begin).unwrap();
            client
        })
        .collect();
    while daemon.service.uploads.used_bytes() < MIB {
        thread::yield_now();
    }
    let began = Instant::now();
    let codes = honest.push(&key, 0, 1, &[(0, &vec![8; LARGE])]);
    assert_eq!(codes, [Code::Ok]);
    assert!(began.elapsed() < WINDOW, "after their end");
    drop(crowd);
    daemon.stop();
}

/// The frame has the list of segments, and takes 100,000 bytes.
#[test]
fn a_push_with_very_many_segments_waits_for_no_crowd_that_has_sent_a_part_of_its_own() {
    const SEGMENTS: u32 = 5_000;
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    let mut honest = daemon.connect();
    honest.register(&key, 1, SEGMENTS);
    // Each of them gets all of the memory for such frames, or all that is lent, one after another.
    let frame = Frame::UploadStream {
        request_id: 1,
        meta: vec![0; (7 << 19) - 1_000].into(),
        body_bytes: 1,
    };
    let begin = &frame.to_bytes()[..20_000];
    let crowd: Vec<_> = (0..40)
        .map(|_| {
            let mut client = daemon.connect();
            client.socket.write_all(begin).unwrap();
            client
        })
        .collect();
    while daemon.service.uploads.used_bytes() < 4 * MIB {
        thread::yield_now();
    }
    let began = Instant::now();
    let parts: Vec<_> = (0..SEGMENTS).map(|reduce| (reduce, &b"x"[..])).collect();
    let codes = honest.push(&key, 0, 1, &parts);
    assert_eq!(codes, vec![Code::Ok; SEGMENTS as usize]);
    assert!(began.elapsed() < WINDOW, "{:?}", began.elapsed());
    drop(crowd);
    daemon.stop();
}

/// Two applications may hold all of it.
#[test]
fn applications_that_stop_in_the_middle_of_pushes_make_way_for_the_push_of_another_one() {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    // Nearly the share of an application.
    let body = vec![7; 6_900 << 10];
    let mut crowd = Vec::new();
    for name in ["application_1", "application_2"] {
        let mut key = daemon.key(1);
        key.shuffle.app = AppId::new(name).unwrap();
        daemon.connect().register(&key, 8, 1);
        let (meta, body) = batch(&key, 0, 1, &[(0, &body)]);
        for _ in 0..3 {
            let mut client = daemon.connect();
            client.begin_upload(&meta, &body, 20_000);
            crowd.push(client);
        }
    }
    while daemon.service.uploads.used_bytes() < 13 * MIB {
        thread::yield_now();
    }
    let key = daemon.key(1);
    let mut honest = daemon.connect();
    honest.register(&key, 1, 1);
    let began = Instant::now();
    let codes = honest.push(&key, 0, 1, &[(0, &vec![8; LARGE])]);
    assert_eq!(codes, [Code::Ok]);
    assert!(began.elapsed() < WINDOW / 2, "{:?}", began.elapsed());
    drop(crowd);
    daemon.stop();
}

/// Pushes of so many applications wait, or have memory, and none of them goes on.
fn crowd_of_applications(daemon: &Inside, count: u32) -> Vec<Client> {
    let body = vec![7; 6_900 << 10];
    let pushers = (0..count).flat_map(|number| {
        let mut key = daemon.key(1);
        key.shuffle.app = AppId::new(format!("application_{number}").as_str()).unwrap();
        daemon.connect().register(&key, 8, 1);
        let (meta, body) = batch(&key, 0, 1, &[(0, &body)]);
        [0, 1].map(|_| {
            let mut client = daemon.connect();
            client.begin_upload(&meta, &body, 20_000);
            client
        })
    });
    pushers.collect()
}

/// The JVM of the client collects all of its garbage. Others wait for the memory all the time.
#[test]
fn a_push_of_which_most_has_come_is_taken_after_a_pause_of_two_seconds() {
    const PUSHED: usize = 3 << 20;
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    let mut honest = daemon.connect();
    honest.register(&key, 1, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &vec![8; PUSHED])]);
    let third = PUSHED / 3;
    let id = honest.begin_upload(&meta, &body, third);
    wait_for_use_of(&daemon, PUSHED as u64);
    let clock = daemon.stop_the_clock();
    let crowd = crowd_of_applications(&daemon, 20);
    wait_for_use_of(&daemon, 13 * MIB);
    // The first that waits leaves more time than those that come after it.
    for piece in body[third..2 * third].chunks(third / 32) {
        honest.socket.write_all(piece).unwrap();
        clock.pass(WINDOW / 2 / 32);
    }
    for _ in 0..40 {
        clock.pass(Duration::from_millis(50));
    }
    honest.socket.write_all(&body[2 * third..]).unwrap();
    let reply: PushBatchReply = read(&honest.answer_to(id));
    assert_eq!(reply.codes, [Code::Ok]);
    drop((clock, crowd));
    daemon.stop();
}

/// Each answer of a push has a byte for each segment, up to 64 KiB.
#[test]
fn a_client_that_takes_no_answers_makes_the_daemon_keep_one_long_answer_to_a_push() {
    let daemon = Inside::with_memory(Environment::os(), MEMORY);
    let key = daemon.key(1);
    let mut greedy = daemon.connect();
    greedy.ask_for_more_than_sockets_hold(&key);
    let merged = || daemon.service.metrics.push_requests_total.get();
    let before = merged();
    let one: (u32, &[u8]) = (0, b"x");
    let (meta, body) = batch(&key, 0, 700, &[one; 40_000]);
    for _ in 0..2 {
        greedy.send_upload(&meta, &body);
    }
    // It ends when nothing has moved for a while.
    daemon.jump_over_idle_time();
    daemon.wait_for_no_connections();
    assert_eq!(merged() - before, 1, "each has an answer that nobody takes");
    daemon.stop();
}
