// SPDX-License-Identifier: Apache-2.0
//! A service that is drained while it holds data that exists nowhere else.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use bytes::BytesMut;

use crate::remote::push;
use crate::support::client::{app, batch, commit_of, key};
use crate::support::daemon::run_any;
use crate::support::{Client, Daemon};
use lodestone_model::{AppAttempt, Code, HeldData, Mode, ShuffleId, ShuffleSpec};
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::register::RegisterExecutor;
use lodestone_wire::{Frame, FrameDecoder, Limits, Message};

/// A remote shuffle with one committed map output.
fn one_output(client: &mut Client, key: &ShuffleAddress) {
    client.register_as(Mode::Remote, key, 2, 4);
    let (pushed, body) = batch(key, 0, 10, &[(1, b"one"), (3, b"three")]);
    assert_eq!(push(client, &pushed, &body), [Code::Ok; 2]);
    let commit: CommitMap = commit_of(std::slice::from_ref(&pushed));
    let _: Done = client.ask(&commit);
}

/// The output of a command, line by line.
type OutputLines = Lines<BufReader<ChildStdout>>;

fn drain(daemon: &Daemon) -> (Child, OutputLines) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodestone"));
    command.args(["drain", "--service", daemon.address()]);
    let mut drain = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(drain.stdout.take().unwrap()).lines();
    (drain, lines)
}

fn port(daemon: &Daemon) -> u16 {
    let address: SocketAddr = daemon.address().parse().unwrap();
    address.port()
}

/// Asks as `lodestone drain` does.
fn asked(daemon: &Daemon, wish: Wish) -> HeldData {
    let name = format!("lodestone-{}", port(daemon));
    let address = UnixAddr::from_abstract_name(name).unwrap();
    let mut socket = UnixStream::connect_addr(&address).unwrap();
    let body = Drain { wish }.to_bytes();
    let request = Frame::RpcRequest {
        request_id: 7,
        body,
    };
    socket.write_all(&request.to_bytes()).unwrap();
    let (decoder, mut received) = (FrameDecoder::new(Limits::SERVER), BytesMut::new());
    loop {
        if let Some(frame) = decoder.next(&mut received).unwrap() {
            let Frame::RpcResponse { body, .. } = frame else {
                panic!("{frame:?}");
            };
            return Holdings::from_bytes(&body).unwrap().held;
        }
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).unwrap();
        assert!(count > 0, "the connection is closed");
        received.extend_from_slice(&bytes[..count]);
    }
}

fn line_of_holdings(lines: &mut OutputLines) -> String {
    let held = lines.find(|line| line.as_ref().unwrap().starts_with("holds"));
    held.unwrap().unwrap()
}

fn registration(key: &ShuffleAddress, num_maps: u32) -> RegisterShuffle {
    RegisterShuffle {
        key: key.clone(),
        spec: ShuffleSpec {
            mode: Mode::Remote,
            num_maps,
            num_partitions: 4,
            format: String::new(),
        },
    }
}

#[test]
fn a_drained_service_takes_nothing_new_serves_its_data_and_ends_when_that_is_released() {
    let mut daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    one_output(&mut client, &key);
    let (mut drain, mut lines) = drain(&daemon);
    let first = lines.next().unwrap().unwrap();
    assert!(first.ends_with("takes nothing new"), "{first}");
    let held = line_of_holdings(&mut lines);
    let what = "holds 1 remote shuffles of 1 applications";
    assert!(held.starts_with(what), "{held}");

    let mut other = key.clone();
    other.shuffle.shuffle = ShuffleId(2);
    assert_eq!(client.refusal(&registration(&other, 2)), Code::Draining);
    let (known, body) = batch(&key, 0, 10, &[(1, b"one"), (3, b"three")]);
    let codes = push(&mut client, &known, &body);
    assert_eq!(codes, [Code::Duplicate; 2], "it is there");
    let (new, body) = batch(&key, 1, 11, &[(1, b"two")]);
    assert_eq!(push(&mut client, &new, &body), [Code::Draining]);
    let mut late = Client::connect(&daemon);
    let bodies = late.partition(&key, 3);
    assert_eq!(bodies[0].2.as_ref(), b"three", "it is served");

    let (app, app_attempt) = (app(), AppAttempt::NONE);
    let _: Done = client.ask(&EndApplication { app, app_attempt });
    assert!(daemon.ended().success());
    let last = lines.map(Result::unwrap).last().unwrap();
    assert!(last.starts_with("drained"), "{last}");
    assert_eq!(drain.wait().unwrap().code(), Some(0));
}

#[test]
fn a_drain_without_time_left_prints_what_is_held_and_can_be_cancelled() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    one_output(&mut client, &key);
    let service = ["--service", daemon.address()];
    let (code, _, error) = run_any(&[&["drain", "--timeout", "0s"], &service[..]].concat());
    assert_eq!(code, Some(1), "{error}");
    let what = "still holds 1 remote shuffles of 1 applications, 0.0 MB";
    assert!(error.contains(what), "{error}");
    let mut other = key.clone();
    other.shuffle.shuffle = ShuffleId(2);
    assert_eq!(client.refusal(&registration(&other, 2)), Code::Draining);
    let (code, out, _) = run_any(&[&["drain", "--cancel"], &service[..]].concat());
    assert_eq!(code, Some(0));
    assert!(out.ends_with("takes new work again\n"), "{out}");
    let _: Done = client.ask(&registration(&other, 2));
}

#[test]
fn a_drain_writes_the_memory_to_disk() {
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    one_output(&mut client, &key);
    let before = asked(&daemon, Wish::Look);
    assert_eq!((before.bytes, before.unwritten_bytes), (8, 8));
    let after = asked(&daemon, Wish::Begin);
    assert_eq!((after.bytes, after.unwritten_bytes), (8, 0));
    assert!(after.draining && !before.draining);
    let bodies = client.partition(&key, 1);
    assert_eq!(bodies[0].2.as_ref(), b"one");
}

#[test]
fn a_merged_shuffle_is_no_reason_to_stay_and_an_executor_that_is_served_is() {
    let mut daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    client.register(&key, 2, 4);
    let local = tempfile::tempdir().unwrap();
    let register = RegisterExecutor {
        app: app(),
        exec_id: "1".to_owned(),
        local_dirs: vec![local.path().to_str().unwrap().to_owned()],
        sub_dirs_per_local_dir: 64,
        shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
    };
    let id = client.send_rpc(&register);
    client.answer_to(id);
    let service = ["--service", daemon.address()];
    let drain = [&["drain", "--timeout", "0s"], &service[..]].concat();
    let (code, _, error) = run_any(&drain);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("still holds the files of 1 executors"),
        "{error}"
    );
    drop(local);
    // The daemon looks every second.
    let drain = [&["drain", "--timeout", "30s"], &service[..]].concat();
    let (code, out, error) = run_any(&drain);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("drained"), "{out}");
    assert!(daemon.ended().success());
}

/// A proxy on its host makes every client look like one of this host.
#[test]
fn no_client_of_the_port_may_take_a_service_away() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for wish in [Wish::Look, Wish::Begin, Wish::Cancel, Wish::Leave] {
        assert_eq!(client.refusal(&Drain { wish }), Code::Malformed);
    }
    assert!(!asked(&daemon, Wish::Look).draining);
}

#[test]
fn another_user_of_the_host_may_not_take_a_service_away() {
    const NOBODY: u32 = 65_534;
    let daemon = Daemon::start(&[]);
    let connects = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0lodestone-{}'); \
         print(s.recv(1))",
        port(&daemon)
    );
    let mut python = Command::new("python3");
    let other = python.args(["-c", &connects]).uid(NOBODY);
    let output = other.output().unwrap();
    assert_eq!(output.stdout, b"b''\n", "{output:?}");
    let copy = tempfile::tempdir().unwrap();
    fs::set_permissions(copy.path(), Permissions::from_mode(0o755)).unwrap();
    let program = copy.path().join("lodestone");
    fs::copy(env!("CARGO_BIN_EXE_lodestone"), &program).unwrap();
    let mut drain = Command::new(program);
    let drain = drain.args(["drain", "--service", daemon.address()]);
    let output = drain.uid(NOBODY).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("run this as that user or as root"),
        "{error}"
    );
    assert!(!asked(&daemon, Wish::Look).draining);
}

/// Another process took the name of the socket before the daemon started.
#[test]
fn a_drain_of_another_daemon_than_that_at_the_port_fails_and_drains_neither() {
    let first = Daemon::start(&[]);
    let listen = format!("127.0.0.2:{}", port(&first));
    let second = Daemon::start(&["--listen", &listen]);
    second.logged("cannot reach this daemon");
    let (code, _, error) = run_any(&["drain", "--service", second.address()]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("another daemon than the one at the port"),
        "{error}"
    );
    assert!(!asked(&first, Wish::Look).draining);
    let mut client = Client::connect(&second);
    let _: Done = client.ask(&registration(&key(&second, 1), 2));
}

#[test]
fn a_drain_does_not_take_a_service_of_this_host_for_one_of_another() {
    let daemon = Daemon::start(&[]);
    let there = format!("192.0.2.1:{}", port(&daemon));
    let (code, _, error) = run_any(&["drain", "--service", &there]);
    assert_eq!(code, Some(1));
    assert!(error.contains("is on another host"), "{error}");
    assert!(!asked(&daemon, Wish::Look).draining);
}

#[test]
fn a_service_that_is_killed_while_it_drains_was_not_drained() {
    let mut daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let key = key(&daemon, 1);
    one_output(&mut client, &key);
    let (mut drain, mut lines) = drain(&daemon);
    line_of_holdings(&mut lines);
    daemon.signal(rustix::process::Signal::KILL);
    daemon.ended();
    assert_eq!(drain.wait().unwrap().code(), Some(1));
}
