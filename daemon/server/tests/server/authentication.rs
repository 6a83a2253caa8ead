// SPDX-License-Identifier: Apache-2.0
//! Clients of a daemon with secrets. Spark's own clients are in the tests of the plugin.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lodestone_auth::Secret;
use lodestone_auth::exchange::{Challenge, Version};
use lodestone_model::{AppAttempt, AppId};
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::explain::{ExplainApplication, Explanation, ReportApplication};
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::extension::status::Done;
use lodestone_wire::spark::authenticate::SaslMessage;
use lodestone_wire::spark::register::GetLocalDirsForExecutors;
use lodestone_wire::{Frame, Message};

use crate::support::client::{app, hello, key};
use crate::support::daemon::run_any;
use crate::support::proof::{
    SECRET, answer, authenticated, fresh, other, secrets, start, with_sasl, write_secret,
};
use crate::support::{Client, Daemon, Random};

fn address(daemon: &Daemon, app: AppId) -> ShuffleAddress {
    let mut address = key(daemon, 1);
    address.shuffle.app = app;
    address
}

#[test]
fn clients_without_the_secret_learn_why() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let unknown = AppId::new("app-3").unwrap();
    let sasl = |app, secret| with_sasl(Client::connect(&daemon), app, secret);
    let tries = [
        authenticated(&daemon, &app(), "another", Version::One),
        authenticated(&daemon, &other(), SECRET, Version::Two),
        authenticated(&daemon, &unknown, SECRET, Version::One),
        sasl(&app(), "another"),
        sasl(&other(), SECRET),
        sasl(&unknown, SECRET),
    ];
    for denied in tries {
        let error = denied.err().unwrap();
        assert!(error.contains("authentication failed"), "{error}");
    }
}

#[test]
fn a_secret_counts_from_the_moment_its_file_is_there() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let app = AppId::new("app-3").unwrap();
    assert!(authenticated(&daemon, &app, "new", Version::One).is_err());
    let path = secrets.path().join("app-3");
    write_secret(&path, "new\n");
    let mut client = authenticated(&daemon, &app, "new", Version::One).unwrap();
    fs::remove_file(path).unwrap();
    assert!(authenticated(&daemon, &app, "new", Version::One).is_err());
    // A connection that has authenticated goes on.
    client.register(&address(&daemon, app), 1, 1);
}

#[test]
fn a_client_lists_the_reports_of_its_own_application_only() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    for (app, secret) in [(app(), SECRET), (other(), "another")] {
        let mut client = authenticated(&daemon, &app, secret, Version::One).unwrap();
        client.register(&address(&daemon, app.clone()), 1, 1);
        let (app_attempt, ended) = (AppAttempt::NONE, false);
        let report = "{}".to_owned();
        let _: Done = client.ask(&ReportApplication {
            app,
            app_attempt,
            ended,
            report,
        });
    }
    let mut client = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    let all = ExplainApplication { app: String::new() };
    let seen: Vec<_> = client.ask::<Explanation>(&all).applications;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].app, app());
}

#[test]
fn an_operator_explains_an_application_with_its_secret_and_drains_without_one() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let mut client = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    client.register(&address(&daemon, app()), 1, 1);
    let _: Done = client.ask(&ReportApplication {
        app: app(),
        app_attempt: AppAttempt::NONE,
        ended: false,
        report: r#"{"totals":{"shuffles":1,"merged":1}}"#.to_owned(),
    });
    let path = secrets.path().to_str().unwrap();
    let explain = |more: &[&str]| {
        run_any(&[&["explain", "app-1", "--service", daemon.address()], more].concat())
    };
    let (code, out, error) = explain(&["--secrets", path]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("app-1"), "{out}");
    let (code, _, error) = explain(&[]);
    assert_eq!(code, Some(1));
    assert!(error.contains("spark.authenticate"), "{error}");
    let other = secrets.path().join("app-2");
    let (code, _, error) = explain(&["--secrets", other.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(error.contains("authentication failed"), "{error}");
    // The connection to the port, at which it asks who is here, needs no secret.
    let (code, _, error) = run_any(&["drain", "--cancel", "--service", daemon.address()]);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn with_encryption_required_sasl_is_refused_and_an_exchange_is_not() {
    let secrets = secrets();
    let daemon = start(&secrets, &["--encrypted-only"]);
    assert!(authenticated(&daemon, &app(), SECRET, Version::One).is_ok());
    let mut client = Client::connect(&daemon);
    let token = Vec::new();
    let first = SaslMessage { app: app(), token }.to_bytes();
    let error = answer(&mut client, first).unwrap_err();
    assert!(
        error.contains("spark.network.crypto.enabled=true"),
        "{error}"
    );
}

#[test]
fn what_a_client_sends_before_the_answer_ends_the_connection() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let mut client = Client::connect(&daemon);
    let secret = Secret::new(SECRET.as_bytes()).unwrap();
    let challenge = Challenge::new(&app(), &secret, &fresh(&mut Random::any())).unwrap();
    let (request_id, body) = (1, challenge.message().to_bytes());
    let handshake = Frame::RpcRequest { request_id, body }.to_bytes();
    let (request_id, body) = (2, hello().to_bytes());
    let early = Frame::RpcRequest { request_id, body }.to_bytes();
    // In one call: both are there when the daemon reads.
    std::io::Write::write_all(&mut client.socket, &[handshake, early].concat()).unwrap();
    assert_eq!(client.receive_to_the_end(), 0);
    daemon.logged("bytes before the answer");
}

#[test]
fn a_connection_that_does_not_authenticate_is_closed_after_ten_seconds() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let mut client = Client::connect(&daemon);
    // The beginning of a frame.
    std::io::Write::write_all(&mut client.socket, &[0, 0]).unwrap();
    client.assert_silent_for(Duration::from_secs(5));
    assert_eq!(client.receive_to_the_end(), 0);
    daemon.logged("did not authenticate within 10 s");
}

#[test]
fn clients_that_do_not_authenticate_take_no_place_of_one_that_has() {
    let secrets = secrets();
    let daemon = start(&secrets, &["--max-connections", "3"]);
    let mut honest = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    let _: HelloReply = honest.ask(&hello());
    // The honest one is idle for longer than each of these.
    let silent: Vec<_> = (0..6).map(|_| Client::connect(&daemon)).collect();
    for mut client in silent.into_iter().take(4) {
        assert_eq!(
            client.receive_to_the_end(),
            0,
            "it makes way for the next one"
        );
    }
    let _: HelloReply = honest.ask(&hello());
}

#[test]
fn no_secret_is_in_the_log() {
    let secrets = secrets();
    let daemon = start(&secrets, &["--log-level", "trace"]);
    assert!(authenticated(&daemon, &app(), SECRET, Version::One).is_ok());
    assert!(authenticated(&daemon, &app(), "a-wrong-secret", Version::One).is_err());
    let log = daemon.log_until("authentication failed");
    assert!(
        !log.contains(SECRET) && !log.contains("a-wrong-secret"),
        "{log}"
    );
}

#[test]
fn a_probe_that_resets_its_connection_is_no_client_that_did_not_authenticate() {
    let secrets = secrets();
    let daemon = start(&secrets, &["--admin", "127.0.0.1:0"]);
    for sent in [&[][..], &[0; 4]] {
        daemon.reset_after(sent);
    }
    let mut stranger = Client::connect(&daemon);
    let request = GetLocalDirsForExecutors {
        app: app(),
        exec_ids: Vec::new(),
    };
    assert!(answer(&mut stranger, request.to_bytes()).is_err());
    drop(stranger);
    assert_eq!(daemon.failures_to_authenticate_of(3), 1);
}

#[test]
fn a_warning_comes_once_for_each_file_of_secrets_that_every_user_may_read() {
    let secrets = secrets();
    let open = |name: &str| {
        let path = secrets.path().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    };
    fs::set_permissions(secrets.path(), Permissions::from_mode(0o755)).unwrap();
    let warnings = |daemon: &Daemon| {
        let client = authenticated(daemon, &app(), SECRET, Version::One);
        drop(client.unwrap());
        assert!(authenticated(daemon, &other(), "wrong", Version::One).is_err());
        let log = daemon.log_until("authentication failed");
        assert!(!log.contains(SECRET), "{log}");
        let lines = log.lines().filter(|line| line.contains("every user"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let daemon = start(&secrets, &[]);
    assert_eq!(warnings(&daemon), Vec::<String>::new());
    open("app-1");
    let [warning] = &warnings(&daemon)[..] else {
        panic!("a file of one that connects has become open");
    };
    assert!(
        warning.contains("app-1") && warning.contains("files=1"),
        "{warning}"
    );
    assert_eq!(warnings(&daemon), Vec::<String>::new(), "it is known");
    open("app-2");
    let [warning] = &warnings(&daemon)[..] else {
        panic!("another one has become open");
    };
    assert!(warning.contains("app-2"), "{warning}");
    let daemon = start(&secrets, &[]);
    let [warning] = &warnings(&daemon)[..] else {
        panic!("one for all that are open at the start");
    };
    assert!(
        warning.contains("app-1") && warning.contains("files=2"),
        "{warning}"
    );
}
