// SPDX-License-Identifier: Apache-2.0
//! Memory of requests whose bytes are still coming. Those that have no room wait in a line, first
//! come, first served. Meanwhile each client that has memory must go on with its request, or lose
//! its connection: however many clients announce requests and send no more of them, the line moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lodestone_planted::{self as planted, Bug};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

use super::clock;
use super::pool::{Pool, Reserved};

/// The longest time that all those who wait need to get memory: half of the time after which a slow
/// client loses its connection in any case. See [`Line::turnover`].
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A client that sends as fast as its network is not silent for so long. A shorter time would end
/// those too.
const LEAST_TURNOVER: Duration = Duration::from_millis(20);

/// The memory, and the line of those that wait for it.
#[derive(Debug)]
pub struct Line {
    pool: Pool,
    /// The first of the line has it, and the others wait for it. Since when `wanted` knows the most
    /// that was wanted.
    first: Mutex<Instant>,
    wanted: Wanted,
    hasten: Hasten,
}

/// Tells those that have memory that others wait for it. A clone tells the same ones.
#[derive(Debug, Clone)]
pub struct Hasten(Arc<watch::Sender<Haste>>);

/// Others wait for the memory.
#[derive(Debug, Clone, Copy)]
pub struct Haste {
    /// Within this time a request has to go on.
    pub turnover: Duration,
    /// It is said again by then if they still wait.
    pub until: Instant,
}

impl Haste {
    /// Begins now.
    pub fn now(turnover: Duration) -> Self {
        let until = clock::now() + turnover;
        Self { turnover, until }
    }
}

/// Those that have memory of a line hear here that others wait for it.
pub type Hurry = watch::Receiver<Haste>;

impl Default for Hasten {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Haste::now(Duration::ZERO))))
    }
}

impl Line {
    /// A line for memory of this size.
    pub fn new(bytes: u64) -> Self {
        Self::heard_by(bytes, Hasten::default())
    }

    /// A line for memory of this size. All that hear `hasten` hear when others wait for it.
    pub(super) fn heard_by(bytes: u64, hasten: Hasten) -> Self {
        Self {
            pool: Pool::new(bytes),
            first: Mutex::new(clock::now()),
            wanted: Wanted::default(),
            hasten,
        }
    }

    /// The size of the memory.
    pub fn capacity_bytes(&self) -> u64 {
        self.pool.capacity_bytes()
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        self.pool.used_bytes()
    }

    /// A pool that has this part of its size.
    pub(crate) fn share(&self, part: u64) -> Pool {
        self.pool.share(part)
    }

    /// For a request that has got memory.
    pub(crate) fn hurry(&self) -> Hurry {
        self.hasten.0.subscribe()
    }

    /// For other lines whose waits those hear that have memory of this one.
    pub(super) fn hasten(&self) -> Hasten {
        self.hasten.clone()
    }

    /// True while somebody waits for the memory.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.now.load(Relaxed) > 0
    }

    /// True if something of the memory is reserved.
    pub(super) fn is_in_use(&self) -> bool {
        self.pool.is_in_use()
    }

    /// Takes memory that is free now, if nobody waits for it.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<Reserved> {
        match self.is_wanted() {
            true => None,
            false => self.pool.try_reserve(bytes),
        }
    }

    /// Waits for memory.
    pub(crate) async fn reserve(&self, bytes: u64) -> Reserved {
        if let Some(reserved) = self.try_reserve(bytes) {
            return reserved;
        }
        let _want = self.wanted.want(bytes.min(self.capacity_bytes()));
        let mut first = self.first.lock().await;
        let memory = self.pool.reserve(bytes);
        tokio::pin!(memory);
        loop {
            if first.elapsed() >= 2 * LONGEST_WAIT {
                // All that waited then are through.
                self.wanted.forget_most();
                *first = clock::now();
            }
            let turnover = self.turnover();
            if !planted::is(Bug::NobodyHurried) {
                self.hasten.0.send_replace(Haste::now(turnover));
            }
            if let Ok(reserved) = timeout(turnover, &mut memory).await {
                return reserved;
            }
        }
    }

    /// How long those that have memory may take to go on. All of the memory changes hands in this
    /// time, or is used. So the more is wanted, the shorter it is: the line gets through in about
    /// [`LONGEST_WAIT`], and in at most twice as long if each wants more than half of the memory.
    fn turnover(&self) -> Duration {
        // In steps of a KiB, of which an `f64` counts any number.
        let kib = |bytes: u64| (bytes >> 10).max(1) as f64;
        let wanted = kib(self.wanted.most.load(Relaxed));
        let all = kib(self.capacity_bytes());
        let turnover = LONGEST_WAIT.mul_f64(all / (all + wanted));
        turnover.max(LEAST_TURNOVER)
    }
}

/// Bytes that all of the line want.
#[derive(Debug, Default)]
struct Wanted {
    now: AtomicU64,
    /// The most of the last while: those that came when the line was long are in time, too.
    most: AtomicU64,
}

/// Bytes that are wanted, until this is dropped: also if nobody waits for them any more.
struct Want<'a> {
    of: &'a Wanted,
    bytes: u64,
}

impl Wanted {
    fn want(&self, bytes: u64) -> Want<'_> {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.most.fetch_max(now, Relaxed);
        Want { of: self, bytes }
    }

    fn forget_most(&self) {
        self.most.store(self.now.load(Relaxed), Relaxed);
    }
}

impl Drop for Want<'_> {
    fn drop(&mut self) {
        if self.of.now.fetch_sub(self.bytes, Relaxed) == self.bytes {
            self.of.most.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Takes all of the memory, and sends no more: returns when it is to make way.
    async fn stall(line: Arc<Line>) {
        let _memory = line.reserve(MIB).await;
        let mut hurry = line.hurry();
        hurry.changed().await.unwrap();
        let turnover = hurry.borrow().turnover;
        let _ = timeout(turnover, pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_of_any_length_moves_within_its_time() {
        for others in [1, 10, 100] {
            let line = Arc::new(Line::new(MIB));
            let mut stalling = JoinSet::new();
            for _ in 0..others {
                stalling.spawn(stall(Arc::clone(&line)));
            }
            tokio::task::yield_now().await;
            let began = Instant::now();
            let _last = line.reserve(MIB).await;
            let waited = began.elapsed();
            assert!(waited <= LONGEST_WAIT * 2, "{others} others: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_was_long_once_leaves_its_clients_time_again() {
        let line = Arc::new(Line::new(MIB));
        let mut all = JoinSet::new();
        for _ in 0..100 {
            all.spawn(stall(Arc::clone(&line)));
        }
        tokio::task::yield_now().await;
        let short = line.turnover();
        assert!(short < LONGEST_WAIT / 50, "{short:?}");
        // One more each time that the first gets its memory: the line is never empty.
        let began = Instant::now();
        while began.elapsed() < 4 * LONGEST_WAIT {
            all.spawn(stall(Arc::clone(&line)));
            all.spawn(stall(Arc::clone(&line)));
            all.join_next().await.unwrap().unwrap();
            while all.len() > 2 {
                all.join_next().await.unwrap().unwrap();
            }
        }
        let long = line.turnover();
        assert!(long >= LONGEST_WAIT / 4, "{long:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_gets_memory_before_those_that_wait_for_it() {
        let line = Arc::new(Line::new(MIB));
        let held = line.try_reserve(MIB / 2).unwrap();
        let waiting = tokio::spawn({
            let line = Arc::clone(&line);
            async move { line.reserve(MIB).await }
        });
        tokio::task::yield_now().await;
        assert!(line.try_reserve(1024).is_none(), "half of it is free");
        drop(held);
        drop(waiting.await.unwrap());
        assert!(line.try_reserve(MIB).is_some());
    }
}
