// SPDX-License-Identifier: Apache-2.0
//! Files of certificates and keys with one fault each.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;
use crate::operator::doctor::certificates::tests::{own, own_of};

const FOREVER: [(i32, u8, u8); 2] = [(2000, 1, 1), (2999, 1, 1)];

/// A folder that any user can enter, with a certificate and its key.
struct Made(TempDir);

impl Made {
    fn new(days: [(i32, u8, u8); 2]) -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        made.allow("", 0o755);
        let (cert, key) = own(days);
        made.write("cert.pem", &cert.pem());
        made.write("key.pem", &key.serialize_pem());
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.allow(name, 0o600);
    }

    fn allow(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    /// What is found if Spark has these files, and what if a daemon has them.
    fn both(&self) -> [Vec<(&'static str, &'static str, String)>; 2] {
        let daemon = Config {
            tls_cert: Some(self.path("cert.pem")),
            tls_key: Some(self.path("key.pem")),
            ..Config::default()
        };
        [self.spark(&[]), of_daemon(&daemon)].map(shown)
    }

    fn spark(&self, more: &[&str]) -> Vec<Finding> {
        let mut given = vec!["spark.ssl.rpc.enabled=true".to_owned()];
        for (key, name) in [("certChain", "cert.pem"), ("privateKey", "key.pem")] {
            given.push(format!("spark.ssl.rpc.{key}={}", self.path(name).display()));
        }
        given.extend(more.iter().map(|one| (*one).to_owned()));
        of_spark(&Settings::named(&given).unwrap())
    }

    fn expect(&self, check: &str, level: &str, words: &str) {
        for found in self.both() {
            let bad: Vec<_> = found.iter().filter(|one| one.1 != "ok").collect();
            let [(found_check, found_level, line)] = bad.as_slice() else {
                panic!("{found:?}");
            };
            assert_eq!((*found_check, *found_level), (check, level), "{line}");
            assert!(line.contains(words) && line.contains(" -> "), "{line}");
        }
    }
}

fn shown(found: Vec<Finding>) -> Vec<(&'static str, &'static str, String)> {
    found.iter().map(Finding::shown).collect()
}

#[test]
fn a_pair_that_is_right_is_ok_with_its_end() {
    for found in Made::new(FOREVER).both() {
        let [(check, level, line)] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((*check, *level), ("certificate", "ok"));
        assert!(line.contains("is valid until 2999-01-01"), "{line}");
    }
}

#[test]
fn a_certificate_that_expired_or_is_not_valid_yet_is_an_error() {
    let over = Made::new([(2000, 1, 1), (2001, 1, 1)]);
    over.expect("certificate", "error", "expired on 2001-01-01");
    let early = Made::new([(2990, 1, 1), (2991, 1, 1)]);
    early.expect("certificate", "error", "is not valid before 2990-01-01");
}

#[test]
fn a_certificate_of_another_key_and_a_file_that_is_none_are_errors() {
    let made = Made::new(FOREVER);
    made.write("key.pem", &own(FOREVER).1.serialize_pem());
    made.expect("certificate", "error", "key.pem");
    made.write("key.pem", "no key");
    made.expect("certificate", "error", "it must be PEM");
    let made = Made::new(FOREVER);
    made.write("cert.pem", "no certificate");
    made.expect("certificate", "error", "it has no certificate");
}

#[test]
fn a_file_that_is_missing_is_an_error_of_a_daemon_and_a_note_where_spark_may_not_run() {
    let made = Made::new(FOREVER);
    fs::remove_file(made.path("cert.pem")).unwrap();
    let [spark, daemon] = made.both();
    for (found, level) in [(spark, "note"), (daemon, "error")] {
        assert_eq!((found[0].0, found[0].1), ("certificate", level));
        assert!(found[0].2.contains("cert.pem is not here"), "{found:?}");
    }
}

#[test]
fn a_key_that_any_user_can_read_is_a_warning_unless_nobody_can_come_to_it() {
    let made = Made::new(FOREVER);
    made.allow("key.pem", 0o644);
    made.expect("key-file", "warning", "has mode 644: any user can read");
    made.allow("", 0o700);
    for found in made.both() {
        assert!(found.iter().all(|one| one.1 == "ok"), "{found:?}");
    }
}

/// A key in a form with this name.
fn labelled(label: &str) -> String {
    format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n")
}

#[test]
fn a_key_with_a_password_is_left_to_spark_and_its_certificate_is_not() {
    let made = Made::new(FOREVER);
    made.write("key.pem", &labelled("ENCRYPTED PRIVATE KEY"));
    let password = "spark.ssl.rpc.privateKeyPassword=x";
    let found = shown(made.spark(&[password]));
    assert_eq!((found.len(), found[0].1), (1, "ok"), "{found:?}");
    let [spark, daemon] = made.both();
    assert_eq!((spark[0].1, daemon[0].1), ("note", "error"));
    let name = "_SPARK_SSL_RPC_PRIVATE_KEY_PASSWORD";
    assert!(spark[0].2.contains(name), "{spark:?}");
    made.write("cert.pem", "");
    assert_eq!(shown(made.spark(&[password]))[0].1, "error");
    let made = Made::new(FOREVER);
    made.write("key.pem", &own(FOREVER).1.serialize_pem());
    assert_eq!(shown(made.spark(&[password]))[0].1, "error", "another key");
    fs::remove_file(made.path("key.pem")).unwrap();
    fs::create_dir(made.path("key.pem")).unwrap();
    assert_eq!(shown(made.spark(&[password]))[0].1, "error", "a directory");
}

#[test]
fn a_form_of_keys_that_spark_does_not_take_is_an_error_with_the_command_that_converts_it() {
    for label in ["RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        let made = Made::new(FOREVER);
        made.write("key.pem", &labelled(label));
        let found = shown(made.spark(&[]));
        assert_eq!((found[0].0, found[0].1), ("certificate", "error"));
        assert!(found[0].2.contains("openssl pkcs8 -topk8"), "{found:?}");
    }
    let made = Made::new(FOREVER);
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    made.write("cert.pem", &own_of(&key, FOREVER, |_| {}).pem());
    made.write("key.pem", &key.serialize_pem());
    let [spark, daemon] = made.both();
    assert_eq!((spark[0].1, daemon[0].1), ("error", "ok"));
    assert!(spark[0].2.contains("Ed25519"), "{spark:?}");
}

#[test]
fn a_kind_of_key_that_only_a_jvm_knows_is_a_note_for_spark_and_an_error_for_a_daemon() {
    let made = Made::new(FOREVER);
    // A key of PKCS#8 without content.
    made.write("key.pem", &labelled("PRIVATE KEY"));
    let [spark, daemon] = made.both();
    assert_eq!((spark[0].1, daemon[0].1), ("note", "error"));
}

#[test]
fn a_file_that_only_another_user_may_read_is_a_note_with_the_user_to_be() {
    let made = Made::new(FOREVER);
    let path = made.path("key.pem");
    let source = std::io::Error::from(ErrorKind::PermissionDenied);
    let pair = Pair {
        names: ["--tls-cert", "--tls-key"],
        cert: made.path("cert.pem"),
        key: path.clone(),
        has_password: false,
        reader: Reader::Daemon,
        absent: |_| None,
    };
    let found = pair.refused(&CertificateError::File { path, source });
    let (_, level, line) = found.unwrap().shown();
    assert_eq!(level, "note");
    assert!(line.contains("-> Run this command as the user"), "{line}");
}

#[test]
fn a_key_in_a_directory_where_any_user_may_replace_it_is_a_warning_unless_it_is_sticky() {
    let made = Made::new(FOREVER);
    made.allow("", 0o777);
    made.expect("key-file", "warning", "any user can replace it");
    made.allow("", 0o1777);
    for found in made.both() {
        assert!(found.iter().all(|one| one.1 == "ok"), "{found:?}");
    }
}
