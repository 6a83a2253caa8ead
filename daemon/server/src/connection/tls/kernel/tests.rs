// SPDX-License-Identifier: Apache-2.0
//! Real sockets and a client of its own, on kernels with TLS and without: what arrives is the same.
//! `make conformance` runs these tests on a kernel that has it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream as StdStream};
use std::thread;

use bytes::{Bytes, BytesMut};
use lodestone_store::fs::{Fs, Open, OsFs};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, DEFAULT_VERSIONS, ServerConfig, StreamOwned, SupportedCipherSuite};
use tokio::net::TcpListener;

use super::*;
use crate::connection::socket::{is_passing, readable, writable};
use crate::connection::tls::agreed;
use crate::connection::tls::tests::configs;

type Client = StreamOwned<ClientConnection, StdStream>;

/// Suites, and whether a kernel with TLS takes them over.
const SUITES: [(SupportedCipherSuite, bool); 4] = [
    (cipher_suite::TLS13_AES_128_GCM_SHA256, true),
    (cipher_suite::TLS13_AES_256_GCM_SHA384, true),
    (cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, false),
    (cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, false),
];

/// The service's settings, and how a client begins a connection to it.
fn pair(suite: SupportedCipherSuite) -> (Arc<ServerConfig>, impl FnOnce(StdStream) -> Client) {
    let ciphers = CryptoProvider {
        cipher_suites: vec![suite],
        ..default_provider()
    };
    let (mut server, config) = configs(ciphers, DEFAULT_VERSIONS);
    server.enable_secret_extraction = kernel_tls::is_there();
    let connect = move |socket| {
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(
            ClientConnection::new(Arc::new(config), name).unwrap(),
            socket,
        )
    };
    (Arc::new(server), connect)
}

/// The service's end, and what a client's thread returns at its end.
async fn ends<T: Send + 'static>(
    suite: SupportedCipherSuite,
    client: impl FnOnce(Client) -> T + Send + 'static,
) -> (Arc<dyn Socket>, thread::JoinHandle<T>) {
    let (config, connect) = pair(suite);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let thread = thread::spawn(move || client(connect(StdStream::connect(at).unwrap())));
    let (socket, _) = listener.accept().await.unwrap();
    (agreed(socket, config).await.unwrap(), thread)
}

/// Reads until the end, or so many bytes.
async fn read(socket: &dyn Socket, most: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < most {
        readable(socket).await?;
        let mut bytes = BytesMut::with_capacity(5000);
        match socket.try_read(&mut (&mut bytes).limit(5000.min(most - all.len()))) {
            Ok(0) => break,
            Ok(_) => all.extend_from_slice(&bytes),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Sends pieces, however many calls it takes.
async fn send(socket: &dyn Socket, mut pieces: Vec<Part>) {
    while !pieces.is_empty() {
        writable(socket).await.unwrap();
        match socket.try_send(&pieces) {
            Ok(sent) => advance(&mut pieces, sent as u64),
            Err(error) => assert!(is_passing(&error), "{error}"),
        }
    }
    while socket.try_flush().is_err() {
        writable(socket).await.unwrap();
    }
}

fn advance(pieces: &mut Vec<Part>, mut sent: u64) {
    while sent > 0 {
        let taken = sent.min(pieces[0].length());
        match &mut pieces[0] {
            Part::Memory(bytes) => drop(bytes.split_to(taken as usize)),
            Part::File { offset, length, .. } => {
                *offset += taken;
                *length -= taken;
            }
        }
        sent -= taken;
        if pieces[0].length() == 0 {
            pieces.remove(0);
        }
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|byte| (byte / 5) as u8).collect()
}

/// A file of the system's, which it can send by itself.
fn file(content: &[u8]) -> Part {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(content).unwrap();
    Part::File {
        file: OsFs.open(written.path(), Open::Read).unwrap(),
        offset: 0,
        length: content.len() as u64,
    }
}

#[tokio::test]
async fn bytes_arrive_in_both_directions_whoever_makes_the_records() {
    for (suite, is_for_kernels) in SUITES {
        let request = bytes(300_000);
        let sent = request.clone();
        let (socket, client) = ends(suite, move |mut client| {
            // Its first bytes are there before the service has looked at the end of the handshake.
            client.write_all(&sent).unwrap();
            let mut answer = vec![0; 1_000_000];
            client.read_exact(&mut answer).unwrap();
            client.conn.send_close_notify();
            client.flush().unwrap();
            answer
        })
        .await;
        let is_the_kernels = format!("{socket:?}").starts_with("KernelTls");
        assert_eq!(is_the_kernels, is_for_kernels && kernel_tls::is_there());
        assert!(socket.is_encrypted());
        assert_eq!(read(&*socket, request.len()).await.unwrap(), request);
        let answer = bytes(1_000_000);
        let pieces = vec![
            Part::Memory(Bytes::copy_from_slice(&answer[..10])),
            file(&answer[10..700_000]),
            file(&answer[700_000..700_100]),
            Part::Memory(Bytes::copy_from_slice(&answer[700_100..])),
        ];
        send(&*socket, pieces).await;
        assert!(client.join().unwrap() == answer, "{suite:?}");
        assert_eq!(
            read(&*socket, 1).await.unwrap(),
            b"",
            "the client closed its side"
        );
    }
}

#[tokio::test]
async fn a_record_that_was_changed_on_its_way_ends_the_connection() {
    for (suite, _) in SUITES {
        let (socket, client) = ends(suite, |mut client| {
            client.write_all(b"right").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
            let record = [&[23, 3, 3, 0, 40][..], &[7; 40]].concat();
            client.sock.write_all(&record).unwrap();
            // Until the service closes.
            let _ = client.sock.read(&mut [0; 100]);
        })
        .await;
        assert_eq!(read(&*socket, 5).await.unwrap(), b"right");
        send(&*socket, vec![Part::Memory(Bytes::from_static(b"read"))]).await;
        let error = read(&*socket, 1).await.unwrap_err();
        assert!(!is_passing(&error), "{error}");
        drop(socket);
        client.join().unwrap();
    }
}

#[tokio::test]
async fn bytes_leave_also_if_what_follows_them_does_not_come() {
    for (suite, _) in SUITES {
        let (socket, client) = ends(suite, |mut client| {
            let mut answer = vec![0; 640];
            client.read_exact(&mut answer).unwrap();
            answer
        })
        .await;
        let piece = Part::Memory(Bytes::from_static(b"ten bytes."));
        writable(&*socket).await.unwrap();
        // One call takes 64 pieces.
        let sent = socket.try_send(&vec![piece; 65]).unwrap();
        assert!(sent >= 640);
        let _ = socket.try_flush();
        assert_eq!(
            client.join().unwrap(),
            b"ten bytes.".repeat(64),
            "{suite:?}"
        );
    }
}

#[tokio::test]
async fn a_client_that_leaves_after_its_handshake_is_not_one_that_failed_to_agree() {
    for (suite, _) in SUITES {
        for round in 0..20 {
            let (config, connect) = pair(suite);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let client = thread::spawn(move || {
                let mut client = connect(StdStream::connect(at).unwrap());
                client.conn.complete_io(&mut client.sock).unwrap();
                client.conn.send_close_notify();
                client.conn.complete_io(&mut client.sock).unwrap();
                if round % 2 == 0 {
                    client.sock.shutdown(Shutdown::Write).unwrap();
                }
            });
            let (socket, _) = listener.accept().await.unwrap();
            if round < 10 {
                // It has left before the service reads its last message.
                tokio::task::yield_now().await;
            }
            match agreed(socket, config).await {
                Ok(socket) => assert_eq!(read(&*socket, 1).await.unwrap_or_default(), b""),
                Err(error) => assert_matches_client(&error),
            }
            client.join().unwrap();
        }
    }
}

/// The kinds that count as the client's doing.
fn assert_matches_client(error: &io::Error) {
    let kinds = [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::NotConnected,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::BrokenPipe,
    ];
    assert!(kinds.contains(&error.kind()), "{error}");
}

#[tokio::test]
async fn a_connection_ends_before_its_keys_have_had_too_many_records() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    // The count is this process's: the kernel has no part in it.
    let socket = KernelTls::over(Arc::new(socket));
    let answer = [IoSlice::new(b"answer")];
    writable(&socket).await.unwrap();
    client.write_all(b"request").unwrap();
    assert_eq!(read(&socket, 7).await.unwrap(), b"request");
    assert_eq!(socket.try_write(&answer).unwrap(), 6);
    socket.records.store(RECORDS_ENOUGH, Relaxed);
    client.write_all(b"request").unwrap();
    assert_eq!(
        read(&socket, 7).await.unwrap(),
        b"",
        "it reads no further request"
    );
    assert_eq!(socket.try_write(&answer).unwrap(), 6, "answers are sent");
    socket.records.store(RECORDS_MAX, Relaxed);
    let error = socket.try_write(&answer).unwrap_err();
    assert!(error.to_string().contains("no new keys"), "{error}");
}
