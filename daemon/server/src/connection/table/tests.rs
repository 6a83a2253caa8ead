// SPDX-License-Identifier: Apache-2.0
//! Which connection makes way for another one.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use bytes::BufMut;
use lodestone_model::AppId;
use lodestone_store::Part;
use tokio::time::{Interval, advance, interval};

use super::super::answer_wait::AnswerWait;
use super::super::socket::readable;
use super::*;

/// The socket of a client that moves so many bytes now and then.
#[derive(Debug)]
struct Trickle(usize, Mutex<Interval>);

impl Trickle {
    fn new(bytes: usize) -> Arc<Self> {
        let period = QUIET - Duration::from_secs(1);
        Arc::new(Self(bytes, Mutex::new(interval(period))))
    }
}

impl Socket for Trickle {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_writable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.1.lock().unwrap().poll_tick(context).map(|_| Ok(()))
    }

    fn try_read(&self, _: &mut dyn BufMut) -> io::Result<usize> {
        Ok(self.0)
    }

    fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(self.0)
    }

    fn try_send(&self, _: &[Part]) -> io::Result<usize> {
        self.try_write(&[])
    }
}

/// Places with a request in work each.
async fn in_work(table: &Arc<ConnectionTable>) -> [(Place, OwnedSemaphorePermit); 2] {
    let places = [table.enter(0).await.unwrap(), table.enter(1).await.unwrap()];
    places.map(|place| {
        let permits = Arc::clone(&place.entry.permits);
        (place, permits.try_acquire_owned().unwrap())
    })
}

#[tokio::test(start_paused = true)]
async fn a_connection_in_use_makes_way_when_it_waits_and_no_byte_moves() {
    let table = ConnectionTable::new(2, true);
    let [(slow, _permit), (well, _other)] = in_work(&table).await;
    slow.entry.waits.store(1, Relaxed);
    assert!(table.enter(2).await.is_none(), "not for long enough");
    advance(QUIET).await;
    well.entry.waits.store(1, Relaxed);
    well.entry.bytes_moved();
    let entry = Arc::clone(&slow.entry);
    let (entered, ()) = tokio::join!(table.enter(3), async {
        entry.makes_way.notified().await;
        drop(slow);
    });
    assert!(entered.is_some());
    assert!(table.enter(4).await.is_none(), "the other one moves bytes");
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_request_is_carried_out_does_not_make_way() {
    let table = ConnectionTable::new(2, true);
    let [_one, _other] = in_work(&table).await;
    advance(QUIET * 10).await;
    assert!(table.enter(2).await.is_none());
}

/// A new connection tries for half a minute.
async fn enters_in_time(table: &Arc<ConnectionTable>, number: u64) -> Option<Place> {
    for _ in 0..30 {
        advance(Duration::from_secs(1)).await;
        if let Some(place) = table.enter(number).await {
            return Some(place);
        }
    }
    None
}

/// Sends an answer without end.
async fn send(socket: &Watched) {
    let mut answer_wait = AnswerWait::without_others();
    loop {
        answer_wait.writable(socket).await.unwrap();
        socket.try_write(&[]).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_a_few_bytes_of_an_answer_now_and_then_keeps_nobody_out() {
    let table = ConnectionTable::new(2, true);
    let [(slow, _permit), (well, _other)] = in_work(&table).await;
    let few = slow.watched(Trickle::new(100));
    let many = well.watched(Trickle::new(1 << 20));
    let entry = Arc::clone(&slow.entry);
    let trickles = async move {
        tokio::select! {
            () = send(&few) => {}
            () = entry.makes_way.notified() => drop(slow),
        }
        std::future::pending().await
    };
    let entered = enters_in_time(&table, 2);
    tokio::select! {
        entered = entered => assert!(entered.is_some(), "no place for another client"),
        () = trickles => {}
        () = send(&many) => {}
        () = well.entry.makes_way.notified() => panic!("this one takes its answers"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_makes_way_before_any_that_is_in_use() {
    let table = ConnectionTable::new(2, true);
    let [(slow, _permit), (idle, permit)] = in_work(&table).await;
    drop(permit);
    slow.entry.waits.store(1, Relaxed);
    advance(QUIET * 2).await;
    idle.entry.bytes_moved();
    let entry = Arc::clone(&idle.entry);
    let (entered, ()) = tokio::join!(table.enter(2), async {
        tokio::select! {
            () = entry.makes_way.notified() => drop(idle),
            () = slow.entry.makes_way.notified() => panic!("this one is in use"),
        }
    });
    assert!(entered.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_few_bytes_of_a_request_now_and_then_keeps_nobody_out() {
    let table = ConnectionTable::new(1, true);
    let place = table.enter(0).await.unwrap();
    let _permit = Arc::clone(&place.entry.permits).try_acquire_owned();
    let socket = place.watched(Trickle::new(100));
    let entry = Arc::clone(&place.entry);
    let request = async {
        loop {
            socket.wait_to_read(readable(&*socket)).await.unwrap();
            socket.try_read(&mut Vec::new()).unwrap();
        }
    };
    let entered = enters_in_time(&table, 1);
    tokio::select! {
        entered = entered => assert!(entered.is_some(), "no place for another client"),
        () = async {
            tokio::select! {
                () = request => {}
                () = entry.makes_way.notified() => {}
            }
            drop(place);
            std::future::pending().await
        } => {}
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_which_application_moves_how_much_and_which_client_is_slow() {
    let table = ConnectionTable::new(3, true);
    let [(slow, _permit), (well, _other)] = in_work(&table).await;
    let unknown = table.enter(2).await.unwrap();
    for place in [&slow, &well] {
        place.entry.client.is_at("10.0.0.1:4711".parse().unwrap());
        place.entry.client.is_of(&AppId::new("app-1").unwrap());
    }
    unknown.entry.client.is_at("10.0.0.2:4712".parse().unwrap());
    let socket = well.watched(Trickle::new(100));
    socket.try_read(&mut Vec::new()).unwrap();
    socket.try_write(&[]).unwrap();
    let trickle = slow.watched(Trickle::new(1));
    let takes = trickle.wait_to_send(std::future::pending::<()>());
    let clients = tokio::select! {
        biased;
        () = takes => unreachable!("it takes nothing"),
        clients = async {
            advance(Duration::from_millis(1500)).await;
            table.clients()
        } => clients,
    };
    let seen: Vec<_> = clients
        .traffic
        .iter()
        .map(|(whose, sum)| {
            let host = whose.host.unwrap().to_string();
            (
                whose.application.as_deref(),
                host,
                sum.connections,
                sum.received_bytes,
                sum.sent_bytes,
            )
        })
        .collect();
    let first = (Some("app-1"), "10.0.0.1".to_owned(), 2, 100, 100);
    assert_eq!(seen, [first, (None, "10.0.0.2".to_owned(), 1, 0, 0)]);
    let [client] = clients.slow.as_slice() else {
        panic!("{:?}", clients.slow)
    };
    assert_eq!(client.whose.application.as_deref(), Some("app-1"));
    assert!(client.is_taking && client.waited_ms >= 1500, "{client:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_has_moved_neither_falls_nor_changes_its_name_when_connections_end() {
    let table = ConnectionTable::new(3, true);
    let sums = || {
        let clients = table.clients().traffic.into_iter();
        let each = clients.map(|(whose, sum)| (whose.application, sum.connections, sum.sent_bytes));
        let mut each: Vec<_> = each.collect();
        each.sort();
        each
    };
    let named = |connections, bytes| (Some("app-1".to_owned()), connections, bytes);
    let place = table.enter(0).await.unwrap();
    place.entry.took(7);
    assert_eq!(sums(), [(None, 1, 7)]);
    place.entry.client.is_of(&AppId::new("app-1").unwrap());
    place.entry.took(30);
    assert_eq!(sums(), [(None, 0, 7), named(1, 30)]);
    drop(place);
    assert_eq!(sums(), [(None, 0, 7), named(0, 30)]);
    let next = table.enter(1).await.unwrap();
    next.entry.client.is_of(&AppId::new("app-1").unwrap());
    next.entry.took(2);
    assert_eq!(sums(), [(None, 0, 7), named(1, 32)]);
    assert_eq!(table.clients().count, 2);
}
