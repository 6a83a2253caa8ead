// SPDX-License-Identifier: Apache-2.0
//! All open connections. When there are too many, the one that is idle for longest makes way: hosts
//! that vanished leave connections behind, and each of these would keep an executor out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{IDLE_TIMEOUT, MAX_IN_WORK};

/// How long a new connection may wait for the end of an idle one.
const WAIT: Duration = Duration::from_secs(2);

/// New connections that may wait at once.
const WAITING: usize = 64;

/// Open connections, at most as many as `max-connections`.
#[derive(Debug)]
pub struct ConnectionTable {
    /// A connection without a request for this long ends.
    idle_timeout: Option<Duration>,
    places: Arc<Semaphore>,
    waiting: Semaphore,
    open: Mutex<BTreeMap<u64, Arc<Entry>>>,
    /// Counts the requests of all connections.
    uses: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The permits of requests in work. A connection that has all of them is idle.
    pub(super) permits: Arc<Semaphore>,
    /// Number of the last request.
    used: AtomicU64,
    /// Another connection needs the place.
    pub(super) makes_way: Notify,
}

/// A place in the table, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
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
            uses: AtomicU64::new(0),
        })
    }

    /// Takes a place for the connection with this number. If there is none, the idlest connection
    /// ends, and this waits for its place. `None`: all connections are in use.
    pub(crate) async fn enter(self: &Arc<Self>, number: u64) -> Option<Place> {
        let permit = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.place_of_the_idlest().await?,
        };
        let entry = Arc::new(Entry {
            permits: Arc::new(Semaphore::new(MAX_IN_WORK)),
            used: self.next_use().into(),
            makes_way: Notify::new(),
        });
        self.open().insert(number, Arc::clone(&entry));
        Some(Place {
            table: Arc::clone(self),
            number,
            entry,
            _permit: permit,
        })
    }

    async fn place_of_the_idlest(&self) -> Option<OwnedSemaphorePermit> {
        let _turn = self.waiting.try_acquire().ok()?;
        self.end_the_idlest();
        timeout(WAIT, Arc::clone(&self.places).acquire_owned())
            .await
            .ok()?
            .ok()
    }

    fn end_the_idlest(&self) {
        let mut open = self.open();
        let idle = open.iter().filter(|(_, entry)| entry.is_idle());
        let idlest = idle.min_by_key(|(_, entry)| entry.used.load(Relaxed));
        if let Some(number) = idlest.map(|(&number, _)| number)
            && let Some(entry) = open.remove(&number)
        {
            entry.makes_way.notify_one();
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Entry>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Relaxed)
    }
}

impl Entry {
    /// No request is in work.
    pub(super) fn is_idle(&self) -> bool {
        self.permits.available_permits() == MAX_IN_WORK
    }
}

impl Place {
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.table.idle_timeout
    }

    /// A request has come.
    pub(super) fn used(&self) {
        self.entry.used.store(self.table.next_use(), Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.table.open().remove(&self.number);
    }
}
