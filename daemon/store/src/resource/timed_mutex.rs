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

/// How often a caller that holds a body looks whether it may go on.
const LOOK: Duration = Duration::from_millis(500);

/// How long a caller waits in vain after a long wait, for all locks together.
const SHORT_WAITS: Duration = Duration::from_secs(1);

/// So many threads of the process may wait for longer, for all locks together. Threads of a disk
/// ([`Wait::AtItsDisk`]) and finalizes ([`LockWaits`]) are not counted. A write holds the locks of
/// up to some hundred partitions, also while its disk hangs.
const LONG_WAITS_MAX: usize = 16;
static LONG_WAITS: AtomicUsize = AtomicUsize::new(0);

/// One of the long waits, until it is dropped.
struct LongWait;

impl LongWait {
    fn begin() -> Option<Self> {
        let before = LONG_WAITS.fetch_add(1, Relaxed);
        let wait = Self;
        (before < LONG_WAITS_MAX).then_some(wait)
    }
}

impl Drop for LongWait {
    fn drop(&mut self) {
        LONG_WAITS.fetch_sub(1, Relaxed);
    }
}

/// How long the last wait is: longer than a disk needs that is only slow.
const SHUTDOWN_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a call may wait, for a timed lock or for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For as long as clients wait for an answer.
    InTime,
    /// For as long, on one of the few threads that the disk has for such calls: however many others
    /// wait.
    AtItsDisk,
    /// Not at all: the thread serves connections. A call that would have to wait is refused with
    /// OVERLOADED, and the caller repeats it on a thread that may wait.
    Never,
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
            None if wait == Wait::Never || self.is_stuck.load(Relaxed) => {
                return Err(Code::Overloaded);
            }
            None => self.lock_in_time(caller)?,
        };
        self.unless_spoiled(value)
    }

    fn lock_in_time(&self, caller: &Caller<'_>) -> Result<MutexGuard<'_, T>, Code> {
        if let Some(value) = self.value.try_lock_for(SHORT_WAIT) {
            return Ok(value);
        }
        let _wait = match caller.wait == Wait::AtItsDisk {
            true => None,
            false => Some(LongWait::begin().ok_or(Code::Overloaded)?),
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
    /// After a wait in vain.
    left: Cell<Duration>,
}

impl Default for LockWaits {
    fn default() -> Self {
        Self {
            next: Cell::new(LOCK_TIMEOUT),
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
            self.next.set(SHORT_WAIT.min(left));
            self.left.set(left.saturating_sub(SHORT_WAIT));
        }
        lock.unless_spoiled(value.ok_or(Code::Overloaded)?)
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
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// The long waits of the process are counted: these tests do not wait at the same time.
    static WAITS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn a_thread_that_waits_in_vain_is_refused_and_the_next_ones_at_once_until_the_lock_is_free() {
        let _alone = WAITS.lock();
        let lock = TimedMutex::new(1);
        let (release, wait) = mpsc::channel::<()>();
        let (has, is_held) = mpsc::channel();
        thread::scope(|scope| {
            let lock = &lock;
            scope.spawn(move || {
                let mut held = lock.lock().unwrap();
                *held += 1;
                has.send(()).unwrap();
                let _ = wait.recv();
            });
            is_held.recv().unwrap();
            let first = std::time::Instant::now();
            assert_eq!(lock.lock().err(), Some(Code::Overloaded));
            let waited = first.elapsed();
            assert!(waited >= LOCK_TIMEOUT, "it waited for {waited:?} only");
            let next = std::time::Instant::now();
            assert_eq!(lock.lock().err(), Some(Code::Overloaded));
            assert!(next.elapsed() < LOCK_TIMEOUT, "it waited again");
            assert!(lock.try_lock().is_none());
            drop(release);
            assert_eq!(*lock.wait_even_if_spoiled(), 2);
        });
        assert_eq!(*lock.lock().unwrap(), 2);
        assert!(!lock.is_stuck.load(Relaxed));
    }

    #[test]
    fn a_caller_that_cannot_retry_waits_once_for_long_then_some_moments_and_then_not() {
        let _alone = WAITS.lock();
        let (held, lock) = (TimedMutex::new(1), TimedMutex::new(2));
        let lock_waits = LockWaits::default();
        let waits = |lock| {
            let began = std::time::Instant::now();
            let is_free = lock_waits.lock(lock).is_ok();
            (is_free, began.elapsed())
        };
        let _held = held.lock().unwrap();
        // As many wait as may wait for long.
        let _others: Vec<_> = (0..LONG_WAITS_MAX).map(|_| LongWait::begin()).collect();
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            let (_forever, end) = mpsc::channel::<()>();
            let other = &lock;
            scope.spawn(move || {
                let _held = other.lock().unwrap();
                done.send(()).unwrap();
                let _ = end.recv_timeout(3 * SHORT_WAIT);
            });
            is_done.recv().unwrap();
            assert!(waits(&lock).0, "it waits for longer than a moment");
        });
        assert!(waits(&held).1 >= LOCK_TIMEOUT);
        for _ in 0..10 {
            let waited = waits(&held).1;
            assert!(waited >= SHORT_WAIT && waited < LOCK_TIMEOUT, "{waited:?}");
        }
        assert!(waits(&held).1 < SHORT_WAIT);
        assert!(waits(&lock).0);
    }

    #[test]
    fn a_value_that_a_panic_may_have_left_half_changed_can_only_be_discarded() {
        let lock = TimedMutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut held = lock.lock().unwrap();
            *held = 2;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(lock.lock().err(), Some(Code::Internal));
        assert!(lock.try_lock().is_none());
        assert_eq!(*lock.wait_even_if_spoiled(), 2);
    }
}
