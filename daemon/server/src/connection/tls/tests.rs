// SPDX-License-Identifier: Apache-2.0
//! Both ends of TLS, and a socket between them that takes and gives as few bytes as it likes.

use rcgen::generate_simple_self_signed;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion, version};

use super::*;
use crate::connection::narrow::Narrow;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// The service's end, the socket below it, and the client's end.
struct Ends {
    tls: Tls,
    narrow: Arc<Narrow>,
    client: ClientConnection,
    /// What the client has decrypted.
    arrived: Vec<u8>,
}

/// The settings of a service with a certificate of its own, and of a client that trusts it.
pub(super) fn configs(
    ciphers: CryptoProvider,
    versions: &[&'static SupportedProtocolVersion],
) -> (ServerConfig, ClientConfig) {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ciphers))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server, client)
}

fn ends(version: &'static SupportedProtocolVersion, seed: u64, most: u64) -> Ends {
    let (server, client) = configs(default_provider(), &[version]);
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut narrow = Narrow::new(&[], seed, most);
    narrow.is_silent = true;
    let narrow = Arc::new(narrow);
    let socket = Arc::clone(&narrow) as Arc<dyn Socket>;
    let tls = Tls::new(socket, Arc::new(server)).unwrap();
    Ends {
        tls,
        narrow,
        client,
        arrived: Vec::new(),
    }
}

fn is_passing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

/// Returns what a call has done: nothing if it is to be repeated. No other error may come.
fn passing<T: Default>(done: io::Result<T>) -> T {
    done.unwrap_or_else(|error| {
        assert!(is_passing(&error), "{error}");
        T::default()
    })
}

impl Ends {
    /// Carries what each end has sent to the other one.
    fn carry(&mut self) {
        let mut sent = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut sent).unwrap();
        }
        self.narrow
            .incoming
            .lock()
            .unwrap()
            .extend_from_slice(&sent);
        let sent = std::mem::take(&mut *self.narrow.outgoing.lock().unwrap());
        let mut sent = &sent[..];
        while !sent.is_empty() {
            self.client.read_tls(&mut sent).unwrap();
            self.client.process_new_packets().unwrap();
            passing(self.client.reader().read_to_end(&mut self.arrived));
        }
    }

    fn shake_hands(&mut self) {
        while self.client.is_handshaking() || self.tls.session().connection.is_handshaking() {
            self.carry();
            let mut session = self.tls.session();
            passing(session.send(&*self.narrow));
            passing(session.receive(&*self.narrow));
            passing(session.send(&*self.narrow));
        }
        self.carry();
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|byte| (byte / 5) as u8).collect()
}

#[test]
fn requests_arrive_in_whatever_pieces_they_come() {
    for version in VERSIONS {
        for (seed, most) in [(1, 7), (2, 1000), (3, 1 << 20)] {
            let mut ends = ends(version, seed, most);
            ends.shake_hands();
            let sent = bytes(50_000);
            let (mut rest, mut read) = (&sent[..], Vec::new());
            while read.len() < sent.len() {
                // As much as the library takes at once.
                let taken = ends.client.writer().write(rest).unwrap();
                rest = &rest[taken..];
                ends.carry();
                while !ends.narrow.incoming.lock().unwrap().is_empty()
                    || ends.tls.session().plain_left > 0
                {
                    passing(ends.tls.try_read(&mut (&mut read).limit(5000)));
                }
            }
            assert!(read == sent, "{seed}");
        }
    }
}

#[test]
fn answers_arrive_as_a_whole_after_a_flush_whatever_the_socket_takes() {
    for version in VERSIONS {
        for (seed, most) in [(1, 500), (2, 20_000), (3, 1 << 20)] {
            let mut ends = ends(version, seed, most);
            ends.shake_hands();
            let sent = bytes(200_000);
            let pieces = |from: usize| [Part::Memory(sent[from..].to_vec().into())];
            let mut from = 0;
            while from < sent.len() {
                from += passing(ends.tls.try_send(&pieces(from)));
                ends.carry();
            }
            while ends.tls.try_flush().is_err_and(|error| is_passing(&error)) {}
            ends.carry();
            assert!(ends.arrived == sent, "{seed}");
        }
    }
}

#[test]
fn a_socket_with_bytes_that_are_decrypted_is_readable() {
    let mut ends = ends(&version::TLS13, 1, 1 << 20);
    ends.shake_hands();
    ends.client.writer().write_all(&bytes(100)).unwrap();
    ends.carry();
    let mut read = Vec::new();
    while ends.tls.try_read(&mut (&mut read).limit(10)).is_err() {}
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(ends.tls.poll_readable(&mut context).is_ready());
    assert_eq!(ends.tls.session().plain_left, 90);
}

#[test]
fn a_socket_with_a_part_of_a_record_waits_for_the_rest() {
    let mut ends = ends(&version::TLS13, 1, 1 << 20);
    ends.shake_hands();
    ends.client.writer().write_all(&bytes(100)).unwrap();
    ends.carry();
    let rest = ends.narrow.incoming.lock().unwrap().split_off(50);
    let mut read = Vec::new();
    while !ends.narrow.incoming.lock().unwrap().is_empty() {
        let waits = ends.tls.try_read(&mut (&mut read).limit(1000));
        assert!(waits.is_err_and(|error| is_passing(&error)));
    }
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(ends.tls.poll_readable(&mut context).is_pending());
    ends.narrow
        .incoming
        .lock()
        .unwrap()
        .extend_from_slice(&rest);
    while ends.tls.try_read(&mut (&mut read).limit(1000)).is_err() {}
    assert!(read == bytes(100));
}

#[test]
fn changed_bytes_end_the_connection() {
    let mut ends = ends(&version::TLS13, 1, 1 << 20);
    ends.shake_hands();
    ends.client.writer().write_all(&bytes(100)).unwrap();
    ends.carry();
    let mut incoming = ends.narrow.incoming.lock().unwrap();
    let last = incoming.len() - 1;
    incoming[last] ^= 1;
    drop(incoming);
    let error = loop {
        match ends.tls.try_read(&mut (&mut Vec::new()).limit(10)) {
            Ok(count) => panic!("{count} bytes"),
            Err(error) if is_passing(&error) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}
