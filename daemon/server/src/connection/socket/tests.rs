// SPDX-License-Identifier: Apache-2.0
//! What the system's sockets say about their readiness, on two ends of one connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream as StdStream};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::net::sockopt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;

/// The system wakes a task within milliseconds. Without this a test of a wait would never end.
const LONGEST: Duration = Duration::from_secs(20);

/// The daemon's end, and the client's, which blocks.
async fn ends() -> (TcpStream, StdStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (server, client)
}

async fn wait_to_read(server: &TcpStream) {
    let waited = timeout(LONGEST, readable(server)).await;
    assert!(waited.is_ok(), "bytes that came wait for ever");
}

async fn wait_to_write(server: &TcpStream) {
    let waited = timeout(LONGEST, writable(server)).await;
    assert!(waited.is_ok(), "an answer waits for ever");
}

/// Reads with room for so many bytes, after a wait if there is nothing.
async fn read(server: &TcpStream, room: usize) -> io::Result<Vec<u8>> {
    loop {
        wait_to_read(server).await;
        let mut bytes = BytesMut::with_capacity(room);
        match Socket::try_read(server, &mut (&mut bytes).limit(room)) {
            Ok(count) => {
                assert_eq!(count, bytes.len());
                return Ok(bytes.to_vec());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether the next wait would end at once.
async fn is_ready(server: &TcpStream) -> bool {
    timeout(Duration::ZERO, readable(server)).await.is_ok()
}

#[tokio::test]
async fn a_request_that_came_as_a_whole_costs_no_call_that_finds_nothing() {
    let (server, mut client) = ends().await;
    client.write_all(b"request").unwrap();
    assert_eq!(read(&server, 100).await.unwrap(), b"request");
    assert!(!is_ready(&server).await, "it would be asked again");
}

#[tokio::test]
async fn a_large_push_is_read_on_without_a_wait_after_each_few_bytes() {
    let (server, mut client) = ends().await;
    client.write_all(&[7; 100]).unwrap();
    assert_eq!(read(&server, 1 << 20).await.unwrap(), [7; 100]);
    assert!(is_ready(&server).await, "it waits for more");
}

#[tokio::test]
async fn bytes_beyond_the_room_of_a_read_are_read_without_a_wait() {
    let (server, mut client) = ends().await;
    client.write_all(&[7; 100]).unwrap();
    // All of them are here: nothing more comes that would end a wait.
    while server.peek(&mut [0; 200]).await.unwrap() < 100 {}
    for read_before in [0, 20, 40, 60, 80] {
        let is_ready = is_ready(&server).await;
        assert!(is_ready, "it waits after {read_before} bytes");
        assert_eq!(read(&server, 20).await.unwrap(), [7; 20]);
    }
}

#[tokio::test]
async fn no_byte_is_lost_that_comes_between_a_short_read_and_the_wait_for_more() {
    let (server, mut client) = ends().await;
    for round in 0..200_u8 {
        client.write_all(&[round]).unwrap();
        assert_eq!(read(&server, 100).await.unwrap(), [round]);
        client.write_all(&[round; 3]).unwrap();
        let mut came = Vec::new();
        while came.len() < 3 {
            came.extend(read(&server, 100).await.unwrap());
        }
        assert_eq!(came, [round; 3]);
    }
}

#[tokio::test]
async fn the_end_of_a_client_is_seen_that_comes_with_its_last_bytes_or_after_them() {
    for comes_later in [false, true] {
        let (server, mut client) = ends().await;
        client.write_all(b"last").unwrap();
        if !comes_later {
            client.shutdown(Shutdown::Write).unwrap();
        }
        assert_eq!(read(&server, 100).await.unwrap(), b"last");
        if comes_later {
            client.shutdown(Shutdown::Write).unwrap();
        }
        let end = read(&server, 100).await.unwrap();
        assert!(end.is_empty(), "{end:?}");
    }
}

#[tokio::test]
async fn a_client_that_breaks_off_is_seen_after_a_short_read() {
    let (server, mut client) = ends().await;
    client.write_all(b"last").unwrap();
    assert_eq!(read(&server, 100).await.unwrap(), b"last");
    reset(client);
    let kind = read(&server, 100).await.unwrap_err().kind();
    assert_eq!(kind, ErrorKind::ConnectionReset);
}

/// Ends the connection as a process does that is killed with bytes that it has not read.
fn reset(client: StdStream) {
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
}

/// Sends until the socket is full, and returns how many bytes that takes.
fn fill(server: &TcpStream) -> usize {
    let pieces = [Part::Memory(Bytes::from(vec![7; 1 << 20]))];
    let mut all = 0;
    loop {
        match server.try_send(&pieces) {
            Ok(sent) => all += sent,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return all;
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_fills_the_socket_goes_on_when_the_client_takes_it() {
    let (server, client) = ends().await;
    wait_to_write(&server).await;
    let mut sent = fill(&server);
    let reading = thread::spawn(move || {
        let mut all = Vec::new();
        (&client).read_to_end(&mut all).unwrap();
        all.len()
    });
    // Each round fills the socket again while the client empties it.
    for _ in 0..20 {
        wait_to_write(&server).await;
        sent += fill(&server);
    }
    drop(server);
    assert_eq!(reading.join().unwrap(), sent);
}

#[tokio::test]
async fn a_client_that_breaks_off_is_seen_while_the_socket_is_full() {
    let (server, client) = ends().await;
    wait_to_write(&server).await;
    fill(&server);
    reset(client);
    let pieces = [Part::Memory(Bytes::from_static(b"more"))];
    let error = loop {
        wait_to_write(&server).await;
        match server.try_send(&pieces) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => break error,
            _ => {}
        }
    };
    let is_end = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind());
    assert!(is_end, "{error}");
}

#[tokio::test]
async fn a_full_socket_costs_no_call_that_sends_nothing() {
    let (server, _client) = ends().await;
    let pieces = [Part::Memory(Bytes::from(vec![7; 64 << 20]))];
    wait_to_write(&server).await;
    let sent = server.try_send(&pieces).unwrap();
    assert!(sent < 64 << 20, "no socket holds all of it");
    let waited = timeout(Duration::ZERO, writable(&server)).await;
    assert!(waited.is_err(), "it would be asked again");
}
