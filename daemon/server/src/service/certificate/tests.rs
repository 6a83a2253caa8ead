// SPDX-License-Identifier: Apache-2.0
//! Pairs of files that are replaced, damaged or slow, and what clients agree upon.

use std::fs;
use std::time::{Duration, SystemTime};

use rcgen::generate_simple_self_signed;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use tempfile::TempDir;

use super::*;

/// Writes a new certificate, and returns what trusts it.
fn write(dir: &TempDir) -> RootCertStore {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for (name, text) in [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
    ] {
        replace(dir, name, text.as_bytes());
    }
    let mut trusted = RootCertStore::empty();
    trusted.add(made.cert.der().clone()).unwrap();
    trusted
}

fn replace(dir: &TempDir, name: &str, text: &[u8]) {
    let path = dir.path().join(name);
    // A test writes faster than the clock of a filesystem ticks.
    let before = fs::metadata(&path).and_then(|found| found.modified());
    let before = before.unwrap_or(SystemTime::UNIX_EPOCH);
    fs::write(&path, text).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(before + Duration::from_secs(60)).unwrap();
}

fn certificate(dir: &TempDir) -> Result<Certificate, CertificateError> {
    Certificate::at(&dir.path().join("cert.pem"), &dir.path().join("key.pem"))
}

/// Returns whether a client that trusts this agrees upon keys.
fn agrees(certificate: &Certificate, trusted: RootCertStore) -> bool {
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(certificate.config()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets().unwrap();
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            if client.process_new_packets().is_err() {
                return false;
            }
        }
    }
    true
}

#[test]
fn a_certificate_that_is_replaced_counts_from_the_next_connection_on() {
    let dir = TempDir::new().unwrap();
    let first = write(&dir);
    let certificate = certificate(&dir).unwrap();
    assert!(agrees(&certificate, first.clone()));
    let second = write(&dir);
    assert!(agrees(&certificate, second));
    assert!(!agrees(&certificate, first), "the first one is gone");
}

#[test]
fn a_pair_that_is_not_right_yet_does_not_end_the_service() {
    let dir = TempDir::new().unwrap();
    let first = write(&dir);
    let certificate = certificate(&dir).unwrap();
    let read = |name| fs::read(dir.path().join(name)).unwrap();
    let old_key = read("key.pem");
    let second = write(&dir);
    let (cert, key) = (read("cert.pem"), read("key.pem"));
    replace(&dir, "key.pem", &old_key);
    assert!(agrees(&certificate, first.clone()), "half of the new pair");
    fs::remove_file(dir.path().join("cert.pem")).unwrap();
    assert!(agrees(&certificate, first), "no pair");
    replace(&dir, "cert.pem", &cert);
    replace(&dir, "key.pem", &key);
    assert!(agrees(&certificate, second), "the whole pair");
}

#[test]
fn a_pair_that_could_not_be_read_counts_as_soon_as_it_can() {
    let dir = TempDir::new().unwrap();
    let first = write(&dir);
    let certificate = certificate(&dir).unwrap();
    let second = write(&dir);
    let cert = dir.path().join("cert.pem");
    let right = fs::read(&cert).unwrap();
    let time = fs::metadata(&cert).unwrap().modified().unwrap();
    let put = |bytes: &[u8]| {
        fs::write(&cert, bytes).unwrap();
        let file = fs::File::options().write(true).open(&cert).unwrap();
        file.set_modified(time).unwrap();
    };
    put(&right[..100]);
    assert!(agrees(&certificate, first), "half of it is there");
    put(&right);
    assert!(agrees(&certificate, second), "all of it, at the same time");
}

#[test]
fn while_one_connection_waits_for_the_disk_others_have_the_last_pair() {
    let dir = TempDir::new().unwrap();
    let first = write(&dir);
    let certificate = certificate(&dir).unwrap();
    let reading = certificate.read.lock().unwrap();
    write(&dir);
    assert!(agrees(&certificate, first));
    drop(reading);
}

#[test]
fn a_file_that_has_no_end_is_refused() {
    let dir = TempDir::new().unwrap();
    write(&dir);
    let cert = dir.path().join("cert.pem");
    for path in [Path::new("/dev/zero"), dir.path()] {
        let refused = Certificate::at(path, &cert).err().unwrap();
        assert!(matches!(refused, CertificateError::Kind(_)), "{refused}");
    }
}

#[test]
fn what_cannot_be_right_is_refused_with_the_file() {
    let dir = TempDir::new().unwrap();
    let refused = || certificate(&dir).err().unwrap().to_string();
    assert!(refused().contains("cert.pem: No such file"));
    write(&dir);
    let key = fs::read(dir.path().join("key.pem")).unwrap();
    write(&dir);
    let cert = dir.path().join("cert.pem");
    fs::write(dir.path().join("key.pem"), key).unwrap();
    assert!(refused().contains("key.pem"), "another key: {}", refused());
    fs::write(&cert, "no certificate").unwrap();
    assert!(refused().contains("cert.pem"), "{}", refused());
}

/// Asserts that an error shows nothing of a key, neither as text nor as numbers.
fn assert_hides(error: &CertificateError, key: &str) {
    let chain = std::iter::successors(Some(error as &dyn std::error::Error), |one| one.source());
    let shown: String = chain.map(|one| format!("{one} {one:?}\n")).collect();
    let of_bytes = key.as_bytes()[..4].iter().map(u8::to_string);
    let of_bytes = of_bytes.collect::<Vec<_>>().join(", ");
    let of_label = b"PRIV".map(|byte| byte.to_string()).join(", ");
    assert!(!shown.contains(&of_bytes), "{shown}");
    assert!(!shown.contains(&of_label), "{shown}");
    for part in key.trim_end().as_bytes().chunks_exact(8) {
        let part = String::from_utf8_lossy(part);
        let is_label = part.contains('-') || part.contains(' ') || part.contains("KEY");
        assert!(is_label || !shown.contains(&*part), "{part} in {shown}");
    }
}

#[test]
fn a_key_that_is_damaged_is_refused_and_nothing_of_it_is_shown() {
    let dir = TempDir::new().unwrap();
    write(&dir);
    let path = dir.path().join("key.pem");
    let key = fs::read_to_string(&path).unwrap();
    for (damaged, words) in [
        (key.replace('\n', " "), "the line END is missing"),
        (key.replace('\n', "\\n"), "the line BEGIN"),
        (key.trim_end().replace('\n', " "), "the line END is missing"),
        (
            key.trim_end().replace('\n', "\\n"),
            "the line END is missing",
        ),
        (key.replace("-----END", "END"), "the line END is missing"),
        (key.replace("KEY-----\n", "KEY-----\n*"), "what is between"),
        (
            key.replace("PRIVATE KEY", "SECRET"),
            "it has no private key",
        ),
        (key[..40].to_owned(), "the line END is missing"),
    ] {
        fs::write(&path, damaged).unwrap();
        let refused = certificate(&dir).err().unwrap();
        assert_hides(&refused, &key);
        let text = refused.to_string();
        assert!(text.contains(words) && text.contains("key.pem: "), "{text}");
    }
}
