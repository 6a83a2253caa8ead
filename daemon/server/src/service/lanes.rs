// SPDX-License-Identifier: Apache-2.0
//! Threads for calls of the store. Each kind of call has threads of its own, and so have the reads
//! from each disk. If calls hang in one disk, threads are left for all others.

mod threads;

use std::sync::Arc;

use lodestone_planted::{self as planted, Bug};
use lodestone_store::FOREIGN_PLACES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

pub use threads::{Delay, Delays, Threads, Work};

use super::read_threads::{Panicked, ReadThreads};

/// Calls that use memory only: hello, leases, registrations of shuffles, ends of applications.
const CONTROLS: usize = 8;

/// Calls that may wait for the lock of a partition or a map attempt: layouts, commits, openings of
/// streams of merged data.
const QUESTIONS: usize = 16;

/// Pushes, and the finalize of Spark's own push. A disk of executors that hangs has at most 64 of
/// these: 32 in pushes of Spark's own, and 32 in finalizes, of which 16 wait (`Flow` of the store).
/// If it has a data directory too, 16 more wait there.
const PUSHES: usize = 96;

/// Pushes of Spark's own to one disk of executors. Others wait before they have a thread.
const PUSHES_OF_DISK: usize = 32;

/// Aborts of map attempts, which may wait for the locks of many partitions.
const ABORTS: usize = 8;

/// Removals of blocks of executors. A disk has at most half of these threads.
const REMOVALS: usize = 8;

/// Commands of operators, which write data out and look at directories.
const OPERATORS: usize = 4;

/// Registrations of executors, which look at their directories. A disk has at most half of these.
const REGISTRATIONS: usize = 8;

/// Searches for the cause of damaged blocks of Spark's own: each reads a whole block. A disk has at
/// most half of these.
const DIAGNOSES: usize = 4;

/// Chunks in memory that another thread held up when their connection looked for them.
const CHUNKS: usize = 16;

/// Chunks on disks on their way into sockets. The data directories share these: each has one.
pub const READS: usize = 48;

/// The same for files of executors. One of their disks has at most half of these threads.
pub const FOREIGN_READS: usize = 2 * READS_OF_DISK;

/// The most for one disk: more reads at a time make no disk faster.
pub const READS_OF_DISK: usize = 24;

/// Threads that read blocks from several disks of executors for one client. If one of these disks
/// hangs, so many turns of each other one are gone, and no more.
const GATHERS: usize = READS_OF_DISK / 3;

/// Handshakes, which read the file of a secret.
const HANDSHAKES: usize = 4;

/// Threads without a lane: the store is opened, and the host's memory is looked at.
const OTHERS: usize = 2;

/// The kind of a call decides which threads carry it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Uses memory only.
    Control,
    /// May wait for a lock of the store.
    Question,
    /// Adds data, or ends that.
    Push,
    /// Takes an attempt back.
    Abort,
    /// Removes blocks of executors.
    Removal,
    /// Serves an operator.
    Operator,
    /// Looks at directories of executors.
    Registration,
    /// Reads a whole block.
    Diagnosis,
    /// Reads the secret of an application.
    Handshake,
}

/// The threads for one kind of call.
#[derive(Debug)]
pub struct Lane(Arc<Semaphore>);

/// The right to use one of those threads, until it is dropped.
pub type Turn = OwnedSemaphorePermit;

/// All lanes.
#[derive(Debug)]
pub struct Lanes {
    threads: Threads,
    control: Lane,
    questions: Lane,
    pushes: SharedLane,
    aborts: Lane,
    removals: SharedLane,
    operators: Lane,
    registrations: SharedLane,
    diagnoses: SharedLane,
    handshakes: Lane,
    chunks: Lane,
    /// By data directory.
    reads: Vec<Lane>,
    /// The threads of each of those.
    read_threads: Vec<Arc<ReadThreads>>,
    foreign_reads: SharedLane,
    gathers: Lane,
}

/// A lane of the disks of Spark's executors, of which one disk has at most a share: half, or of
/// pushes a third. So two that hang may take all of it.
#[derive(Debug)]
struct SharedLane {
    all: Lane,
    /// The share of each disk of executors, in the order of their places.
    each: Vec<Lane>,
    /// The part of each share that calls at several places may take.
    several: Vec<Lane>,
}

/// The turns of one call, until they are dropped. Most calls need one.
#[derive(Debug)]
pub struct Turns {
    _one: Option<Turn>,
    several: Vec<Turn>,
}

impl Lane {
    fn new(threads: usize) -> Self {
        Self(Arc::new(Semaphore::new(threads)))
    }

    fn try_turn(&self) -> Option<Turn> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }

    async fn turn(&self) -> Turn {
        match Arc::clone(&self.0).acquire_owned().await {
            Ok(turn) => turn,
            Err(_) => unreachable!("the semaphore is never closed"),
        }
    }
}

impl SharedLane {
    fn new(threads: usize) -> Self {
        Self::with_share(threads, threads.div_ceil(2))
    }

    fn with_share(threads: usize, share: usize) -> Self {
        let shares = |share| {
            let lanes = std::iter::repeat_with(move || Lane::new(share));
            lanes.take(FOREIGN_PLACES).collect()
        };
        Self {
            all: Lane::new(threads),
            each: shares(share),
            several: shares(share.div_ceil(3)),
        }
    }
}

impl Lanes {
    /// Lanes of a store with this many data directories.
    pub fn new(disks: usize, threads: Threads) -> Self {
        Self {
            threads,
            control: Lane::new(CONTROLS),
            questions: Lane::new(QUESTIONS),
            pushes: SharedLane::with_share(PUSHES, PUSHES_OF_DISK),
            aborts: Lane::new(ABORTS),
            removals: SharedLane::new(REMOVALS),
            operators: Lane::new(OPERATORS),
            registrations: SharedLane::new(REGISTRATIONS),
            diagnoses: SharedLane::new(DIAGNOSES),
            handshakes: Lane::new(HANDSHAKES),
            chunks: Lane::new(CHUNKS),
            reads: (0..disks)
                .map(|_| Lane::new(reads_of_each(disks)))
                .collect(),
            read_threads: (0..disks).map(|_| Arc::default()).collect(),
            foreign_reads: SharedLane::new(FOREIGN_READS),
            gathers: Lane::new(GATHERS),
        }
    }

    /// Threads that all lanes have together, at most.
    pub fn threads(disks: usize) -> usize {
        let calls = CONTROLS + QUESTIONS + PUSHES + ABORTS + REMOVALS + REGISTRATIONS + DIAGNOSES;
        let reads = disks * reads_of_each(disks) + FOREIGN_READS;
        calls + OPERATORS + HANDSHAKES + CHUNKS + reads + OTHERS
    }

    /// Carries out a call on one of the threads of its kind. The thread keeps its place in the lane
    /// also if nobody waits for the call any more.
    pub async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        self.run_at(kind, &[], call).await
    }

    /// Carries out a call like `run`, with files of executors at these places.
    pub async fn run_at<T: Send + 'static>(
        &self,
        kind: Kind,
        places: &[usize],
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turns = self.turns_for(kind, places).await;
        self.run_in(turns, kind, call).await
    }

    /// Waits for the turns of a call.
    pub async fn turns_for(&self, kind: Kind, places: &[usize]) -> Turns {
        match kind {
            Kind::Control => of_one(&self.control).await,
            Kind::Question => of_one(&self.questions).await,
            Kind::Push if places.is_empty() => of_one(&self.pushes.all).await,
            Kind::Push => self.at(places, &self.pushes).await,
            Kind::Abort => of_one(&self.aborts).await,
            Kind::Operator => of_one(&self.operators).await,
            Kind::Handshake => of_one(&self.handshakes).await,
            Kind::Removal => self.at(places, &self.removals).await,
            Kind::Registration => self.at(places, &self.registrations).await,
            Kind::Diagnosis => self.at(places, &self.diagnoses).await,
        }
    }

    /// Carries out a call that has its turns.
    pub async fn run_in<T: Send + 'static>(
        &self,
        turns: Turns,
        kind: Kind,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let call = move || {
            let _turns = turns;
            call()
        };
        let kind = match kind {
            Kind::Control if planted::is(Bug::ControlsWaitForDisks) => Kind::Registration,
            kind => kind,
        };
        self.threads.carry_out(Work::Call(kind), call).await
    }

    /// Sends chunks that are at these places, when there is a turn at each, and chunks behind them
    /// at some of the next places of executors' disks: where there are turns now. `send` gets the
    /// places.
    pub async fn read<T: Send + 'static>(
        &self,
        mut places: Vec<usize>,
        next: &[usize],
        send: impl FnOnce(&[usize]) -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let mut turns = self.reading(&places).await;
        let gather = self.gather(&mut places, &mut turns, next);
        self.send(places, (turns, gather), send).await
    }

    /// Sends chunks that are at these places, of which there are turns.
    async fn send<T: Send + 'static>(
        &self,
        places: Vec<usize>,
        turns: (Turns, Option<Turn>),
        send: impl FnOnce(&[usize]) -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let at = places.clone();
        let send = move || {
            let _turns = turns;
            send(&at)
        };
        // A thread that reads from several places may hang in any of them.
        let of_place = match (&self.threads, places.as_slice()) {
            (Threads::OfRuntime, [place]) => self.read_threads.get(*place),
            _ => None,
        };
        if let Some(threads) = of_place {
            return threads.carry_out(send).await;
        }
        let done = self.threads.carry_out(Work::Read(&places), send).await;
        done.map_err(|_| Panicked)
    }

    /// Adds turns at the next places, as far as there are any. `None` if all is at one disk, or if
    /// as many read from several disks as may.
    fn gather(&self, places: &mut Vec<usize>, turns: &mut Turns, next: &[usize]) -> Option<Turn> {
        if next.iter().all(|place| places.contains(place)) || !self.is_foreign(places) {
            return None;
        }
        let gather = self.gathers.try_turn()?;
        for place in next {
            if !places.contains(place)
                && let Some(turn) = self.share(*place, &self.foreign_reads).try_turn()
            {
                places.push(*place);
                turns.several.push(turn);
            }
        }
        Some(gather)
    }

    /// Waits for a turn at each of these places; without one, for a turn to send from memory.
    async fn reading(&self, places: &[usize]) -> Turns {
        if places.is_empty() {
            return of_one(&self.chunks).await;
        }
        let is_foreign = self.is_foreign(places);
        self.turns(places, &self.foreign_reads, is_foreign).await
    }

    fn is_foreign(&self, places: &[usize]) -> bool {
        places.iter().any(|place| *place >= self.reads.len())
    }

    /// Waits for a turn in a lane, and in the shares of these places.
    async fn at(&self, places: &[usize], lane: &SharedLane) -> Turns {
        self.turns(places, lane, true).await
    }

    /// Waits for a turn at each of these places, and maybe for one of the whole lane. Holds none
    /// while it waits for another one, whose calls may hang.
    async fn turns(&self, places: &[usize], lane: &SharedLane, of_all: bool) -> Turns {
        let needed = self.needed(places, lane, of_all);
        let mut waited: Option<(usize, Turn)> = None;
        loop {
            let mut turns = Vec::with_capacity(needed.len());
            let mut busy = None;
            for (at, lane) in needed.iter().enumerate() {
                let has_turn = waited.take_if(|(place, _)| *place == at);
                match has_turn.map(|(_, turn)| turn).or_else(|| lane.try_turn()) {
                    Some(turn) => turns.push(turn),
                    None => {
                        busy = Some((at, lane));
                        break;
                    }
                }
            }
            let Some((at, lane)) = busy else {
                return Turns {
                    _one: None,
                    several: turns,
                };
            };
            drop((turns, waited.take()));
            waited = Some((at, lane.turn().await));
        }
    }

    /// The lanes of a call at these places. A call at several of them holds turns of all while it
    /// hangs at one: so each place has only some turns for these.
    fn needed<'a>(&'a self, places: &[usize], lane: &'a SharedLane, of_all: bool) -> Vec<&'a Lane> {
        let shares = places.iter().map(|place| self.share(*place, lane));
        let mut needed: Vec<_> = shares.chain(of_all.then_some(&lane.all)).collect();
        if places.len() > 1 {
            let foreign = places
                .iter()
                .filter_map(|place| place.checked_sub(self.reads.len()));
            needed.extend(foreign.filter_map(|place| lane.several.get(place)));
        }
        needed
    }

    fn share<'a>(&'a self, place: usize, lane: &'a SharedLane) -> &'a Lane {
        let foreign = || lane.each.get(place - self.reads.len());
        match self.reads.get(place).or_else(foreign) {
            Some(share) => share,
            None => unreachable!("there is no place {place}"),
        }
    }
}

async fn of_one(lane: &Lane) -> Turns {
    Turns {
        _one: Some(lane.turn().await),
        several: Vec::new(),
    }
}

fn reads_of_each(disks: usize) -> usize {
    (READS / (disks + 1)).clamp(1, READS_OF_DISK)
}

#[cfg(test)]
mod tests;
