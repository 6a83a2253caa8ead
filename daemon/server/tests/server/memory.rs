// SPDX-License-Identifier: Apache-2.0
//! Memory that clients can make the daemon take with requests: all of it is in its budget, but for
//! a little for each connection.

use std::io::{self, IoSlice, Write};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use lodestone_model::{AppId, Code, ReduceId};
use lodestone_server::connection;
use lodestone_server::connection::pace::WINDOW;
use lodestone_server::connection::socket::Socket;
use lodestone_server::connection::table::ConnectionTable;
use lodestone_store::{Environment, Part};
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::spark::originals::OpenBlocks;
use lodestone_wire::{Frame, Message};
use tokio::sync::watch;

use crate::support::client::{ALL_MAPS, app, batch, key};
use crate::support::inside::Inside;
use crate::support::{Client, Daemon};

const MIB: u64 = 1 << 20;

/// A client waits so long for a daemon that reads no more.
const MOMENT: Duration = Duration::from_millis(100);

/// Sends as much as the daemon takes.
fn send_some(client: &mut Client, bytes: &[u8]) {
    client.socket.set_write_timeout(Some(MOMENT)).unwrap();
    // The daemon reads no more when it has no memory.
    let _ = client.socket.write_all(bytes);
}

fn request(request_id: i64, message: &impl Message) -> Bytes {
    let body = message.to_bytes();
    Frame::RpcRequest { request_id, body }.to_bytes()
}

#[test]
fn requests_that_wait_for_the_memory_of_their_answers_are_in_the_budget() {
    const PARTITIONS: u32 = 15_000;
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let (mut honest, key) = (Client::connect(&daemon), key(&daemon, 1));
    let mut other = key.clone();
    other.shuffle.app = AppId::new("application_other").unwrap();
    for key in [&key, &other] {
        honest.register(key, 1, PARTITIONS);
        honest.output(key, 0, 1, &[(0, b"a block")]);
    }
    // Each is a frame of 60 KiB, and its answer takes more than a sixth of all memory for answers.
    let layout = SegmentLayout {
        key,
        map_start: ALL_MAPS.0,
        map_end: ALL_MAPS.1,
        reduce_ids: (0..PARTITIONS).map(ReduceId).collect(),
    };
    let asked: Vec<_> = (0..64).map(|id| request(id, &layout)).collect();
    let before = daemon.resident_bytes();
    let crowd = (0..50).map(|_| {
        let mut client = Client::connect(&daemon);
        send_some(&mut client, &asked.concat());
        client
    });
    let crowd: Vec<_> = crowd.collect();
    let shown = honest.layout(&other, ALL_MAPS, &[0]);
    assert_eq!(shown.partitions[0].code, Code::Ok, "of another application");
    let taken = daemon.peak_bytes().saturating_sub(before);
    assert!(taken < 48 * MIB, "{taken} bytes");
    drop(crowd);
}

#[test]
fn lists_of_pushes_whose_bodies_do_not_come_are_in_the_budget_and_make_way() {
    const SEGMENTS: usize = 65_536;
    let daemon = Daemon::start(&["--memory", "64MiB"]);
    let (mut honest, key) = (Client::connect(&daemon), key(&daemon, 1));
    honest.register(&key, 2, SEGMENTS as u32);
    let parts: Vec<_> = (0..SEGMENTS as u32).map(|at| (at, &b"x"[..])).collect();
    let (meta, body) = batch(&key, 0, 1, &parts);
    let fewer = &parts[..5_000];
    let announced = Frame::UploadStream {
        request_id: 1,
        meta: meta.to_bytes(),
        body_bytes: body.len() as u64,
    };
    let announced = announced.to_bytes();
    let before = daemon.resident_bytes();
    let crowd = (0..60).map(|_| {
        let mut client = Client::connect(&daemon);
        send_some(&mut client, &announced);
        client
    });
    let crowd: Vec<_> = crowd.collect();
    let began = Instant::now();
    let codes = honest.push(&key, 1, 1, fewer);
    assert!(codes.iter().all(|code| *code == Code::Ok));
    assert!(began.elapsed() < WINDOW, "{:?}", began.elapsed());
    let taken = daemon.peak_bytes().saturating_sub(before);
    assert!(taken < 48 * MIB, "{taken} bytes");
    drop(crowd);
}

#[test]
fn a_request_with_too_many_names_is_refused_before_they_become_values() {
    let daemon = Daemon::start(&["--memory", "16MiB"]);
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(&daemon)).collect();
    let before = daemon.resident_bytes();
    // Four bytes each in the request, and six times as much as a value.
    let named = OpenBlocks {
        app: app(),
        exec_id: "1".to_owned(),
        block_ids: vec![String::new(); 2_000_000],
    };
    let frame = request(1, &named);
    let ask = |client: &mut Client| {
        client.socket.write_all(&frame).unwrap();
        client.failure_of(1)
    };
    let refused: Vec<String> = std::thread::scope(|scope| {
        let clients = clients.iter_mut();
        let asking: Vec<_> = clients.map(|client| scope.spawn(|| ask(client))).collect();
        let answers = asking.into_iter().map(|asked| asked.join().unwrap());
        answers.collect()
    });
    let is_early = |text: &String| text.contains("ask in parts");
    assert!(refused.iter().all(is_early), "{refused:?}");
    let taken = daemon.peak_bytes().saturating_sub(before);
    assert!(taken < 32 * MIB, "{taken} bytes");
}

/// A client that sends a request in parts, and ends when one byte of it is missing.
#[derive(Debug)]
struct Slow {
    request: Bytes,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    bytes: usize,
    /// How much the daemon would have read if it had been there.
    most: usize,
}

impl Socket for Slow {
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        let mut read = self.read.lock().unwrap();
        let room = into.chunk_mut().len();
        read.most = read.most.max(read.bytes + room);
        let rest = &self.request[read.bytes..self.request.len() - 1];
        let count = room.min(rest.len()).min(10_000);
        into.put_slice(&rest[..count]);
        read.bytes += count;
        Ok(count)
    }

    fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn try_send(&self, _: &[Part]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Otherwise its buffer grows to twice its size when the last bytes are to come.
#[tokio::test]
async fn a_large_request_takes_no_more_than_the_memory_that_is_reserved_for_it() {
    let daemon = Inside::start(Environment::os());
    let frame = Frame::RpcRequest {
        request_id: 1,
        body: vec![0; 200_000].into(),
    };
    let client = Arc::new(Slow {
        request: frame.to_bytes(),
        read: Mutex::default(),
    });
    let place = ConnectionTable::new(1, false).enter(1).await.unwrap();
    let (_sender, stop) = watch::channel(false);
    let socket: Arc<dyn Socket> = client.clone();
    let reason = connection::run(socket, place, &daemon.service, stop).await;
    let all = client.request.len();
    {
        let read = client.read.lock().unwrap();
        assert_eq!(read.bytes, all - 1, "{reason}");
        assert!(read.most <= all, "{} bytes for {all}", read.most);
    }
    daemon.stop();
}
