// SPDX-License-Identifier: Apache-2.0
//! Clients that take their answers slowly, or not at all, while others wait for the memory of
//! answers. Time passes as fast as the daemon has nothing to do.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use lodestone_model::{AppId, ReduceId};
use lodestone_server::connection::pace::WINDOW;
use lodestone_server::connection::socket::Socket;
use lodestone_server::connection::table::ConnectionTable;
use lodestone_server::connection::{self, CloseReason};
use lodestone_store::{Environment, Part};
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::fetch::SegmentLayout;
use lodestone_wire::{Frame, Message};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

use crate::support::client::ALL_MAPS;
use crate::support::inside::Inside;

/// So the memory for answers has 6 MiB. An application may have 4.5 of them, a connection 0.75.
const MEMORY: u64 = 64 << 20;

/// Partitions of a shuffle whose layouts are long. More of them would not wait for long.
const LONG: u32 = 3_500;

/// More than have room in the memory for answers of their application.
const CROWD: usize = 40;

/// Requests of one client. The memory for answers of a connection holds the answer to one of them.
const REQUESTS: i64 = 4;

/// Clients that ask for one answer each, one after the other.
const ASKING: usize = 40;

/// How a client takes its answers.
#[derive(Clone, Copy, Debug)]
enum Takes {
    All,
    Nothing,
    /// So many bytes each time that so much time has passed.
    Some(usize, Duration),
}

/// A client that has sent its requests.
#[derive(Debug)]
struct Asking {
    takes: Takes,
    requests: Mutex<BytesMut>,
    next: Mutex<Interval>,
    room: Mutex<usize>,
    taken: watch::Sender<usize>,
}

impl Asking {
    fn new(takes: Takes, requests: Bytes) -> Arc<Self> {
        let (every, room) = match takes {
            Takes::All => (WINDOW, usize::MAX),
            Takes::Nothing => (WINDOW, 0),
            Takes::Some(bytes, every) => (every, bytes),
        };
        let mut next = interval_at(Instant::now() + every, every);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Arc::new(Self {
            takes,
            requests: Mutex::new(requests.into()),
            next: Mutex::new(next),
            room: Mutex::new(room),
            taken: watch::Sender::new(0),
        })
    }

    fn take(&self, bytes: usize) -> io::Result<usize> {
        let mut room = self.room.lock().unwrap();
        let taken = bytes.min(*room);
        if taken == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        *room -= taken;
        self.taken.send_modify(|all| *all += taken);
        Ok(taken)
    }
}

impl Socket for Asking {
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.requests.lock().unwrap().is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Takes::Some(bytes, _) = self.takes else {
            return match self.takes {
                Takes::All => Poll::Ready(Ok(())),
                _ => Poll::Pending,
            };
        };
        if self.next.lock().unwrap().poll_tick(context).is_pending() {
            return Poll::Pending;
        }
        *self.room.lock().unwrap() = bytes;
        Poll::Ready(Ok(()))
    }

    fn try_read(&self, into: &mut dyn BufMut) -> io::Result<usize> {
        let mut requests = self.requests.lock().unwrap();
        let count = requests.len().min(into.remaining_mut());
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into.put_slice(&requests.split_to(count));
        Ok(count)
    }

    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.take(slices.iter().map(|slice| slice.len()).sum())
    }

    fn try_send(&self, _: &[Part]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

/// A daemon, and its connections.
struct Host {
    daemon: Inside,
    table: Arc<ConnectionTable>,
    connections: JoinSet<CloseReason>,
    stop: watch::Sender<bool>,
}

impl Host {
    fn start() -> Self {
        Self {
            daemon: Inside::with_memory(Environment::os(), MEMORY),
            table: ConnectionTable::new(200, false),
            connections: JoinSet::new(),
            stop: watch::Sender::new(false),
        }
    }

    /// Makes a shuffle of this application with long layouts, the longer the more maps there are.
    fn long_shuffle(&self, app: &str, maps: u32) -> ShuffleAddress {
        let mut key = self.daemon.key(1);
        key.shuffle.app = AppId::new(app).unwrap();
        let parts: Vec<_> = (0..LONG).map(|reduce| (reduce, &b"x"[..])).collect();
        let mut client = self.daemon.connect();
        client.register(&key, maps, LONG);
        for map in 0..maps {
            client.output(&key, map, i64::from(map), &parts);
        }
        key
    }

    /// Asks for long layouts.
    async fn ask(&mut self, key: &ShuffleAddress, times: i64, takes: Takes) -> Arc<Asking> {
        let layout = SegmentLayout {
            key: key.clone(),
            map_start: ALL_MAPS.0,
            map_end: ALL_MAPS.1,
            reduce_ids: (0..LONG).map(ReduceId).collect(),
        };
        let body = layout.to_bytes();
        let request = |request_id| {
            let body = body.clone();
            Frame::RpcRequest { request_id, body }.to_bytes()
        };
        let requests: Vec<_> = (0..times).map(request).collect();
        let client = Asking::new(takes, requests.concat().into());
        let number = self.table.taken() as u64;
        let place = self.table.enter(number).await.unwrap();
        let (socket, service) = (client.clone(), Arc::clone(&self.daemon.service));
        let stop = self.stop.subscribe();
        self.connections
            .spawn(async move { connection::run(socket, place, &service, stop).await });
        client
    }

    /// Clients that take their answers in this way.
    async fn crowd(&mut self, key: &ShuffleAddress, takes: Takes) {
        for _ in 0..CROWD {
            self.ask(key, REQUESTS, takes).await;
        }
    }

    /// How long other clients wait for an answer at the most, one after the other. Meanwhile the
    /// answers of the crowd take all memory that they may have.
    async fn longest_wait(&mut self, key: &ShuffleAddress) -> Duration {
        let mut longest = Duration::ZERO;
        for _ in 0..ASKING {
            let began = Instant::now();
            let client = self.ask(key, 1, Takes::All).await;
            let mut taken = client.taken.subscribe();
            let answer = taken.wait_for(|taken| *taken > LONG as usize);
            timeout(WINDOW * 100, answer).await.unwrap().unwrap();
            longest = longest.max(began.elapsed());
        }
        longest
    }

    /// Others wait for a slow crowd, and not for long.
    async fn keeps_others_for_a_moment(mut self, key: &ShuffleAddress) {
        let waited = self.longest_wait(key).await;
        assert!(waited > WINDOW / 2, "nobody waits: {waited:?}");
        assert!(waited < 2 * WINDOW, "{waited:?}");
        self.end();
    }

    /// Crowds of two applications, which take all of the memory. Returns a shuffle of a third one.
    async fn two_crowds(&mut self, takes: Takes) -> ShuffleAddress {
        let [one, other, third] = ["one", "other", "third"].map(|app| self.long_shuffle(app, 4));
        self.crowd(&one, takes).await;
        self.crowd(&other, takes).await;
        third
    }

    fn end(self) {
        drop(self.connections);
        self.daemon.stop();
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_read_nothing_keep_others_of_their_application_from_answers_for_a_moment() {
    let mut host = Host::start();
    let key = host.long_shuffle("one", 1);
    host.crowd(&key, Takes::Nothing).await;
    host.keeps_others_for_a_moment(&key).await;
}

#[tokio::test(start_paused = true)]
async fn clients_that_take_a_little_all_the_time_keep_others_from_answers_for_a_moment() {
    let mut host = Host::start();
    let takes = Takes::Some(64 << 10, WINDOW - Duration::from_millis(100));
    let third = host.two_crowds(takes).await;
    host.keeps_others_for_a_moment(&third).await;
}

/// A client on a slow network has all of its answers, also while others wait.
#[tokio::test(start_paused = true)]
async fn clients_that_take_their_answers_at_a_fair_speed_keep_their_connections() {
    let mut host = Host::start();
    let takes = Takes::Some(512 << 10, Duration::from_secs(2));
    let third = host.two_crowds(takes).await;
    host.longest_wait(&third).await;
    let ended = timeout(WINDOW * 10, host.connections.join_next()).await;
    assert!(ended.is_err(), "{ended:?}");
    host.end();
}
