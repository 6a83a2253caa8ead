// SPDX-License-Identifier: Apache-2.0
//! The daemon behind the connections: the real one, but for its threads and its disks. Disks are
//! fakes, which hang now and then. The clock is the one of the runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lodestone_server::connection;
use lodestone_server::connection::table::ConnectionTable;
use lodestone_server::service::clock;
use lodestone_server::service::lanes::{Delay, Delays, Kind, Threads, Work};
use lodestone_server::service::{MemorySplit, Service};
use lodestone_store::{Clock, Environment, NoThreads, Reserve, SeededRandom, Store, StoreConfig};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::wire;
use crate::dice::Dice;
use crate::world::disk::Disk;

/// How often a wait looks whether it is over.
const TICK: Duration = Duration::from_millis(100);

/// The longest time that a call takes without a disk that hangs.
const SLOW_MS: usize = 200;

/// The longest wait for a lock of the store.
const LOCK_MS: usize = 5_000;

/// The most pushes that one disk holds up, which is half of their threads.
const HELD_PUSHES: u64 = 32;

const DISKS: usize = 2;

/// With so many places no connection makes way.
pub(super) const PLENTY: usize = 1_000;

/// The clock of the runtime: it passes when nothing is left to do.
#[derive(Debug)]
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now_ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    fn unix_ms(&self) -> u64 {
        1_700_000_000_000 + self.now_ms()
    }
}

/// The time that the threads take.
#[derive(Debug)]
struct SlowThreads {
    dice: Mutex<Dice>,
    hanging: watch::Receiver<Option<usize>>,
    held_pushes: Arc<AtomicU64>,
}

impl Delays for SlowThreads {
    fn of(&self, work: Work<'_>) -> Delay {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let hanging = *self.hanging.borrow();
        let ms = match work {
            // It waits for the lock of a partition that is being written.
            Work::Call(Kind::Question) if hanging.is_some() && dice.chance(20) => {
                dice.below(LOCK_MS)
            }
            _ if dice.chance(60) => 0,
            _ => dice.below(SLOW_MS),
        };
        let held = Arc::clone(&self.held_pushes);
        let hangs = match (work, hanging) {
            (_, None) => false,
            (Work::Read(places), Some(place)) => places.contains(&place),
            (Work::Call(Kind::Push), _) => dice.chance(50) && held.load(Relaxed) < HELD_PUSHES,
            (Work::Call(Kind::Abort | Kind::Removal | Kind::Registration | Kind::Diagnosis), _) => {
                dice.chance(50)
            }
            (Work::Call(_), _) => false,
        };
        let is_push = matches!(work, Work::Call(Kind::Push));
        let mut until = self.hanging.clone();
        if hangs && is_push {
            held.fetch_add(1, Relaxed);
        }
        Box::pin(async move {
            sleep(Duration::from_millis(ms as u64)).await;
            if hangs {
                // The sender lives as long as the machine.
                let _ = until.wait_for(Option::is_none).await;
                if is_push {
                    held.fetch_sub(1, Relaxed);
                }
            }
        })
    }
}

/// A daemon and all of its connections.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) service: Arc<Service>,
    /// Its disks, and those of executors.
    pub(super) disk: Disk,
    table: Arc<ConnectionTable>,
    connections: usize,
    stop: watch::Sender<bool>,
    /// The disk whose calls hang.
    hanging: watch::Sender<Option<usize>>,
    /// When a disk hung, and when the daemon stood still.
    hangs: Mutex<Vec<(Instant, Instant)>>,
    standstills: Mutex<Vec<(Instant, Instant)>>,
    ended: Mutex<BTreeMap<u64, String>>,
    /// The honest clients are done.
    is_over: AtomicBool,
    numbers: AtomicU64,
    dice: Mutex<Dice>,
}

/// The limits of a daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineSetup {
    pub(super) seed: u64,
    pub(super) connections: usize,
    pub(super) upload_bytes: u64,
    pub(super) list_bytes: u64,
    pub(super) store_bytes: u64,
}

/// How much of the time since a moment is in these periods.
fn within(begin: Instant, periods: &[(Instant, Instant)]) -> Duration {
    let end = clock::now();
    let parts = periods.iter().map(|(from, to)| {
        let (from, to) = (begin.max(*from), end.min(*to));
        to.saturating_duration_since(from)
    });
    parts.sum()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    /// Starts a daemon on disks that nobody used before.
    pub(super) fn start(setup: MachineSetup) -> Result<Arc<Self>, String> {
        let dirs: Vec<PathBuf> = (0..DISKS).map(|n| format!("/disk{n}").into()).collect();
        let disk = Disk::new(&dirs);
        let environment = Environment {
            fs: Arc::new(disk.clone()),
            clock: Arc::new(RuntimeClock(clock::now())),
            random: Arc::new(SeededRandom::new(setup.seed)),
            threads: Arc::new(NoThreads),
        };
        let config = StoreConfig {
            dirs,
            memory_bytes: setup.store_bytes,
            quota_percent: 75,
            tail_part_bytes: 16 << 10,
            hanging_bytes: setup.upload_bytes / 8,
            reserve: Reserve::Bytes(0),
            executor_roots: Vec::new(),
        };
        let store = Store::open(config, environment).map_err(|error| error.to_string())?;
        let split = MemorySplit {
            store_bytes: setup.store_bytes,
            upload_bytes: setup.upload_bytes,
            small_upload_bytes: setup.upload_bytes / 16,
            frame_bytes: setup.upload_bytes / 8,
            layout_bytes: setup.upload_bytes / 2,
            list_bytes: setup.list_bytes,
            report_bytes: setup.list_bytes,
        };
        let (hanging, hangs) = watch::channel(None);
        let threads = Threads::Simulated(Arc::new(SlowThreads {
            dice: Mutex::new(Dice::new(setup.seed ^ 1)),
            hanging: hangs,
            held_pushes: Arc::default(),
        }));
        Ok(Arc::new(Self {
            service: Service::with_threads(store, split, threads),
            disk,
            table: ConnectionTable::new(setup.connections, true),
            connections: setup.connections,
            stop: watch::Sender::new(false),
            hanging,
            hangs: Mutex::default(),
            standstills: Mutex::default(),
            ended: Mutex::default(),
            is_over: false.into(),
            numbers: AtomicU64::new(0),
            dice: Mutex::new(Dice::new(setup.seed ^ 2)),
        }))
    }

    /// Opens a connection. The number is the one of the connection at the daemon.
    pub(super) fn connect(self: &Arc<Self>) -> (u64, Client) {
        let number = self.numbers.fetch_add(1, Relaxed);
        let (client, server) = wire::connection(locked(&self.dice).bits());
        let machine = Arc::clone(self);
        machine.service.open.send_modify(|open| *open += 1);
        tokio::spawn(async move {
            let stop = machine.stop.subscribe();
            let reason = match machine.table.enter(number).await {
                Some(place) => {
                    let service = Arc::clone(&machine.service);
                    connection::run(Arc::new(server), place, &service, stop).await
                }
                None => return machine.ended(number, "TurnedAway".to_owned()),
            };
            machine.ended(number, format!("{reason:?}"));
        });
        (number, Client::new(client))
    }

    fn ended(&self, number: u64, reason: String) {
        locked(&self.ended).insert(number, reason);
        self.service.open.send_modify(|open| *open -= 1);
    }

    /// Why the daemon closed a connection.
    pub(super) fn reason(&self, number: u64) -> Option<String> {
        locked(&self.ended).get(&number).cloned()
    }

    /// Why the daemon closed connections, and how many.
    pub(super) fn reasons(&self) -> BTreeMap<String, u64> {
        let mut reasons = BTreeMap::new();
        for reason in locked(&self.ended).values() {
            let name = reason.split('(').next().unwrap_or_default().to_owned();
            *reasons.entry(name).or_default() += 1;
        }
        reasons
    }

    /// Returns true if the disk at this place hangs. Those of executors have the last number here.
    pub(super) fn hangs(&self, place: usize) -> bool {
        *self.hanging.borrow() == Some(place.min(DISKS))
    }

    /// A disk hangs for a while.
    pub(super) async fn hang(&self, place: usize, time: Duration) {
        let begin = clock::now();
        self.hanging.send_replace(Some(place));
        sleep(time).await;
        self.hanging.send_replace(None);
        locked(&self.hangs).push((begin, clock::now()));
    }

    /// The daemon, and with it its clients, stand still. Not while it stops: all limits would end
    /// at once.
    pub(super) async fn stand_still(&self, time: Duration) {
        if self.is_stopping() {
            return;
        }
        let begin = clock::now();
        locked(&self.standstills).push((begin, begin + time));
        tokio::time::advance(time).await;
    }

    /// The part of the time since a moment in which the daemon stood still.
    pub(super) fn stood_still_since(&self, begin: Instant) -> Duration {
        within(begin, &locked(&self.standstills))
    }

    /// The time since a moment, without the time when the daemon stood still.
    pub(super) fn time_since(&self, begin: Instant) -> Duration {
        begin
            .elapsed()
            .saturating_sub(self.stood_still_since(begin))
    }

    /// The time since a moment, also without the time when a disk hung.
    pub(super) fn well_time_since(&self, begin: Instant) -> Duration {
        if self.hanging.borrow().is_some() {
            return Duration::ZERO;
        }
        let hung = within(begin, &locked(&self.hangs));
        self.time_since(begin).saturating_sub(hung)
    }

    /// True if connections make way for others.
    pub(super) fn is_small(&self) -> bool {
        self.connections < PLENTY
    }

    /// The honest clients are done.
    pub(super) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed) || self.is_stopping()
    }

    /// Removes what is left of an application.
    pub(super) fn end_application(&self, name: &str) {
        // It may have ended before.
        self.service.store.end_everywhere(name);
    }

    /// Tells the connections to end.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until no connection is open.
    pub(super) async fn all_closed(&self) {
        let mut open = self.service.open.subscribe();
        // The sender is a part of this.
        let _ = open.wait_for(|open| *open == 0).await;
    }

    /// Bytes that are held, and places.
    pub(super) fn held(&self) -> [(&'static str, u64); 5] {
        let service = &self.service;
        let store = &service.store;
        [
            ("uploads", service.uploads.used_bytes()),
            ("layouts", service.layouts.used_bytes()),
            ("lists", service.lists.used_bytes()),
            ("store", store.load().memory_used - store.memory_of_names()),
            ("places", self.table.taken() as u64),
        ]
    }

    /// Waits until nothing is held.
    pub(super) async fn nothing_held(&self) {
        while self.held().iter().any(|(_, bytes)| *bytes > 0) {
            sleep(TICK).await;
        }
    }
}
