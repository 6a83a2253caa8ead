// SPDX-License-Identifier: Apache-2.0
//! Clients that have stopped with open streams. Spark's client and the plugin ask for all chunks of
//! a stream as soon as they have its answer. A client that does not has failed, or stands still,
//! and the lists of its streams keep others from theirs. One that goes on after all opens its
//! streams again, on another connection.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{ConnectionTable, Entry};
use crate::service::clock;

/// How often somebody that waits looks for clients that have stopped: a reader of the plugin waits
/// for 2 s.
const LOOK: Duration = Duration::from_millis(500);

/// However many wait, the table is not looked through more often.
const LEAST_LOOK: Duration = Duration::from_millis(50);

/// After a longer time the last look says nothing: perhaps the daemon stood still, and has not read
/// what came.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Look {
    at: Option<Instant>,
    /// The connections whose clients had stopped.
    stopped: BTreeSet<u64>,
}

impl ConnectionTable {
    /// Ends connections whose clients have stopped with open streams, for somebody that waits for
    /// the memory of their lists.
    pub(crate) async fn end_stopped_readers(&self) -> Infallible {
        loop {
            self.look_for_stopped_readers();
            sleep(LOOK).await;
        }
    }

    /// Ends all of them, since no honest client is among them but one that stands still. Each has
    /// stopped at the last look too: the daemon has had time to read what had come.
    fn look_for_stopped_readers(&self) {
        let mut last = self
            .last_look
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        let since = last.at.map_or(Duration::MAX, |at| now - at);
        if since < LEAST_LOOK {
            return;
        }
        let mut open = self.open();
        let stopped = open.iter().filter(|(_, entry)| entry.has_stopped());
        let stopped: BTreeSet<u64> = stopped.map(|(&number, _)| number).collect();
        let again = stopped.intersection(&last.stopped);
        for number in again.filter(|_| since <= LAST_LOOK) {
            if let Some(entry) = self.removed(&mut open, *number) {
                entry.frees_lists.notify_one();
            }
        }
        let at = Some(now);
        *last = Look { at, stopped };
    }
}

impl Entry {
    /// The client has open streams for whose memory others wait, has all answers to its requests,
    /// and has sent nothing for long.
    fn has_stopped(&self) -> bool {
        let is_wanted = self.lists.get().is_some_and(|lists| lists.is_wanted());
        is_wanted && self.is_idle() && self.is_quiet()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lodestone_model::AppId;
    use tokio::time::{advance, timeout};

    use super::super::{Place, QUIET};
    use super::*;
    use crate::service::pool::Reserved;
    use crate::service::shared_pool::SharedPool;

    const BYTES: u64 = 64 << 10;

    /// A connection that has half of this memory.
    async fn holding(
        table: &Arc<ConnectionTable>,
        number: u64,
        lists: &SharedPool,
    ) -> (Place, Vec<Reserved>) {
        let (place, share) = (
            table.enter(number).await.unwrap(),
            lists.connection_share(2),
        );
        place.holds_lists_of(share.clone());
        let app = AppId::new(&format!("app-{number}")).unwrap();
        let reserved = lists.reserve(&app, share.wanted(), BYTES / 2).await;
        let held = share.count(lists, Some(&app), BYTES / 2, reserved);
        (place, held)
    }

    /// Looks, while one more connection waits for memory.
    async fn while_a_third_waits(lists: &SharedPool, looks: impl Future<Output = ()>) {
        let share = lists.connection_share(2);
        let app = AppId::new("third").unwrap();
        tokio::select! {
            biased;
            reserved = lists.reserve(&app, share.wanted(), 1) => panic!("{reserved:?}"),
            () = looks => {}
        }
    }

    async fn ends(place: &Place) -> bool {
        let ends = timeout(Duration::ZERO, place.entry.frees_lists.notified());
        ends.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stopped_counts_as_such_only_when_the_daemon_has_read_what_it_sent() {
        let (table, lists) = (ConnectionTable::new(9, true), SharedPool::new(BYTES));
        let (first, _memory) = holding(&table, 1, &lists).await;
        advance(LOOK).await;
        let (second, _other_memory) = holding(&table, 2, &lists).await;
        advance(QUIET).await;
        let looks = async {
            table.look_for_stopped_readers();
            assert!(!ends(&first).await, "the first look");
            // The daemon stands still.
            advance(LAST_LOOK * 2).await;
            table.look_for_stopped_readers();
            assert!(!ends(&first).await, "the first look after that");
            table.look_for_stopped_readers();
            assert!(!ends(&first).await, "no time passed");
            advance(LOOK).await;
            table.look_for_stopped_readers();
            assert!(ends(&first).await);
            assert!(ends(&second).await);
        };
        while_a_third_waits(&lists, looks).await;
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_of_clients_that_are_ended_because_they_stopped_stay_in_the_sums() {
        let (table, lists) = (ConnectionTable::new(9, true), SharedPool::new(BYTES));
        let (first, _memory) = holding(&table, 1, &lists).await;
        let (second, _other_memory) = holding(&table, 2, &lists).await;
        let app = AppId::new("app").unwrap();
        for place in [&first, &second] {
            place.entry.client.is_of(&app);
            place.entry.sent(100);
            place.entry.took(2_000);
        }
        let sums = || {
            let traffic = table.clients().traffic.into_iter();
            let each = traffic.map(|(_, sum)| (sum.received_bytes, sum.sent_bytes));
            each.collect::<Vec<_>>()
        };
        assert_eq!(sums(), [(200, 4_000)]);
        let looks = async {
            advance(QUIET).await;
            table.look_for_stopped_readers();
            advance(LOOK).await;
            table.look_for_stopped_readers();
            assert!(ends(&first).await);
        };
        while_a_third_waits(&lists, looks).await;
        assert_eq!(table.taken(), 0);
        assert_eq!(sums(), [(200, 4_000)]);
        drop((first, second));
        assert_eq!(sums(), [(200, 4_000)]);
    }
}
