// SPDX-License-Identifier: Apache-2.0

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use super::*;

/// The long waits of the process are counted: these tests do not wait at the same time.
static WAITS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// One more push does not wait for so long while as many wait as may wait for long.
pub(crate) const LONGER_THAN_PUSHES: Duration = SHORT_WAIT.saturating_mul(3);

/// As many pushes wait as may wait for long, until it is dropped.
pub(crate) struct PushesWait {
    _waits: Vec<Option<LongWait>>,
    _alone: std::sync::LockResult<std::sync::MutexGuard<'static, ()>>,
}

impl PushesWait {
    pub(crate) fn begin() -> Self {
        let _alone = WAITS.lock();
        Self {
            _waits: (0..OF_PUSHES.most).map(|_| OF_PUSHES.begin()).collect(),
            _alone,
        }
    }
}

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
    let _pushes = PushesWait::begin();
    let (held, lock) = (TimedMutex::new(1), TimedMutex::new(2));
    let lock_waits = LockWaits::default();
    let waits = |lock| {
        let began = std::time::Instant::now();
        let is_free = lock_waits.lock(lock).is_ok();
        (is_free, began.elapsed())
    };
    let _held = held.lock().unwrap();
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        let (_forever, end) = mpsc::channel::<()>();
        let other = &lock;
        scope.spawn(move || {
            let _held = other.lock().unwrap();
            done.send(()).unwrap();
            let _ = end.recv_timeout(LONGER_THAN_PUSHES);
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
