// SPDX-License-Identifier: Apache-2.0
//! Clients of a daemon with secrets. Spark's own clients are in the tests of the plugin.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bytes::Bytes;
use lodestone_auth::exchange::{Challenge, Version};
use lodestone_auth::{Fresh, Secret};
use lodestone_model::{
    AppAttempt, AppId, GenerationId, Ledger, MapId, MapIndex, Mode, ReduceId, ShuffleId,
    ShuffleKey, ShuffleSpec, SuspectBlock,
};
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::explain::{ExplainApplication, Explanation, ReportApplication};
use lodestone_wire::extension::fetch::{FetchSegments, SegmentLayout};
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::extension::lease::RenewLease;
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::remove::EndApplication;
use lodestone_wire::extension::status::{Done, Refused};
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::MERGER_EXECUTOR;
use lodestone_wire::spark::authenticate::{AuthMessage, SaslMessage};
use lodestone_wire::spark::fetch::FetchShuffleBlockChunks;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::originals::{DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks};
use lodestone_wire::spark::push::PushBlockStream;
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};
use lodestone_wire::spark::remove::{RemoveBlocks, RemoveShuffleMerge};
use lodestone_wire::{Frame, Message};
use tempfile::TempDir;

use crate::support::client::{app, batch, hello, key, read};
use crate::support::daemon::run_any;
use crate::support::{Client, Daemon, Random};

const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// What a request about another application is answered with.
const NOT_THEIRS: &str = "authenticated as";

fn other() -> AppId {
    AppId::new("app-2").unwrap()
}

/// A directory of secrets: one of `app-1`, and one of `app-2`.
fn secrets() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, secret) in [("app-1", SECRET), ("app-2", "another")] {
        let path = dir.path().join(name);
        fs::write(&path, secret).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
    dir
}

fn start(secrets: &TempDir, more: &[&str]) -> Daemon {
    let path = secrets.path().to_str().unwrap();
    Daemon::start(&[&["--secrets", path], more].concat())
}

fn fresh(random: &mut Random) -> Fresh {
    Fresh {
        private: random.bytes(32).try_into().unwrap(),
        salt: random.bytes(16).try_into().unwrap(),
        iv: random.bytes(12).try_into().unwrap(),
        nonce: random.bytes(30).try_into().unwrap(),
    }
}

/// Sends a message of a handshake, and returns the body of the answer.
fn answer(client: &mut Client, body: Bytes) -> Result<Bytes, String> {
    let request_id = 77;
    client.send(&Frame::RpcRequest { request_id, body });
    match client.receive() {
        Some(Frame::RpcResponse { body, .. }) => Ok(body),
        Some(Frame::RpcFailure(failure)) => Err(failure.error),
        other => panic!("instead of an answer: {other:?}"),
    }
}

fn authenticated(
    daemon: &Daemon,
    app: &AppId,
    secret: &str,
    version: Version,
) -> Result<Client, String> {
    let mut client = Client::connect(daemon);
    let secret = Secret::new(secret.as_bytes()).unwrap();
    let challenge = Challenge::new(app, &secret, &fresh(&mut Random::any())).unwrap();
    let response = answer(&mut client, challenge.message().to_bytes())?;
    let response = AuthMessage::from_bytes(&response).unwrap();
    let keys = challenge.accept(&response, &secret).unwrap();
    client.encrypt(keys.keystreams(version));
    Ok(client)
}

fn address(daemon: &Daemon, app: AppId) -> ShuffleAddress {
    let mut address = key(daemon, 1);
    address.shuffle.app = app;
    address
}

fn sparks(app: &AppId) -> ShuffleKey {
    ShuffleKey {
        app: app.clone(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(1),
        generation: GenerationId(0),
    }
}

fn named<M: Message>(message: &M) -> (&'static str, Bytes) {
    (M::NAME, message.to_bytes())
}

/// Every request of an application that gets an answer, by its name.
fn requests(daemon: &Daemon, app: &AppId) -> Vec<(&'static str, Bytes)> {
    let end = EndApplication {
        app: app.clone(),
        app_attempt: AppAttempt::NONE,
    };
    let all = extension_requests(daemon, app).into_iter();
    all.chain(spark_requests(app))
        .chain([named(&end)])
        .collect()
}

fn extension_requests(daemon: &Daemon, app: &AppId) -> Vec<(&'static str, Bytes)> {
    let (key, app) = (address(daemon, app.clone()), app.clone());
    let (map_index, map_id, app_attempt) = (MapIndex(0), MapId(0), AppAttempt::NONE);
    vec![
        named(&RenewLease {
            app: app.clone(),
            app_attempt,
            incarnation: 0,
            ttl_ms: 60_000,
        }),
        named(&RegisterShuffle {
            key: key.clone(),
            spec: ShuffleSpec {
                mode: Mode::Merge,
                num_maps: 1,
                num_partitions: 1,
                format: "spark-stream".to_owned(),
            },
        }),
        named(&CommitMap {
            key: key.clone(),
            map_index,
            map_id,
            pushed: Ledger::default(),
        }),
        named(&AbortMap {
            key: key.clone(),
            map_index,
            map_id,
        }),
        named(&SegmentLayout {
            key: key.clone(),
            map_start: 0,
            map_end: 1,
            reduce_ids: vec![ReduceId(0)],
        }),
        named(&FetchSegments {
            key: key.clone(),
            chunks: Vec::new(),
        }),
        named(&ReportApplication {
            app: app.clone(),
            app_attempt,
            ended: false,
            report: "{}".to_owned(),
        }),
        named(&ExplainApplication {
            app: app.as_str().to_owned(),
        }),
    ]
}

fn spark_requests(app: &AppId) -> Vec<(&'static str, Bytes)> {
    let executor = || "1".to_owned();
    let (shuffle_id, map_id, reduce_id) = (ShuffleId(1), MapId(0), ReduceId(0));
    vec![
        named(&RegisterExecutor {
            app: app.clone(),
            exec_id: executor(),
            local_dirs: vec!["/tmp".to_owned()],
            sub_dirs_per_local_dir: 64,
            shuffle_manager: "org.apache.spark.shuffle.sort.SortShuffleManager".to_owned(),
        }),
        named(&GetLocalDirsForExecutors {
            app: app.clone(),
            exec_ids: vec![executor()],
        }),
        named(&FinalizeShuffleMerge { key: sparks(app) }),
        named(&FetchShuffleBlockChunks {
            app: app.clone(),
            exec_id: MERGER_EXECUTOR.to_owned(),
            shuffle_id,
            shuffle_merge_id: GenerationId(0),
            chunks: vec![(reduce_id, vec![0])],
        }),
        named(&FetchShuffleBlocks {
            app: app.clone(),
            exec_id: executor(),
            shuffle_id,
            blocks: vec![(map_id, vec![reduce_id])],
            batch: false,
        }),
        named(&OpenBlocks {
            app: app.clone(),
            exec_id: executor(),
            block_ids: vec!["rdd_1_1".to_owned()],
        }),
        named(&DiagnoseCorruption {
            app: app.clone(),
            exec_id: executor(),
            block: SuspectBlock {
                shuffle: shuffle_id,
                map: map_id,
                reduce: reduce_id,
                reader_checksum: 0,
            },
            algorithm: "CRC32C".to_owned(),
        }),
        named(&RemoveBlocks {
            app: app.clone(),
            exec_id: executor(),
            block_ids: vec!["rdd_1_1".to_owned()],
        }),
    ]
}

/// The text of an answer that refuses, or nothing.
fn refusal(answer: Result<Bytes, String>) -> String {
    match answer {
        Err(text) => text,
        Ok(body) if body.first() == Some(&Refused::ID) => read::<Refused>(&body).detail,
        Ok(_) => String::new(),
    }
}

/// What each request of an application is refused with, by the name of the request.
fn refusals(daemon: &Daemon, client: &mut Client, app: &AppId) -> Vec<(&'static str, String)> {
    let mut refusals = Vec::new();
    // Uploads, before the application ends.
    let (push, body) = batch(&address(daemon, app.clone()), 0, 0, &[(0, b"bytes")]);
    client.send_upload(&push, &body);
    refusals.push(("PushBatch", refusal(next(client))));
    let block = PushBlockStream {
        key: sparks(app),
        map_index: MapIndex(0),
        reduce_id: ReduceId(0),
        index: 0,
    };
    client.send_upload(&block, b"bytes");
    refusals.push(("PushBlockStream", refusal(next(client))));
    for (name, body) in requests(daemon, app) {
        refusals.push((name, refusal(answer(client, body))));
    }
    let (shuffle_id, shuffle_merge_id) = (ShuffleId(1), GenerationId(0));
    client.send(&Frame::MergedBlockMetaRequest(MergedBlockMetaRequest {
        request_id: 5,
        app: app.clone(),
        shuffle_id,
        shuffle_merge_id,
        reduce_id: ReduceId(0),
    }));
    refusals.push(("MergedBlockMetaRequest", refusal(next(client))));
    refusals
}

/// The next answer.
fn next(client: &mut Client) -> Result<Bytes, String> {
    match client.receive() {
        Some(Frame::RpcResponse { body, .. }) => Ok(body),
        Some(Frame::RpcFailure(failure)) => Err(failure.error),
        other => panic!("instead of an answer: {other:?}"),
    }
}

#[test]
fn a_client_reaches_its_own_application_and_no_other_with_any_request() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    for version in [Version::One, Version::Two] {
        let mut client = authenticated(&daemon, &app(), SECRET, version).unwrap();
        for (name, refusal) in refusals(&daemon, &mut client, &other()) {
            assert!(
                refusal.contains(NOT_THEIRS),
                "{name} of another: {refusal:?}"
            );
        }
        // As Spark names it, and as the plugin does.
        let ours = AppId::new("app-1~0123456789abcdef").unwrap();
        let refused = [app(), ours].map(|app| refusals(&daemon, &mut client, &app));
        for (name, refusal) in refused.into_iter().flatten() {
            assert!(
                !refusal.contains(NOT_THEIRS),
                "{name} of its own: {refusal:?}"
            );
        }
    }
}

/// A request that is not in the list above could be forgotten.
#[test]
fn each_request_that_names_an_application_is_tried() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let mut client = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    let tried: Vec<_> = refusals(&daemon, &mut client, &other())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/src/request.rs");
    let text = fs::read_to_string(path).unwrap();
    let list = text.split_once("of_app! {\n    Ren").unwrap().1;
    let list = format!("    Ren{}", list.split_once('}').unwrap().0);
    let named: Vec<_> = list
        .lines()
        .filter_map(|line| line.trim().split_once(':'))
        .collect();
    assert!(named.len() >= 19, "{named:?}");
    for (name, _) in named {
        // This one has no answer: see the next test.
        assert!(
            tried.contains(&name) || name == "RemoveShuffleMerge",
            "{name}"
        );
    }
}

#[test]
fn a_one_way_request_about_another_application_has_no_effect() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let address = address(&daemon, app());
    let mut owner = authenticated(&daemon, &app(), SECRET, Version::One).unwrap();
    owner.register(&address, 1, 1);
    owner.output(&address, 0, 0, &[(0, b"bytes")]);
    let mut stranger = authenticated(&daemon, &other(), "another", Version::One).unwrap();
    let key = sparks(&app());
    let body = RemoveShuffleMerge { key }.to_bytes();
    stranger.send(&Frame::OneWay { body });
    // Requests of one connection are carried out in order.
    let _: HelloReply = stranger.ask(&hello());
    let layout = owner.layout(&address, (0, 1), &[0]);
    assert_eq!(layout.partitions.len(), 1, "it is still there");
}

#[test]
fn clients_without_the_secret_learn_why_and_reach_nothing() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let unknown = AppId::new("app-3").unwrap();
    let tries = [
        authenticated(&daemon, &app(), "another", Version::One),
        authenticated(&daemon, &other(), SECRET, Version::Two),
        authenticated(&daemon, &unknown, SECRET, Version::One),
    ];
    for denied in tries {
        let error = denied.err().unwrap();
        assert!(error.contains("authentication failed"), "{error}");
    }
    // Each request without a handshake, on a connection of its own: one is all that it gets.
    for (name, body) in requests(&daemon, &app()) {
        let mut client = Client::connect(&daemon);
        let error = answer(&mut client, body).unwrap_err();
        assert!(
            error.contains("set spark.authenticate=true"),
            "{name}: {error}"
        );
        assert_eq!(client.receive_to_the_end(), 0, "{name}: closed");
    }
    let mut client = Client::connect(&daemon);
    client.send_upload(
        &batch(&address(&daemon, app()), 0, 0, &[(0, b"bytes")]).0,
        b"bytes",
    );
    assert!(
        next(&mut client)
            .unwrap_err()
            .contains("spark.authenticate")
    );
}

#[test]
fn a_secret_counts_from_the_moment_its_file_is_there() {
    let secrets = secrets();
    let daemon = start(&secrets, &[]);
    let app = AppId::new("app-3").unwrap();
    assert!(authenticated(&daemon, &app, "new", Version::One).is_err());
    let path = secrets.path().join("app-3");
    fs::write(&path, "new\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
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
