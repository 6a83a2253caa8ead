// SPDX-License-Identifier: Apache-2.0
//! `lodestone doctor` against daemons that have a fault, or that do not fit the application.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::generate_simple_self_signed;
use tempfile::TempDir;

use crate::support::Daemon;
use crate::support::daemon::run_any;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A folder with a secret, another one, and a certificate with its key.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, content) in [
            ("secret", SECRET),
            ("other", "another secret of the same length"),
            ("cert.pem", &made.cert.pem()),
            ("key.pem", &made.signing_key.serialize_pem()),
        ] {
            fs::write(files.path(name), content).unwrap();
            fs::set_permissions(files.path(name), Permissions::from_mode(0o600)).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a daemon, whose flags name files.
    fn start(&self, flags: &[(&str, &str)], more: &[&str]) -> Daemon {
        let named = flags.iter().flat_map(|(flag, name)| {
            let path = self.path(name).display().to_string();
            [(*flag).to_owned(), path]
        });
        let named: Vec<String> = named.collect();
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        Daemon::start(&[&named[..], more].concat())
    }
}

/// Returns the lines about a check of these services, with the settings of an application.
fn lines_of(check: &str, services: &str, settings: &[&str]) -> Vec<String> {
    let conf = settings.iter().flat_map(|one| ["--conf", one]);
    let arguments: Vec<&str> = ["doctor", "--services", services]
        .into_iter()
        .chain(conf)
        .collect();
    let (_, out, error) = run_any(&arguments);
    assert_eq!(error, "");
    let begin = format!("{check}: ");
    let is_of = |line: &&str| {
        line.split_once(' ')
            .unwrap()
            .1
            .trim_start()
            .starts_with(&begin)
    };
    out.lines().filter(is_of).map(str::to_owned).collect()
}

fn expect(check: &str, daemon: &Daemon, settings: &[&str], level: &str, words: &str) {
    expect_of(check, daemon.address(), settings, level, words);
}

fn expect_of(check: &str, services: &str, settings: &[&str], level: &str, words: &str) {
    let lines = lines_of(check, services, settings);
    let [line] = lines.as_slice() else {
        panic!("{settings:?} gave {lines:?}");
    };
    assert!(
        line.starts_with(level) && line.contains(words),
        "{settings:?} gave {line}"
    );
}

const PLAIN: &str = "spark.authenticate=false";
const AUTHENTICATES: [&str; 2] = [
    "spark.authenticate=true",
    "spark.authenticate.secret=0123456789abcdef0123456789abcdef",
];

#[test]
fn a_service_that_takes_new_shuffles_is_as_it_should_be() {
    let daemon = Daemon::start(&[]);
    let (code, out, error) = run_any(&["doctor", "--services", daemon.address()]);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    for words in [
        "ok       reach: ",
        "takes new shuffles",
        "asks for no secret",
        "0 errors",
    ] {
        assert!(out.contains(words), "{words:?} is not in {out}");
    }
}

#[test]
fn a_service_without_secrets_does_not_fit_an_application_that_authenticates() {
    let daemon = Daemon::start(&[]);
    expect("secret", &daemon, &AUTHENTICATES, "error", "has no secrets");
}

#[test]
fn a_service_with_secrets_needs_an_application_with_the_same_one() {
    let files = Files::new();
    let daemon = files.start(&[("--secrets", "secret")], &[]);
    expect(
        "secret",
        &daemon,
        &AUTHENTICATES,
        "ok",
        "has the secret of the application",
    );
    let other = [
        "spark.authenticate=true",
        "spark.authenticate.secret=another",
    ];
    expect("secret", &daemon, &other, "error", "has another secret");
    expect(
        "secret",
        &daemon,
        &[PLAIN],
        "error",
        "this service asks for authentication",
    );
    expect(
        "secret",
        &daemon,
        &AUTHENTICATES[..1],
        "note",
        "the settings have none",
    );
    expect(
        "secret",
        &daemon,
        &[],
        "note",
        "refuses clients like this one",
    );
    // As the services have it, in a file.
    for (name, level) in [("secret", "ok "), ("other", "error ")] {
        let path = files.path(name).display().to_string();
        let (_, out, _) = run_any(&["doctor", "--services", daemon.address(), "--secrets", &path]);
        let line = out.lines().find(|line| line.contains(" secret: ")).unwrap();
        assert!(line.starts_with(level), "{line}");
    }
}

#[test]
fn a_service_that_takes_only_encrypted_connections_needs_an_application_that_encrypts() {
    let files = Files::new();
    let only = files.start(&[("--secrets", "secret")], &["--encrypted-only"]);
    let any = files.start(&[("--secrets", "secret")], &[]);
    expect(
        "encryption",
        &only,
        &AUTHENTICATES,
        "error",
        "-> Set spark.network.crypto.enabled=true",
    );
    expect(
        "encryption",
        &any,
        &AUTHENTICATES,
        "ok ",
        "without encryption",
    );
    let encrypts = [&AUTHENTICATES[..], &["spark.network.crypto.enabled=true"]].concat();
    assert_eq!(lines_of("encryption", only.address(), &encrypts), [""; 0]);
    expect("secret", &only, &encrypts, "ok ", "has the secret");
}

#[test]
fn a_service_does_not_count_a_client_with_the_right_secret_as_one_that_failed() {
    let files = Files::new();
    let daemon = files.start(&[("--secrets", "secret")], &["--admin", "127.0.0.1:0"]);
    let encrypts = [&AUTHENTICATES[..], &["spark.network.crypto.enabled=true"]].concat();
    expect("secret", &daemon, &encrypts, "ok ", "has the secret");
    let failures = |page: &str| {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let mut of_it = lines.filter_map(|line| line.strip_prefix(FAILURES));
        of_it.next().map(|count| count.trim().to_owned())
    };
    assert_eq!(failures(&daemon.get("/metrics")).as_deref(), Some("0"));
    // A client without a secret counts.
    expect(
        "secret",
        &daemon,
        &[PLAIN],
        "error",
        "asks for authentication",
    );
    assert_eq!(failures(&daemon.get("/metrics")).as_deref(), Some("1"));
}

const FAILURES: &str = "lodestone_authentication_failures_total";

#[test]
fn where_spark_makes_the_secret_it_is_not_compared() {
    let files = Files::new();
    let daemon = files.start(&[("--secrets", "other")], &[]);
    let yarn = [&AUTHENTICATES[..], &["spark.master=yarn"]].concat();
    expect("secret", &daemon, &yarn, "note", "it is not compared");
}

#[test]
fn a_service_without_a_certificate_does_not_fit_an_application_with_tls() {
    let files = Files::new();
    let flags = [("--tls-cert", "cert.pem"), ("--tls-key", "key.pem")];
    let (with, without) = (files.start(&flags, &[]), Daemon::start(&[]));
    let tls = ["spark.ssl.rpc.enabled=true"];
    expect("tls", &with, &tls, "ok", "speaks TLS");
    expect("tls", &without, &tls, "error", "does not speak TLS");
    assert_eq!(lines_of("tls", without.address(), &[PLAIN]), [""; 0]);
    let only = files.start(&flags, &["--encrypted-only"]);
    expect(
        "secret",
        &only,
        &[PLAIN],
        "error",
        "takes encrypted connections only",
    );
    expect("tls", &only, &tls, "ok", "speaks TLS");
    assert_eq!(lines_of("secret", only.address(), &tls), [""; 0]);
}

#[test]
fn two_addresses_of_one_daemon_are_an_error() {
    let daemon = Daemon::start(&["--listen", "0.0.0.0:0"]);
    let port = daemon.address().rsplit_once(':').unwrap().1;
    let both = format!("127.0.0.1:{port},127.0.0.2:{port}");
    expect_of("same-service", &both, &[], "error", "are the same daemon");
    let settings = ["spark.lodestone.replicas=2"];
    let lines = lines_of("same-service", daemon.address(), &settings);
    assert!(
        lines[0].starts_with("error ") && lines[0].contains("fewer than two services answer"),
        "{lines:?}"
    );
}

#[test]
fn the_exit_code_and_the_json_say_the_same_as_the_text() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = unused.local_addr().unwrap().to_string();
    drop(unused);
    let (code, out, _) = run_any(&["doctor", "--json", "--services", &nobody]);
    assert_eq!(code, Some(2));
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["errors"], 1);
    assert_eq!(found["findings"][0]["check"], "reach");
    let (code, out, error) = run_any(&["doctor"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.contains("nothing to check"), "{error}");
    let (code, _, error) = run_any(&["doctor", "--event-log", "/does/not/exist"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("cannot read /does/not/exist"), "{error}");
}

#[test]
fn a_port_that_the_daemon_has_already_is_no_error() {
    let daemon = Daemon::start(&["--admin", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let ports = ["--listen", daemon.address(), "--admin", daemon.admin()];
    let (_, out, _) = run_any(&[&["doctor", "--dir", dir][..], &ports].concat());
    let lines: Vec<&str> = out
        .lines()
        .filter(|line| line.contains(" port: "))
        .collect();
    assert!(
        lines.iter().all(|line| line.starts_with("note ")),
        "{lines:?}"
    );
    assert!(
        lines[0].contains("is taken by a Lodestone daemon"),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("the admin endpoint of a Lodestone daemon"),
        "{lines:?}"
    );
}
