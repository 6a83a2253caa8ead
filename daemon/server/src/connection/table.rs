// SPDX-License-Identifier: Apache-2.0
//! All open connections. When there are too many, one makes way that is idle, or on which nothing
//! moves: it waits for its client, or for memory that others hold. Hosts that vanished leave such
//! connections behind, and each of them would keep an executor out. So would one whose client takes
//! its answers, or sends its requests, too slowly.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lodestone_planted::{self as planted, Bug};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::progress::Progress;
use super::socket::Socket;
use super::watched::Watched;
use super::{IDLE_TIMEOUT, MAX_IN_WORK};
use crate::service::clock;
use crate::service::connection_share::ConnectionShare;
use clients::Client;
use gone::Gone;
use stopped::Look;

pub mod clients;
mod gone;
mod stopped;

/// How long a new connection may wait for the end of another one.
const WAIT: Duration = Duration::from_secs(2);

/// A connection with requests in work makes way if it waits for its client or for memory, and no
/// byte has moved for this long.
pub(super) const QUIET: Duration = Duration::from_secs(10);

/// New connections that may wait at once.
const WAITING: usize = 64;

/// Open connections, at most as many as `max-connections`.
#[derive(Debug)]
pub struct ConnectionTable {
    /// A connection without a request for this long ends.
    idle_timeout: Option<Duration>,
    places: Arc<Semaphore>,
    waiting: Semaphore,
    open: Mutex<Open>,
    /// What connections have moved that are no longer in `open`.
    gone: Mutex<Gone>,
    /// The last look for clients that have stopped.
    last_look: Mutex<Look>,
    /// As many as are in `open`.
    connections: Arc<AtomicUsize>,
    begin: Instant,
}

type Open = BTreeMap<u64, Arc<Entry>>;

/// One connection.
#[derive(Debug)]
pub(super) struct Entry {
    /// The permits of requests in work. A connection that has all of them is idle.
    pub(super) permits: Arc<Semaphore>,
    begin: Instant,
    /// When the last byte moved, in nanoseconds.
    moved: AtomicU64,
    /// Waits for the rest of a request, until the client takes bytes of an answer, or for memory.
    waits: AtomicUsize,
    /// All that are open.
    connections: Arc<AtomicUsize>,
    /// How fast the client takes its answers.
    pub(super) taking: Progress,
    /// How fast it sends its requests.
    pub(super) sending: Progress,
    /// The client, and the bytes that it moves.
    pub(super) client: Client,
    /// It has shown that it knows a secret, or needs none.
    pub(super) is_proved: AtomicBool,
    /// Another connection needs the place.
    pub(super) makes_way: Notify,
    /// What the connection has of the memory for lists of streams.
    lists: OnceLock<ConnectionShare>,
    /// Another connection needs that memory.
    pub(super) frees_lists: Notify,
}

/// A place in the table, until it is dropped.
#[derive(Debug)]
pub struct Place {
    table: Arc<ConnectionTable>,
    pub(super) number: u64,
    pub(super) entry: Arc<Entry>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionTable {
    /// Has this many places. Without `ends_idle` a connection may be idle for any time, as long as
    /// there are places.
    pub fn new(places: usize, ends_idle: bool) -> Arc<Self> {
        Arc::new(Self {
            idle_timeout: ends_idle.then_some(IDLE_TIMEOUT),
            places: Arc::new(Semaphore::new(places)),
            waiting: Semaphore::new(WAITING),
            open: Mutex::default(),
            gone: Mutex::default(),
            last_look: Mutex::default(),
            connections: Arc::default(),
            begin: clock::now(),
        })
    }

    /// Takes a place for the connection with this number. If there is none, the quietest connection
    /// ends, and this waits for its place. `None`: no place became free in time, or too many
    /// connections wait.
    pub async fn enter(self: &Arc<Self>, number: u64) -> Option<Place> {
        let permit = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.place_of_the_quietest().await?,
        };
        let entry = Arc::new(Entry {
            permits: Arc::new(Semaphore::new(MAX_IN_WORK)),
            begin: self.begin,
            moved: 0.into(),
            is_proved: true.into(),
            waits: 0.into(),
            connections: Arc::clone(&self.connections),
            taking: Progress::default(),
            sending: Progress::default(),
            client: Client::default(),
            makes_way: Notify::new(),
            lists: OnceLock::new(),
            frees_lists: Notify::new(),
        });
        entry.bytes_moved();
        let mut open = self.open();
        open.insert(number, Arc::clone(&entry));
        self.count(&open);
        drop(open);
        Some(Place {
            table: Arc::clone(self),
            number,
            entry,
            _permit: permit,
        })
    }

    /// Places that connections have.
    pub fn taken(&self) -> usize {
        self.open().len()
    }

    async fn place_of_the_quietest(&self) -> Option<OwnedSemaphorePermit> {
        let _turn = self.waiting.try_acquire().ok()?;
        self.end_the_quietest();
        timeout(WAIT, Arc::clone(&self.places).acquire_owned())
            .await
            .ok()?
            .ok()
    }

    fn end_the_quietest(&self) {
        if planted::is(Bug::NoWayMade) {
            return;
        }
        let mut open = self.open();
        let quiet = open.iter().filter(|(_, entry)| entry.may_make_way());
        // The end of an idle one costs its client nothing. Who has not authenticated must not take
        // the places of those who have.
        let quietest = quiet.min_by_key(|(_, entry)| {
            let moved = entry.moved.load(Relaxed);
            let is_proved = entry.is_proved.load(Relaxed);
            (is_proved, !entry.is_idle(), !entry.is_slow(), moved)
        });
        if let Some(number) = quietest.map(|(&number, _)| number)
            && let Some(entry) = self.removed(&mut open, number)
        {
            entry.makes_way.notify_one();
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection out of the table. What it has moved stays known.
    fn removed(&self, open: &mut Open, number: u64) -> Option<Arc<Entry>> {
        let entry = open.remove(&number)?;
        self.gone().add(&entry.client, number);
        self.count(open);
        Some(entry)
    }

    /// After the lock of `open`, never before it.
    fn gone(&self) -> MutexGuard<'_, Gone> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, open: &Open) {
        self.connections.store(open.len(), Relaxed);
    }
}

impl Entry {
    /// No request is in work.
    pub(super) fn is_idle(&self) -> bool {
        self.permits.available_permits() == MAX_IN_WORK
    }

    fn may_make_way(&self) -> bool {
        let waits = self.waits.load(Relaxed) > 0;
        self.is_idle() || (waits && (self.is_quiet() || self.is_slow()))
    }

    /// No byte has moved for long.
    fn is_quiet(&self) -> bool {
        let moved = Duration::from_nanos(self.moved.load(Relaxed));
        self.begin.elapsed().saturating_sub(moved) >= QUIET
    }

    fn is_slow(&self) -> bool {
        self.taking.is_slow() || self.sending.is_slow()
    }

    /// The client took bytes of its answers.
    pub(super) fn took(&self, bytes: usize) {
        self.client.took(bytes);
        self.taking.moved(bytes, self.connections.load(Relaxed));
    }

    /// The client sent bytes of its requests.
    pub(super) fn sent(&self, bytes: usize) {
        self.client.gave(bytes);
        self.sending.moved(bytes, self.connections.load(Relaxed));
    }

    /// Bytes were read or written.
    pub(super) fn bytes_moved(&self) {
        let now = self.begin.elapsed().as_nanos();
        self.moved.store(now as u64, Relaxed);
    }

    /// Waits for the client or for memory.
    pub(super) async fn wait<T>(&self, awaited: impl Future<Output = T>) -> T {
        self.waits.fetch_add(1, Relaxed);
        let _end = End(&self.waits);
        awaited.await
    }
}

/// The end of a wait, also if nobody waits for it any more.
struct End<'a>(&'a AtomicUsize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Place {
    pub(super) fn table(&self) -> Arc<ConnectionTable> {
        Arc::clone(&self.table)
    }

    /// The connection counts here what it has of the memory for lists of streams.
    pub(super) fn holds_lists_of(&self, share: ConnectionShare) {
        // A connection has one share, from its beginning.
        let _ = self.entry.lists.set(share);
    }

    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.table.idle_timeout
    }

    /// The socket of this connection, watched for bytes that move.
    pub(super) fn watched(&self, socket: Arc<dyn Socket>) -> Arc<Watched> {
        let entry = Arc::clone(&self.entry);
        Arc::new(Watched::new(socket, entry))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.table.open();
        self.table.removed(&mut open, self.number);
    }
}

#[cfg(test)]
mod tests;
