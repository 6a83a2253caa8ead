// SPDX-License-Identifier: Apache-2.0
//! Clients of a daemon with a certificate. Spark's own clients are in the end-to-end tests.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use lodestone_auth::exchange::Challenge;
use lodestone_auth::{Fresh, Secret};
use lodestone_wire::extension::explain::ExplainApplication;
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::spark::authenticate::SaslMessage;
use lodestone_wire::{Frame, Message};

use crate::support::Client;
use crate::support::certified::Made;
use crate::support::client::{app, hello};
use crate::support::daemon::run_any;
use crate::support::proof::{answer, write_secret};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn explain() -> Bytes {
    let app = app().to_string();
    ExplainApplication { app }.to_bytes()
}

#[test]
fn a_client_without_tls_learns_why_it_is_not_served_where_tls_is_required() {
    let made = Made::new();
    let daemon = made.start(&["--encrypted-only"]);
    let mut plain = Client::connect(&daemon);
    let greeted: HelloReply = plain.ask(&hello());
    assert_eq!(
        greeted.incarnation,
        daemon.incarnation(),
        "whoever drains it"
    );
    let request = Frame::RpcRequest {
        request_id: 7,
        body: explain(),
    };
    plain.send(&request);
    let Some(Frame::RpcFailure(failure)) = plain.receive() else {
        panic!("served in the clear");
    };
    assert!(
        failure.error.contains("spark.ssl.rpc.enabled"),
        "{}",
        failure.error
    );
    assert!(plain.receive().is_none(), "the connection ends");
    answer(&mut made.connect(&daemon), explain()).unwrap();
}

#[test]
fn clients_without_tls_are_served_where_it_is_not_required() {
    let made = Made::new();
    let daemon = made.start(&[]);
    let _: HelloReply = Client::connect(&daemon).ask(&hello());
    answer(&mut made.connect(&daemon), explain()).unwrap();
}

#[test]
fn a_client_that_would_encrypt_in_tls_too_can_go_on_with_sasl() {
    let made = Made::new();
    let secrets = made.file("secret");
    write_secret(&secrets, SECRET);
    let daemon = made.start(&["--encrypted-only", "--secrets", secrets.to_str().unwrap()]);
    let mut client = made.connect(&daemon);
    let secret = Secret::new(SECRET.as_bytes()).unwrap();
    let fresh = Fresh {
        private: [1; 32],
        salt: [2; 16],
        iv: [3; 12],
        nonce: [4; 30],
    };
    let challenge = Challenge::new(&app(), &secret, &fresh).unwrap();
    let denied = answer(&mut client, challenge.message().to_bytes()).unwrap_err();
    assert!(
        denied.contains("spark.network.crypto.enabled=false"),
        "{denied}"
    );
    let first = SaslMessage {
        app: app(),
        token: Vec::new(),
    };
    let challenge = answer(&mut client, first.to_bytes()).unwrap();
    assert!(
        challenge.starts_with(b"realm="),
        "{challenge:?} is no challenge"
    );
}

#[test]
fn a_daemon_whose_certificate_cannot_be_read_says_so_and_does_not_start() {
    let made = Made::new();
    fs::write(made.file("key.pem"), "no key").unwrap();
    let (cert, key) = (made.file("cert.pem"), made.file("key.pem"));
    let data = made.file("data");
    fs::create_dir(&data).unwrap();
    let (code, _, text) = run_any(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--dir",
        data.to_str().unwrap(),
        "--tls-cert",
        cert.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ]);
    assert_ne!(code, Some(0));
    assert!(text.contains("key.pem"), "{text}");
}

#[test]
fn a_probe_that_begins_with_tls_and_resets_its_connection_did_not_fail_to_authenticate() {
    let daemon = Made::new().start(&["--admin", "127.0.0.1:0"]);
    // The first byte of TLS, alone.
    daemon.reset_after(&[0x16]);
    let mut stranger = TcpStream::connect(daemon.address()).unwrap();
    stranger.write_all(&[0x16; 64]).unwrap();
    let _ = stranger.read_to_end(&mut Vec::new());
    assert_eq!(daemon.failures_to_authenticate_of(2), 1);
}
