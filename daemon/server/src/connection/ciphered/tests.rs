// SPDX-License-Identifier: Apache-2.0
//! Bytes through a socket that takes and gives as few as it likes.

use std::path::Path;

use bytes::Bytes;
use lodestone_auth::exchange::{Challenge, respond};
use lodestone_auth::{Fresh, Secret};
use lodestone_model::AppId;
use lodestone_store::fs::fake::FakeFs;
use lodestone_store::fs::{Fs, Open};
use lodestone_wire::Frame;

use super::*;
use crate::connection::narrow::Narrow;

fn fresh(seed: u8) -> Fresh {
    Fresh {
        private: [seed; 32],
        salt: [seed; 16],
        iv: [seed; 12],
        nonce: [seed; 30],
    }
}

/// What client and service agreed upon.
fn keys() -> (Agreed, Agreed) {
    let (app, secret) = (AppId::new("a").unwrap(), Secret::new(b"s3cret").unwrap());
    let challenge = Challenge::new(&app, &secret, &fresh(1)).unwrap();
    let (response, service) = respond(challenge.message(), &secret, &fresh(2)).unwrap();
    (challenge.accept(&response, &secret).unwrap(), service)
}

fn request(length: usize) -> Bytes {
    let body = (0..length).map(|byte| byte as u8).collect();
    let request_id = 7;
    Frame::RpcRequest { request_id, body }.to_bytes()
}

/// A cipher of Spark with a version of the exchange.
#[derive(Debug, Clone, Copy)]
enum Way {
    Counter(Version),
    Messages(Version),
}

const WAYS: [Way; 4] = [
    Way::Counter(Version::One),
    Way::Counter(Version::Two),
    Way::Messages(Version::One),
    Way::Messages(Version::Two),
];

/// The client's end.
struct Client {
    way: Way,
    keys: Agreed,
    narrow: Arc<Narrow>,
}

impl Client {
    fn encrypted(way: Way, keys: &Agreed, plain: &[u8]) -> Vec<u8> {
        match way {
            Way::Counter(version) => {
                let mut sent = plain.to_vec();
                keys.keystreams(version).of_client.apply(&mut sent);
                sent
            }
            Way::Messages(version) => {
                let (mut sealer, mut buffer) = (keys.sealer(version), vec![0; 40_000]);
                let mut messages = Vec::new();
                for part in plain.chunks(31_000) {
                    buffer[sealer.begin()..][..part.len()].copy_from_slice(part);
                    let length = sealer.seal(&mut buffer, part.len()).unwrap();
                    messages.extend_from_slice(&buffer[..length]);
                }
                messages
            }
        }
    }

    /// What has come from the service.
    fn arrived(&self) -> Vec<u8> {
        let mut came = self.narrow.outgoing.lock().unwrap().clone();
        match self.way {
            Way::Counter(version) => {
                self.keys.keystreams(version).of_service.apply(&mut came);
                came
            }
            Way::Messages(_) => {
                let (mut opener, mut plain, mut rest) = (self.keys.opener(), Vec::new(), &came[..]);
                while !rest.is_empty() {
                    let read = |mut free: &mut [u8]| {
                        let count = free.len().min(rest.len());
                        free.put_slice(&rest[..count]);
                        Ok::<_, BadMessage>(count)
                    };
                    rest = &rest[opener.fill(read).unwrap()..];
                    opener.take(&mut plain);
                }
                plain
            }
        }
    }
}

/// The service's socket, behind which these bytes wait, and the client's end.
fn socket(way: Way, plain: &[u8], seed: u64, most: u64) -> (Ciphered, Client) {
    let (keys, service) = keys();
    let sent = Client::encrypted(way, &keys, plain);
    let narrow = Arc::new(Narrow::new(&sent, seed, most));
    let socket = Ciphered::new(Arc::clone(&narrow) as _, service);
    (socket, Client { way, keys, narrow })
}

/// Sends what the socket has kept.
fn flush(socket: &Ciphered) {
    while let Err(error) = socket.try_flush() {
        assert!(is_passing(&error));
    }
}

fn is_passing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

fn read_all(socket: &Ciphered) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    loop {
        match socket.try_read(&mut (&mut read).limit(16 << 10)) {
            Ok(0) => return Ok(read),
            Err(error) if !is_passing(&error) => return Err(error),
            _ => {}
        }
    }
}

fn file(content: &[u8]) -> Part {
    let fs = FakeFs::default();
    fs.add_file(Path::new("/file"), content);
    let file = fs.open(Path::new("/file"), Open::Read).unwrap();
    let (offset, length) = (0, content.len() as u64);
    Part::File {
        file,
        offset,
        length,
    }
}

#[test]
fn requests_are_understood_in_each_way_in_whatever_pieces_they_come() {
    let plain = [request(100_000), request(3)].concat();
    for way in WAYS {
        for (seed, most) in [(1, 1), (2, 3), (3, 20), (4, 100_000)] {
            let (socket, _) = socket(way, &plain, seed, most);
            assert!(read_all(&socket).unwrap() == plain, "{way:?} {seed}");
        }
    }
}

#[test]
fn answers_arrive_whatever_the_socket_takes_at_once() {
    let answer: Vec<u8> = (0..60_000u32).map(|byte| (byte / 7) as u8).collect();
    for way in WAYS {
        for (seed, most) in [(1, 1_000), (2, 9_000), (3, 1 << 20)] {
            let (socket, client) = socket(way, &request(3), seed, most);
            read_all(&socket).unwrap();
            let mut rest = &answer[..];
            while !rest.is_empty() {
                let (one, two) = rest.split_at(rest.len() / 3);
                match socket.try_write(&[IoSlice::new(one), IoSlice::new(two)]) {
                    Ok(count) => rest = &rest[count..],
                    Err(error) => assert!(is_passing(&error)),
                }
            }
            flush(&socket);
            assert!(client.arrived() == answer, "{way:?} {seed}");
        }
    }
}

#[test]
fn chunks_of_files_and_memory_arrive_in_their_order() {
    for way in WAYS {
        chunks_arrive_in_their_order(way);
    }
}

fn chunks_arrive_in_their_order(way: Way) {
    let (first, second) = (vec![1; 100_000], vec![2; 10]);
    let (socket, client) = socket(way, &request(3), 9, 1 << 20);
    read_all(&socket).unwrap();
    let pieces = [
        Part::Memory(Bytes::from_static(b"head")),
        file(&first),
        file(&second),
        Part::Memory(Bytes::from_static(b"end")),
    ];
    let expected = [b"head", &first[..], &second, b"end"].concat();
    let mut sent = 0;
    while sent < expected.len() {
        let mut before = sent as u64;
        let rest: Vec<Part> = pieces
            .iter()
            .filter_map(|piece| {
                let skipped = before.min(piece.length());
                before -= skipped;
                (skipped < piece.length()).then(|| behind(piece, skipped))
            })
            .collect();
        match socket.try_send(&rest) {
            Ok(count) => sent += count,
            Err(error) => assert!(is_passing(&error)),
        }
    }
    flush(&socket);
    assert!(client.arrived() == expected, "{way:?}");
}

fn behind(piece: &Part, skipped: u64) -> Part {
    match piece {
        Part::Memory(bytes) => Part::Memory(bytes.slice(skipped as usize..)),
        Part::File {
            file,
            offset,
            length,
        } => Part::File {
            file: Arc::clone(file),
            offset: offset + skipped,
            length: length - skipped,
        },
    }
}

#[test]
fn a_file_that_ends_early_sends_nothing_behind_its_end() {
    let (socket, client) = socket(Way::Counter(Version::One), &request(3), 5, 1 << 20);
    read_all(&socket).unwrap();
    let Part::File { file, .. } = file(b"tw") else {
        unreachable!("it is one")
    };
    let (offset, length) = (0, 3);
    let cut = Part::File {
        file,
        offset,
        length,
    };
    let pieces = [cut.clone(), Part::Memory(Bytes::from_static(b"next"))];
    while socket
        .try_send(&pieces)
        .is_err_and(|error| is_passing(&error))
    {}
    let arrived = client.arrived();
    assert!(b"tw".starts_with(&arrived), "{arrived:?}");
    assert_eq!(socket.try_send(&[behind(&cut, 2)]).unwrap(), 0, "its end");
}

#[test]
fn a_client_that_encrypts_otherwise_learns_what_to_set() {
    let no_message = [&64u64.to_be_bytes()[..], &[0xab; 60]].concat();
    for sent in [no_message, vec![0xab; 60]] {
        let (_, service) = keys();
        let narrow = Narrow::new(&sent, 1, 100);
        let socket = Ciphered::new(Arc::new(narrow), service);
        let error = read_all(&socket).unwrap_err().to_string();
        assert!(error.contains("spark.network.crypto.cipher"), "{error}");
    }
}

#[test]
fn a_message_that_was_changed_ends_the_connection() {
    let (keys, service) = keys();
    let mut sent = Client::encrypted(Way::Messages(Version::One), &keys, &request(100));
    *sent.last_mut().unwrap() ^= 1;
    let socket = Ciphered::new(Arc::new(Narrow::new(&sent, 1, 100)), service);
    let error = read_all(&socket).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("changed on its way"), "{error}");
}

#[test]
fn what_was_decrypted_and_not_taken_can_be_read_when_the_client_sends_no_more() {
    let (plain, (keys, service)) = (request(20_000), keys());
    let sent = Client::encrypted(Way::Messages(Version::Two), &keys, &plain);
    let mut narrow = Narrow::new(&sent, 3, 1 << 20);
    narrow.is_silent = true;
    let socket = Ciphered::new(Arc::new(narrow), service);
    let mut read = Vec::new();
    while read.len() < plain.len() {
        let context = &mut Context::from_waker(std::task::Waker::noop());
        assert!(socket.poll_readable(context).is_ready());
        match socket.try_read(&mut (&mut read).limit(100)) {
            Ok(count) => assert!((1..=100).contains(&count)),
            Err(error) => assert!(is_passing(&error)),
        }
    }
    assert!(read == plain);
}

#[test]
fn nothing_is_sent_to_a_client_that_has_sent_nothing() {
    let (socket, client) = socket(Way::Counter(Version::One), &[], 1, 100);
    assert!(socket.try_write(&[IoSlice::new(b"early")]).is_err());
    assert!(client.narrow.outgoing.lock().unwrap().is_empty());
}
