// SPDX-License-Identifier: Apache-2.0
//! Answers of services, and what they mean. Real daemons are in the tests of the server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use bytes::{Bytes, BytesMut};
use lodestone_model::{Code, Load};
use lodestone_wire::extension::status::Refused;
use lodestone_wire::{Frame, FrameDecoder, Limits, Message};

use super::*;

const CLIENTS: Clients<'_> = Clients {
    settings: None,
    secrets: None,
    admin_port: 7338,
};

pub(super) fn reply(incarnation: i64, zone: &str) -> HelloReply {
    HelloReply {
        protocol_version: PROTOCOL_VERSION,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        incarnation,
        load: Load {
            state: State::Serving,
            memory_used: 10,
            memory_limit: 100,
            disk_free: 100 << 30,
            disk_total: 200 << 30,
            connections: 1,
            shuffles: 1,
        },
        zone: zone.to_owned(),
    }
}

pub(super) fn answered(ip: &str, reply: HelloReply) -> Answered {
    Answered {
        address: format!("{ip}:7337"),
        ip: ip.to_owned(),
        reply,
        clock: Err("it was not asked"),
    }
}

fn only(findings: &[Finding]) -> (&'static str, &'static str, String) {
    let [one] = findings else {
        panic!("{findings:?}");
    };
    one.shown()
}

#[test]
fn a_service_that_takes_no_new_shuffles_is_an_error_and_a_strained_one_a_warning() {
    let with = |change: fn(&mut Load)| {
        let mut reply = reply(1, "");
        change(&mut reply.load);
        state("host1:7337", &reply).shown()
    };
    assert_eq!(with(|_| {}).1, "ok");
    for (change, level, words) in [
        (
            (|load| load.state = State::Draining) as fn(&mut Load),
            "error",
            "is drained and takes nothing new",
        ),
        (
            |load| load.state = State::DiskFull,
            "error",
            "no disk with room",
        ),
        (
            |load| load.state = State::DiskFailed,
            "error",
            "no disk that works",
        ),
        (
            |load| load.memory_used = 85,
            "warning",
            "is short of memory",
        ),
        (
            |load| load.disk_free = 1 << 30,
            "warning",
            "little room on its disks",
        ),
    ] {
        let (check, found, line) = with(change);
        assert_eq!((check, found), ("state", level), "{line}");
        assert!(line.contains(words), "{line}");
    }
}

fn refusal(code: Code, detail: &str) -> Bytes {
    let (incarnation, detail) = (1, detail.to_owned());
    Refused {
        code,
        incarnation,
        detail,
    }
    .to_bytes()
}

/// Answers one request with this if it is a greeting. Others are refused.
fn answer(mut socket: TcpStream, greeting: &Bytes) {
    let (decoder, mut received) = (FrameDecoder::new(Limits::SERVER), BytesMut::new());
    let request = loop {
        if let Some(frame) = decoder.next(&mut received).unwrap() {
            break frame;
        }
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).unwrap();
        assert!(count > 0, "the client left before it asked");
        received.extend_from_slice(&bytes[..count]);
    };
    let Frame::RpcRequest { request_id, body } = request else {
        panic!("{request:?}");
    };
    let body = match body.first() {
        Some(&Hello::ID) => greeting.clone(),
        _ => refusal(Code::UnknownApplication, ""),
    };
    let response = Frame::RpcResponse { request_id, body };
    socket.write_all(&response.to_bytes()).unwrap();
}

/// What is found about a service of another release, which answers a greeting with this.
fn with_greeting(greeting: Bytes) -> (String, Vec<(&'static str, &'static str, String)>) {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    // It ends with the process of the test.
    thread::spawn(move || {
        for socket in other.incoming() {
            answer(socket.unwrap(), &greeting);
        }
    });
    let found = all(&address, &CLIENTS);
    (address, found.iter().map(Finding::shown).collect())
}

#[test]
fn services_of_other_versions_are_a_note() {
    let mut old = reply(1, "");
    old.server_version = "0.0.9".to_owned();
    let (address, found) = with_greeting(old.to_bytes());
    let of_version: Vec<_> = found.iter().filter(|one| one.0 == "version").collect();
    let [(check, level, line)] = of_version.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((*check, *level), ("version", "note"));
    assert!(line.contains(&format!("0.0.9: {address}")), "{line}");
    // It is of use nevertheless.
    assert!(
        found.iter().any(|one| (one.0, one.1) == ("state", "ok")),
        "{found:?}"
    );
}

#[test]
fn a_service_of_another_protocol_is_an_error_with_both_versions() {
    let detail = "the client speaks version 1, this daemon version 99";
    let (_, found) = with_greeting(refusal(Code::VersionMismatch, detail));
    let [(check, level, line)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((*check, *level), ("protocol", "error"));
    assert!(line.contains(detail), "{line}");
}

#[test]
fn replicas_need_two_services_on_two_hosts_in_two_zones() {
    let given = ["spark.lodestone.replicas=2".to_owned()];
    let settings = Settings::named(&given).unwrap();
    let with = |ips: &[&str], zones: &[&str]| {
        let all = ips.iter().zip(zones).zip(1..);
        let all = all.map(|((ip, zone), id)| answered(ip, reply(id, zone)));
        together(&all.collect::<Vec<_>>(), Some(&settings))
    };
    assert_eq!(with(&["10.0.0.1", "10.0.0.2"], &["a", "b"]), []);
    assert_eq!(with(&["10.0.0.1", "10.0.0.2"], &["", "b"]), []);
    for (ips, zones, level, words) in [
        (
            &["10.0.0.1"][..],
            &["a"][..],
            "error",
            "fewer than two services answer",
        ),
        (
            &["10.0.0.1", "10.0.0.1"],
            &["a", "b"],
            "warning",
            "on one host",
        ),
        (
            &["10.0.0.1", "10.0.0.2"],
            &["a", "a"],
            "warning",
            "in zone a",
        ),
    ] {
        let (check, found, line) = only(&with(ips, zones));
        assert_eq!((check, found), ("same-service", level), "{line}");
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn two_addresses_of_one_daemon_are_an_error() {
    let both = ["10.0.0.1", "10.0.0.2"].map(|ip| answered(ip, reply(7, "")));
    let (check, level, line) = only(&together(&both, None));
    assert_eq!((check, level), ("same-service", "error"));
    assert!(
        line.contains("10.0.0.1:7337 and 10.0.0.2:7337 are the same daemon"),
        "{line}"
    );
}

#[test]
fn an_address_that_is_none_or_leads_nowhere_is_an_error() {
    let (check, level, line) = only(&all("host1", &CLIENTS));
    assert_eq!((check, level), ("address", "error"));
    assert!(line.contains("`host1` is no HOST:PORT"), "{line}");
    let (check, level, line) = only(&all("dns:no-such-host.invalid:7337", &CLIENTS));
    assert_eq!((check, level), ("address", "error"));
    assert!(line.contains("does not resolve on this host"), "{line}");
}

#[test]
fn a_port_where_nobody_listens_and_one_of_another_program_are_errors() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap().to_string();
    drop(unused);
    let (check, level, line) = only(&all(&address, &CLIENTS));
    assert_eq!((check, level), ("reach", "error"));
    assert!(line.contains("Connection refused"), "{line}");

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let program = thread::spawn(move || {
        let (mut socket, _) = other.accept().unwrap();
        socket
            .write_all(b"SSH-2.0-OpenSSH_9.9 and more text\r\n")
            .unwrap();
        // Until the other end has read it and leaves.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let (check, level, line) = only(&all(&address, &CLIENTS));
    assert_eq!((check, level), ("protocol", "error"));
    assert!(line.contains("is it a Lodestone service?"), "{line}");
    program.join().unwrap();
}

#[test]
fn a_service_that_does_not_answer_is_an_error_after_five_seconds() {
    // The kernel takes the connection, and nobody reads it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (check, level, line) = only(&all(&address, &CLIENTS));
    assert_eq!((check, level), ("reach", "error"));
    assert!(line.contains("does not answer within 5 s"), "{line}");
}

#[test]
fn an_address_of_ipv4_comes_before_those_of_ipv6() {
    let all = ["[::1]:1", "10.0.0.2:1", "[::2]:1", "10.0.0.1:1"];
    let ordered = in_order(all.map(|one| one.parse().unwrap()).to_vec());
    let shown: Vec<String> = ordered.iter().map(SocketAddr::to_string).collect();
    assert_eq!(shown, ["10.0.0.2:1", "10.0.0.1:1", "[::1]:1", "[::2]:1"]);
}

#[test]
fn a_check_that_panics_is_an_error() {
    let asked = at_once(&[("host1:7337".to_owned(), None)], |_, _| panic!("a bug"));
    let (check, level, line) = only(&asked[0].0);
    assert_eq!((check, level), ("reach", "error"));
    assert!(
        line.contains("host1:7337: this check itself failed"),
        "{line}"
    );
}

/// Sends a byte of a frame now and then, for as long as somebody listens.
fn drips(bytes: &'static [u8]) -> (SocketAddr, thread::JoinHandle<()>) {
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = slow.local_addr().unwrap();
    let program = thread::spawn(move || {
        let (mut socket, _) = slow.accept().unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let mut bytes = bytes.iter();
        // The read is the wait: it ends at the time-out, or when the other end leaves.
        loop {
            match socket.read(&mut [0; 4096]) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let Some(byte) = bytes.next() else { return };
                    if socket.write_all(&[*byte]).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
    (address, program)
}

#[test]
fn a_service_that_sends_byte_after_byte_has_five_seconds_in_all() {
    // The length of a frame, its type, the number of the request, the length of the body.
    static FRAME: [u8; 64] = [
        0, 0, 0, 0, 0, 0, 0, 64, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0,
    ];
    let (address, program) = drips(&FRAME);
    let (check, level, line) = only(&all(&address.to_string(), &CLIENTS));
    assert_eq!((check, level), ("reach", "error"));
    assert!(line.contains("does not answer within 5 s"), "{line}");
    program.join().unwrap();

    // The head of a record of TLS that has a handshake.
    static RECORD: [u8; 64] = [
        22, 3, 3, 0, 59, 2, 0, 0, 55, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0,
    ];
    let (address, program) = drips(&RECORD);
    let watch = Stopwatch::start();
    let (check, level, _) = only(&tls::check("host1:7337", address, &Trust::Everything));
    assert_eq!((check, level), ("tls", "error"));
    assert!(watch.seconds() < 10.0);
    program.join().unwrap();
}
