// SPDX-License-Identifier: Apache-2.0
//! A lock that is held while a disk works. It gives up after a fixed time: a disk that hangs takes
//! the threads that write to it, and must not take all the others as well.

use std::cell::Cell;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicUsize;
use std::thread::panicking;
use std::time::Duration;

use lodestone_model::Code;

use super::bodies::Body;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::sync::timed::{Mutex, MutexGuard};

/// How long a thread waits for the lock. Much longer than a healthy disk needs for a write under
/// one lock, and about as long as clients wait for an answer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A wait of this length is no sign of trouble: many threads want one lock for moments.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// How often a caller that holds a body looks whether it may go on. Each time it goes to the end of
/// the line, so not at once.
const LOOK: Duration = Duration::from_millis(1500);

/// How long a caller waits in vain after a long wait, for all locks together.
const SHORT_WAITS: Duration = Duration::from_secs(1);

/// A short wait if as many wait for long as may: those that wait take threads of their kind. A
/// healthy disk needs no more for the part of a tail that is written under one lock.
const MOMENT: Duration = Duration::from_millis(25);

/// Threads of the process that wait for longer, for all locks together. A write holds the locks of
/// up to some hundred partitions, also while its disk hangs. So for each kind of call with threads
/// of its own at most half of these threads wait. Threads of a disk ([`Wait::AtItsDisk`]) and
/// finalizes ([`LockWaits`]) are not counted.
struct LongWaits {
    now: AtomicUsize,
    most: usize,
    /// How long one more waits.
    one_more: Duration,
}

/// A sixth of 96 threads, others of which write.
static OF_PUSHES: LongWaits = LongWaits::new(16, SHORT_WAIT);
/// Half of 16 threads.
static OF_QUESTIONS: LongWaits = LongWaits::new(8, MOMENT);
/// Half of the 16 threads that send from memory; those that read from disks count, too.
static OF_CHUNKS: LongWaits = LongWaits::new(8, MOMENT);
/// Half of 8 threads. Clients repeat an abort only once.
static OF_ABORTS: LongWaits = LongWaits::new(4, SHORT_WAIT);

/// One of the long waits, until it is dropped.
struct LongWait(&'static LongWaits);

impl LongWaits {
    const fn new(most: usize, one_more: Duration) -> Self {
        Self {
            now: AtomicUsize::new(0),
            most,
            one_more,
        }
    }

    fn begin(&'static self) -> Option<LongWait> {
        let before = self.now.fetch_add(1, Relaxed);
        let wait = LongWait(self);
        (before < self.most).then_some(wait)
    }

    /// How long a wait may be that is not counted yet.
    fn short_wait(&self) -> Duration {
        match self.now.load(Relaxed) < self.most {
            true => SHORT_WAIT,
            false => self.one_more,
        }
    }
}

impl Drop for LongWait {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Relaxed);
    }
}

/// How long the last wait is: longer than a disk needs that is only slow.
const SHUTDOWN_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a call may wait, for a timed lock or for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For as long as clients wait for an answer, on one of the threads for pushes.
    InTime,
    /// For as long, on one of the threads for layouts, commits and openings of streams.
    Question,
    /// For as long, on one of the threads that send chunks.
    Chunk,
    /// For as long, on one of the threads for aborts.
    Abort,
    /// For as long, on one of the few threads that the disk has for such calls: however many others
    /// wait.
    AtItsDisk,
    /// Not at all: the thread serves connections. A call that would have to wait is refused with
    /// OVERLOADED, and the caller repeats it on a thread that may wait.
    Never,
    /// Not at all, for the second time: the caller has waited for a turn meanwhile. It leaves no
    /// write to others that may not come.
    NeverAgain,
}

/// How a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) wait: Wait,
    /// The body that it holds meanwhile.
    pub(crate) body: Option<Body<'a>>,
}

impl From<Wait> for Caller<'_> {
    fn from(wait: Wait) -> Self {
        Self { wait, body: None }
    }
}

impl Wait {
    /// The long waits with which this one counts.
    fn long_waits(self) -> Option<&'static LongWaits> {
        match self {
            Self::InTime => Some(&OF_PUSHES),
            Self::Question => Some(&OF_QUESTIONS),
            Self::Chunk => Some(&OF_CHUNKS),
            Self::Abort => Some(&OF_ABORTS),
            Self::AtItsDisk | Self::Never | Self::NeverAgain => None,
        }
    }

    /// False if a call that would have to wait is refused.
    pub fn is_allowed(self) -> bool {
        !matches!(self, Self::Never | Self::NeverAgain)
    }
}

#[derive(Debug, Default)]
pub(crate) struct TimedMutex<T> {
    value: Mutex<T>,
    /// A thread waited in vain, and no thread got the lock since: the next ones do not wait.
    is_stuck: AtomicBool,
    /// A thread panicked while it held the lock, and may have left the value half changed.
    is_spoiled: AtomicBool,
}

/// Holds the lock until it is dropped.
pub(crate) struct TimedGuard<'a, T> {
    value: MutexGuard<'a, T>,
    is_spoiled: &'a AtomicBool,
}

impl<T> TimedMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            is_stuck: false.into(),
            is_spoiled: false.into(),
        }
    }

    /// Returns OVERLOADED if other threads hold the lock for too long: the caller may retry.
    /// Returns INTERNAL if the value may be half changed.
    pub(crate) fn lock(&self) -> Result<TimedGuard<'_, T>, Code> {
        self.lock_if(Wait::InTime)
    }

    /// Locks like `lock` if the caller may wait. Otherwise returns OVERLOADED if the lock is not
    /// free.
    pub(crate) fn lock_if(&self, wait: Wait) -> Result<TimedGuard<'_, T>, Code> {
        self.lock_for(&Caller::from(wait))
    }

    /// Locks like `lock_if`. A caller that holds a body also gives up when it holds memory that is
    /// for others.
    pub(crate) fn lock_for(&self, caller: &Caller<'_>) -> Result<TimedGuard<'_, T>, Code> {
        let wait = caller.wait;
        let value = match self.value.try_lock() {
            Some(value) => value,
            None if !wait.is_allowed() || self.is_stuck.load(Relaxed) => {
                return Err(Code::Overloaded);
            }
            None => self.lock_in_time(caller)?,
        };
        self.unless_spoiled(value)
    }

    fn lock_in_time(&self, caller: &Caller<'_>) -> Result<MutexGuard<'_, T>, Code> {
        let long_waits = caller.wait.long_waits();
        let short_wait = long_waits.map_or(SHORT_WAIT, LongWaits::short_wait);
        if let Some(value) = self.value.try_lock_for(short_wait) {
            return Ok(value);
        }
        let _wait = match long_waits {
            None => None,
            Some(long_waits) => Some(long_waits.begin().ok_or(Code::Overloaded)?),
        };
        let mut left = LOCK_TIMEOUT;
        let mut may_hold = caller.body.as_ref().map(Body::begin_wait);
        while !left.is_zero() {
            if may_hold.as_mut().is_some_and(|wait| !wait.goes_on()) {
                return Err(Code::Overloaded);
            }
            let next = match may_hold {
                Some(_) => left.min(LOOK),
                None => left,
            };
            if let Some(value) = self.value.try_lock_for(next) {
                return Ok(value);
            }
            left -= next;
        }
        self.is_stuck.store(true, Relaxed);
        Err(Code::Overloaded)
    }

    /// Returns the lock if it is free, and the value is not half changed.
    pub(crate) fn try_lock(&self) -> Option<TimedGuard<'_, T>> {
        let value = self.value.try_lock()?;
        self.unless_spoiled(value).ok()
    }

    /// Returns the lock if it is free, and ignores a panic of another thread. Use only to discard
    /// the value.
    pub(crate) fn try_lock_even_if_spoiled(&self) -> Option<TimedGuard<'_, T>> {
        self.value.try_lock().map(|value| self.held(value))
    }

    /// Waits as long as it takes, and ignores a panic of another thread. Use only to discard the
    /// value.
    pub(crate) fn wait_even_if_spoiled(&self) -> TimedGuard<'_, T> {
        self.held(self.value.lock())
    }

    fn unless_spoiled<'a>(&'a self, value: MutexGuard<'a, T>) -> Result<TimedGuard<'a, T>, Code> {
        match self.is_spoiled.load(Relaxed) {
            true => Err(Code::Internal),
            false => Ok(self.held(value)),
        }
    }

    fn held<'a>(&'a self, value: MutexGuard<'a, T>) -> TimedGuard<'a, T> {
        if self.is_stuck.load(Relaxed) {
            self.is_stuck.store(false, Relaxed);
        }
        let is_spoiled = &self.is_spoiled;
        TimedGuard { value, is_spoiled }
    }
}

/// The waits of one caller for locks that a disk may hold up. It cannot retry, so it waits for its
/// own time, however many others wait.
#[derive(Debug)]
pub(crate) struct LockWaits {
    next: Cell<Duration>,
    /// Each wait after one in vain, and all of these together that are left.
    short: Duration,
    left: Cell<Duration>,
}

impl Default for LockWaits {
    fn default() -> Self {
        Self {
            next: Cell::new(LOCK_TIMEOUT),
            short: SHORT_WAIT,
            left: Cell::new(SHORT_WAITS),
        }
    }
}

impl LockWaits {
    /// Returns OVERLOADED if other threads hold the lock for too long. After a wait in vain the
    /// next ones are short: other threads need their locks for moments only.
    pub(crate) fn lock<'a, T>(&self, lock: &'a TimedMutex<T>) -> Result<TimedGuard<'a, T>, Code> {
        let value = match lock.value.try_lock() {
            Some(value) => Some(value),
            None => lock.value.try_lock_for(self.next.get()),
        };
        if value.is_none() {
            let left = self.left.get();
            self.next.set(self.short.min(left));
            self.left.set(left.saturating_sub(self.short));
        }
        lock.unless_spoiled(value.ok_or(Code::Overloaded)?)
    }
}

/// The waits of one abort for the locks of all its partitions: a write may hold up hundreds of
/// them, and there are few threads for aborts.
#[derive(Debug)]
pub(crate) struct AbortWaits {
    has_waited: Cell<bool>,
    /// After a wait in vain.
    rest: LockWaits,
}

impl Default for AbortWaits {
    fn default() -> Self {
        let rest = LockWaits {
            next: Cell::new(MOMENT),
            short: MOMENT,
            left: Cell::new(SHORT_WAIT.saturating_sub(MOMENT)),
        };
        Self {
            has_waited: Cell::new(false),
            rest,
        }
    }
}

impl AbortWaits {
    /// Returns OVERLOADED if other threads hold the lock for too long. After a wait in vain, or a
    /// refusal because others wait, the next waits are moments, and few.
    pub(crate) fn lock<'a, T>(&self, lock: &'a TimedMutex<T>) -> Result<TimedGuard<'a, T>, Code> {
        if self.has_waited.get() {
            return self.rest.lock(lock);
        }
        let locked = lock.lock_if(Wait::Abort);
        let is_in_vain = locked.as_ref().err() == Some(&Code::Overloaded);
        self.has_waited.set(is_in_vain);
        locked
    }
}

/// The last waits of a daemon that ends: after one wait in vain, no lock is waited for.
#[derive(Debug, Default)]
pub(crate) struct ShutdownDeadline {
    is_over: Cell<bool>,
}

impl ShutdownDeadline {
    /// Returns OVERLOADED if other threads hold the lock for too long.
    pub(crate) fn lock<'a, T>(&self, lock: &'a TimedMutex<T>) -> Result<TimedGuard<'a, T>, Code> {
        let value = match self.is_over.get() {
            true => lock.value.try_lock(),
            false => lock.value.try_lock_for(SHUTDOWN_LOCK_TIMEOUT),
        };
        if value.is_none() {
            self.is_over.set(true);
        }
        lock.unless_spoiled(value.ok_or(Code::Overloaded)?)
    }
}

impl<T> Deref for TimedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for TimedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for TimedGuard<'_, T> {
    fn drop(&mut self) {
        if panicking() {
            self.is_spoiled.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
