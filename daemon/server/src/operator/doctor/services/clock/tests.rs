// SPDX-License-Identifier: Apache-2.0
//! Clocks that differ, and endpoints that answer something else than their time.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::SystemTime;

use super::*;
use crate::operator::doctor::services::tests::{answered, reply};

const INCARNATION: i64 = -7;

/// Answers one request with this, and returns the port.
fn endpoint(answer: String) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        socket.write_all(answer.as_bytes()).unwrap();
    });
    port
}

fn answer(headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn dated(ahead_s: i64) -> String {
    let now = SystemTime::now();
    let by = Duration::from_secs(ahead_s.unsigned_abs());
    let there = match ahead_s < 0 {
        true => now - by,
        false => now + by,
    };
    format!("date: {}\r\n", httpdate::fmt_http_date(there))
}

/// What the status of this daemon says, which has a negative number.
const STATUS: &str = r#"{"incarnation": "fffffffffffffff9"}"#;

/// What is found about a service whose endpoint answers this.
fn found(answer: String) -> (&'static str, String) {
    let port = endpoint(answer);
    let mut one = answered("127.0.0.1", reply(INCARNATION, ""));
    one.clock = difference(Ipv4Addr::LOCALHOST.into(), port, INCARNATION);
    let all = all(&[one], port);
    let [finding] = all.as_slice() else {
        panic!("{all:?}");
    };
    let (check, level, line) = finding.shown();
    assert_eq!(check, "service-clock");
    (level, line)
}

#[test]
fn a_clock_that_is_a_minute_off_is_a_warning_with_the_direction() {
    for (ahead_s, words) in [(60, "s ahead of"), (-60, "s behind")] {
        let (level, line) = found(answer(&dated(ahead_s), STATUS));
        assert_eq!(level, "warning", "{line}");
        assert!(line.contains(words), "{line}");
        assert!(line.contains("Start a time service"), "{line}");
    }
}

#[test]
fn a_clock_that_is_right_is_ok_with_the_figure() {
    let (level, line) = found(answer(&dated(0), STATUS));
    assert_eq!(level, "ok", "{line}");
    assert!(line.contains("that of this host (within "), "{line}");
}

#[test]
fn a_service_that_does_not_say_its_time_has_an_unknown_clock() {
    let of_another = r#"{"incarnation": "0000000000000001"}"#;
    for (answer, why) in [
        (answer("", STATUS), "its answer has no time"),
        (
            answer("date: yesterday\r\n", STATUS),
            "its answer has no time",
        ),
        (answer(&dated(60), of_another), "it is another daemon's"),
        (answer(&dated(60), "<html>"), "it is another program's"),
        (String::new(), "no admin endpoint answers there"),
    ] {
        let (level, line) = found(answer);
        assert_eq!(level, "note", "{line}");
        assert!(
            line.contains("unknown: the clock of 127.0.0.1:7337"),
            "{line}"
        );
        assert!(
            line.contains(why) && line.contains("--admin-port"),
            "{line}"
        );
    }
}

#[test]
fn a_difference_counts_only_beyond_what_a_slow_answer_leaves_open() {
    // The answer took 4 s, and was made in the second 106: 2 s to 7 s ahead.
    let open = Difference::of(106, [100_000, 104_000]);
    assert_eq!(
        open,
        Difference {
            ahead_ms: 4500,
            within_ms: 2500
        }
    );
    let level = |difference| judged("host1:7337", difference).shown().1;
    assert_eq!(level(open), "ok");
    assert_eq!(level(Difference::of(109, [100_000, 104_000])), "ok");
    assert_eq!(level(Difference::of(110, [100_000, 104_000])), "warning");
    // The same in the other direction.
    assert_eq!(level(Difference::of(95, [100_000, 100_000])), "ok");
    assert_eq!(level(Difference::of(93, [100_000, 100_000])), "warning");
}

#[test]
fn services_without_a_known_clock_share_one_note() {
    let two = ["10.0.0.1", "10.0.0.2"].map(|ip| answered(ip, reply(1, "")));
    let found = all(&two, 7338);
    assert_eq!(found.len(), 1);
    let line = found[0].shown().2;
    assert!(line.contains("10.0.0.1:7337, 10.0.0.2:7337"), "{line}");
}
