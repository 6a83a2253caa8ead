// SPDX-License-Identifier: Apache-2.0
//! Time-outs. The daemon's clocks belong to the test.

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lodestone_model::{AppAttempt, Code};
use lodestone_server::connection::pace::{LEAST_BYTES, WINDOW};
use lodestone_store::{Clock, Environment, ManualClock};
use lodestone_wire::Message;
use lodestone_wire::extension::lease::{LeaseReply, RenewLease};
use lodestone_wire::extension::push::PushBatchReply;
use lodestone_wire::extension::status::Refused;

use crate::support::client::{app, batch, commit_of};
use crate::support::daemon::TEST_TIMEOUT;
use crate::support::inside::Inside;

#[test]
fn a_request_that_stops_in_the_middle_is_given_up_and_its_memory_comes_back() {
    let daemon = Inside::start(Environment::os());
    let mut client = daemon.connect();
    client.register(&daemon.key(1), 1, 1);
    let (meta, body) = batch(&daemon.key(1), 0, 1, &[(0, &[7; 100_000])]);
    client.begin_upload(&meta, &body, 10);
    daemon.jump_over_idle_time();
    assert_eq!(client.receive(), None, "the connection is closed");
    assert_eq!(daemon.service.uploads.used_bytes(), 0);
    daemon.stop();
}

/// Others may wait for the memory of an upload: its bytes come at 64 KiB/s, or the connection ends.
/// It is never silent for long.
#[test]
fn an_upload_that_comes_too_slowly_is_given_up_and_its_memory_comes_back() {
    let daemon = Inside::start(Environment::os());
    let mut client = daemon.connect();
    client.register(&daemon.key(1), 1, 1);
    let (meta, body) = batch(&daemon.key(1), 0, 1, &[(0, &vec![7; 4 << 20])]);
    client.begin_upload(&meta, &body, 100_000);
    while daemon.service.uploads.used_bytes() == 0 {
        thread::yield_now();
    }
    let clock = daemon.stop_the_clock();
    let piece = WINDOW / 20;
    // Half of what must come.
    let bytes = LEAST_BYTES / 20 / 2;
    let mut sent = 100_000;
    for _ in 0..60 {
        // The daemon may have closed the connection.
        let more = client.socket.write_all(&body[sent..sent + bytes]);
        sent += bytes;
        clock.pass(piece);
        if more.is_err() || daemon.service.uploads.used_bytes() == 0 {
            break;
        }
    }
    assert_eq!(
        daemon.service.uploads.used_bytes(),
        0,
        "three windows later"
    );
    drop(clock);
    daemon.stop();
}

/// The same for a client that sends as fast as it must.
#[test]
fn an_upload_that_comes_fast_enough_is_taken_however_long_it_takes() {
    let daemon = Inside::start(Environment::os());
    let mut client = daemon.connect();
    client.register(&daemon.key(1), 1, 1);
    let (meta, body) = batch(&daemon.key(1), 0, 1, &[(0, &vec![7; 4 << 20])]);
    let id = client.begin_upload(&meta, &body, 100_000);
    while daemon.service.uploads.used_bytes() == 0 {
        thread::yield_now();
    }
    let clock = daemon.stop_the_clock();
    for piece in body[100_000..].chunks(2 * LEAST_BYTES / 10) {
        client.socket.write_all(piece).unwrap();
        clock.pass(WINDOW / 10);
    }
    let reply = PushBatchReply::from_bytes(&client.answer_to(id)).unwrap();
    assert_eq!(reply.codes, [Code::Ok]);
    drop(clock);
    daemon.stop();
}

#[test]
fn a_connection_without_requests_is_closed_when_its_last_answer_is_long_ago() {
    let daemon = Inside::start(Environment::os());
    let mut client = daemon.connect();
    client.register(&daemon.key(1), 1, 1);
    daemon.jump_over_idle_time();
    assert_eq!(client.receive(), None);
    daemon.stop();
}

#[test]
fn an_idle_connection_keeps_a_daemon_with_an_idle_exit_alive() {
    let daemon = Inside::with_idle_exit(Duration::from_secs(60));
    let mut client = daemon.connect();
    client.register(&daemon.key(1), 1, 1);
    daemon.jump_over_idle_time();
    // More than five minutes, at two seconds for each.
    for _ in 0..100 {
        daemon.wait_for_a_look();
    }
    daemon.do_not_jump();
    client.register(&daemon.key(2), 1, 1);
    daemon.stop();
}

#[test]
fn a_reader_that_stops_reading_is_given_up_and_its_memory_comes_back() {
    // All that it asks for is in memory.
    let daemon = Inside::with_memory(Environment::os(), 256 << 20);
    let mut client = daemon.connect();
    let key = daemon.key(1);
    client.ask_for_more_than_sockets_hold(&key);
    daemon.jump_over_idle_time();
    daemon.wait_for_no_connections();
    let store = &daemon.service.store;
    store
        .end_application(&key.shuffle.app, AppAttempt::NONE)
        .unwrap();
    assert_eq!(store.load().memory_used, 0);
    daemon.stop();
}

#[test]
fn an_application_whose_lease_ran_out_is_forgotten_and_its_shuffles_are_gone() {
    let clock = Arc::new(ManualClock::default());
    let daemon = Inside::start(Environment {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..Environment::os()
    });
    let mut client = daemon.connect();
    let key = daemon.key(1);
    client.register(&key, 1, 1);
    let (meta, body) = batch(&key, 0, 1, &[(0, &vec![7; 1 << 20])]);
    let id = client.send_upload(&meta, &body);
    client.answer_to(id);
    let lease: LeaseReply = client.ask(&RenewLease {
        app: app(),
        app_attempt: AppAttempt::NONE,
        incarnation: 0,
        ttl_ms: 20_000,
    });
    assert_eq!(lease.granted_ttl_ms, 20_000);
    daemon.jump_over_idle_time();
    for _ in 0..5 {
        clock.advance_ms(4_001);
        daemon.wait_for_a_look();
    }
    daemon.do_not_jump();
    let mut client = daemon.connect();
    let commit = commit_of(&[meta]);
    let since = Instant::now();
    let refused: Refused = loop {
        let id = client.send_rpc(&commit);
        match Refused::from_bytes(&client.answer_to(id)) {
            // This one was under way when its shuffle was dropped.
            Ok(refused) if refused.code == Code::UnknownShuffle => {}
            Ok(refused) => break refused,
            Err(_) => {}
        }
        assert!(
            since.elapsed() < TEST_TIMEOUT,
            "the application is still known"
        );
    };
    assert_eq!(refused.code, Code::UnknownApplication);
    assert_eq!(daemon.service.load().shuffles, 0);
    daemon.stop();
}
