// SPDX-License-Identifier: Apache-2.0
//! Threads for calls of the store. Each kind of call has threads of its own, and so have the reads
//! from each disk. If calls hang in one disk, threads are left for all others.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use lodestone_planted::{self as planted, Bug};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn, spawn_blocking};

/// Calls that use memory only: hello, leases, registrations of shuffles, ends of applications.
const CONTROLS: usize = 8;

/// Calls that may wait for the lock of a partition or a map attempt: layouts, commits, openings of
/// streams of merged data.
const QUESTIONS: usize = 16;

/// Pushes, and the finalize of Spark's own push. At most half of these threads write to one disk or
/// wait to (`Flow` of the store).
const PUSHES: usize = 64;

/// Removals of blocks and of aborted attempts.
const REMOVALS: usize = 8;

/// Commands of operators, which write data out and look at directories.
const OPERATORS: usize = 4;

/// Registrations of executors: these look at the directories that they name.
const REGISTRATIONS: usize = 4;

/// Searches for the cause of damaged blocks of Spark's own: each reads a whole block.
const DIAGNOSES: usize = 2;

/// Chunks in memory that another thread held up when their connection looked for them.
const CHUNKS: usize = 16;

/// Chunks on disks on their way into sockets. All disks share these, and each has at least one.
pub const READS: usize = 48;

/// The most for one disk: more reads at a time make no disk faster.
pub const READS_OF_DISK: usize = 24;

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
    /// Removes data.
    Removal,
    /// Serves an operator.
    Operator,
    /// Looks at directories of executors.
    Registration,
    /// Reads a whole block.
    Diagnosis,
}

/// What a thread is to do.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// To carry out a call.
    Call(Kind),
    /// To send chunks, which are at these places; without any, from memory.
    Read(&'a [usize]),
}

/// The time until a thread has done its work. See [`Threads::Simulated`].
pub type Delay = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Decides how long threads take.
pub trait Delays: Debug + Send + Sync {
    /// How long this work takes.
    fn of(&self, work: Work<'_>) -> Delay;
}

/// The threads that carry out the calls of all lanes.
#[derive(Clone, Debug)]
pub enum Threads {
    /// Threads of the runtime for calls that may block.
    OfRuntime,
    /// The thread of the runtime itself, when a simulation says so. Until then the call has its
    /// place in the lane.
    Simulated(Arc<dyn Delays>),
}

impl Threads {
    async fn carry_out<T: Send + 'static>(
        &self,
        work: Work<'_>,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        match self {
            Self::OfRuntime => spawn_blocking(call).await,
            Self::Simulated(delays) => {
                let delay = delays.of(work);
                let done = spawn(async move {
                    delay.await;
                    call()
                });
                done.await
            }
        }
    }
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
    pushes: Lane,
    removals: Lane,
    operators: Lane,
    registrations: Lane,
    diagnoses: Lane,
    chunks: Lane,
    /// By data directory; the last one is for files of Spark's executors.
    reads: Vec<Lane>,
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

impl Lanes {
    /// Lanes of a store with this many data directories.
    pub fn new(disks: usize, threads: Threads) -> Self {
        Self {
            threads,
            control: Lane::new(CONTROLS),
            questions: Lane::new(QUESTIONS),
            pushes: Lane::new(PUSHES),
            removals: Lane::new(REMOVALS),
            operators: Lane::new(OPERATORS),
            registrations: Lane::new(REGISTRATIONS),
            diagnoses: Lane::new(DIAGNOSES),
            chunks: Lane::new(CHUNKS),
            reads: (0..=disks)
                .map(|_| Lane::new(reads_of_each(disks)))
                .collect(),
        }
    }

    /// Threads that all lanes have together, at most.
    pub fn threads(disks: usize) -> usize {
        let calls = CONTROLS + QUESTIONS + PUSHES + REMOVALS + REGISTRATIONS + DIAGNOSES;
        calls + OPERATORS + CHUNKS + (disks + 1) * reads_of_each(disks) + OTHERS
    }

    /// Carries out a call on one of the threads of its kind. The thread keeps its place in the lane
    /// also if nobody waits for the call any more.
    pub async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let lane = match kind {
            Kind::Control => &self.control,
            Kind::Question => &self.questions,
            Kind::Push => &self.pushes,
            Kind::Removal => &self.removals,
            Kind::Operator => &self.operators,
            Kind::Registration => &self.registrations,
            Kind::Diagnosis => &self.diagnoses,
        };
        let turn = lane.turn().await;
        let call = move || {
            let _turn = turn;
            call()
        };
        let kind = match kind {
            Kind::Control if planted::is(Bug::ControlsWaitForDisks) => Kind::Registration,
            kind => kind,
        };
        self.threads.carry_out(Work::Call(kind), call).await
    }

    /// Sends chunks that are at these places, when there is a turn at each.
    pub async fn read<T: Send + 'static>(
        &self,
        places: &[usize],
        send: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turns = self.reading(places).await;
        let send = move || {
            let _turns = turns;
            send()
        };
        self.threads.carry_out(Work::Read(places), send).await
    }

    /// Waits for a turn at each of these places; without one, for a turn to send from memory. Holds
    /// no turn of a place while it waits for another one, which may hang.
    async fn reading(&self, places: &[usize]) -> Vec<Turn> {
        let lanes: Vec<_> = places
            .iter()
            .filter_map(|place| self.reads.get(*place))
            .collect();
        if lanes.is_empty() {
            return vec![self.chunks.turn().await];
        }
        let mut waited: Option<(usize, Turn)> = None;
        loop {
            let mut turns = Vec::with_capacity(lanes.len());
            let mut busy = None;
            for (at, lane) in lanes.iter().enumerate() {
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
                return turns;
            };
            drop((turns, waited.take()));
            waited = Some((at, lane.turn().await));
        }
    }
}

fn reads_of_each(disks: usize) -> usize {
    (READS / (disks + 1)).clamp(1, READS_OF_DISK)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn calls_that_fill_their_lane_leave_threads_for_all_others() {
        for disks in [1, 2, 12, 1024] {
            let lanes = Lanes::new(disks, Threads::OfRuntime);
            let all = [
                &lanes.control,
                &lanes.questions,
                &lanes.pushes,
                &lanes.removals,
                &lanes.operators,
                &lanes.registrations,
                &lanes.diagnoses,
                &lanes.chunks,
            ];
            let of = |lane: &Lane| lane.0.available_permits();
            let calls: usize = all.into_iter().map(of).sum();
            let reads: usize = lanes.reads.iter().map(of).sum();
            assert_eq!(lanes.reads.len(), disks + 1);
            assert!(lanes.reads.iter().all(|lane| of(lane) > 0));
            assert_eq!(
                calls + reads + OTHERS,
                Lanes::threads(disks),
                "{disks} disks"
            );
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_place_that_hangs_holds_no_turn_of_another_one() {
        let lanes = Lanes::new(2, Threads::OfRuntime);
        let mut hanging = Vec::new();
        for _ in 0..reads_of_each(2) {
            hanging.extend(lanes.reading(&[1]).await);
        }
        let lanes = Arc::new(lanes);
        let mut waiting = JoinSet::new();
        for _ in 0..50 {
            let lanes = Arc::clone(&lanes);
            waiting.spawn(async move { lanes.reading(&[0, 1, 2]).await.len() });
        }
        // The runtime has one thread: all of them wait by now.
        tokio::task::yield_now().await;
        for _ in 0..reads_of_each(2) {
            let healthy = lanes.reading(&[0]);
            hanging.extend(timeout(Duration::from_secs(20), healthy).await.unwrap());
        }
        hanging.clear();
        assert_eq!(waiting.join_all().await, [3; 50]);
    }
}
