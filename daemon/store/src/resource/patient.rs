// SPDX-License-Identifier: Apache-2.0
//! A lock for what is held while a disk works. Who wants it meanwhile waits, but not for ever: a disk that
//! hangs takes the threads that write to it, and must not take all the others as well.

use std::cell::Cell;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::panicking;
use std::time::Duration;

use lodestone_model::Code;
use parking_lot::{Mutex, MutexGuard};

/// How long a thread waits for others to let go. Much longer than a healthy disk needs for what is written
/// under one lock, and about as long as clients wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the last wait is: longer than a disk needs that is only slow.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Patient<T> {
    value: Mutex<T>,
    /// Somebody waited in vain, and nobody got it since: it is not waited for again.
    is_stuck: AtomicBool,
    /// A thread panicked while it had it, and may have left it half changed.
    is_spoiled: AtomicBool,
}

/// Until it is dropped, nobody else has it.
pub(crate) struct Held<'a, T> {
    value: MutexGuard<'a, T>,
    is_spoiled: &'a AtomicBool,
}

impl<T> Patient<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            is_stuck: false.into(),
            is_spoiled: false.into(),
        }
    }

    /// OVERLOADED if others do not let go of it in time: who asks again later may be luckier. INTERNAL if it
    /// may be half changed.
    pub(crate) fn lock(&self) -> Result<Held<'_, T>, Code> {
        let value = match self.value.try_lock() {
            Some(value) => value,
            None if self.is_stuck.load(Relaxed) => return Err(Code::Overloaded),
            None => self.lock_in_time()?,
        };
        if self.is_stuck.load(Relaxed) {
            self.is_stuck.store(false, Relaxed);
        }
        self.unless_spoiled(value)
    }

    fn lock_in_time(&self) -> Result<MutexGuard<'_, T>, Code> {
        self.value.try_lock_for(PATIENCE).ok_or_else(|| {
            self.is_stuck.store(true, Relaxed);
            Code::Overloaded
        })
    }

    /// If nobody has it, and it is whole.
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        let value = self.value.try_lock()?;
        self.unless_spoiled(value).ok()
    }

    /// However long it takes: for who could do nothing but ask again.
    pub(crate) fn wait(&self) -> Result<Held<'_, T>, Code> {
        self.unless_spoiled(self.value.lock())
    }

    /// However long it takes, and even if it may be half changed: for who throws it away.
    pub(crate) fn wait_for_what_is_left(&self) -> Held<'_, T> {
        self.held(self.value.lock())
    }

    fn unless_spoiled<'a>(&'a self, value: MutexGuard<'a, T>) -> Result<Held<'a, T>, Code> {
        match self.is_spoiled.load(Relaxed) {
            true => Err(Code::Internal),
            false => Ok(self.held(value)),
        }
    }

    fn held<'a>(&'a self, value: MutexGuard<'a, T>) -> Held<'a, T> {
        let is_spoiled = &self.is_spoiled;
        Held { value, is_spoiled }
    }
}

/// For who has to come to an end: waits in vain once, and then for nobody.
#[derive(Debug, Default)]
pub(crate) struct LastPatience {
    is_over: Cell<bool>,
}

impl LastPatience {
    /// OVERLOADED if others do not let go of it in time.
    pub(crate) fn lock<'a, T>(&self, lock: &'a Patient<T>) -> Result<Held<'a, T>, Code> {
        let value = match self.is_over.get() {
            true => lock.value.try_lock(),
            false => lock.value.try_lock_for(LAST_PATIENCE),
        };
        if value.is_none() {
            self.is_over.set(true);
        }
        lock.unless_spoiled(value.ok_or(Code::Overloaded)?)
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Held<'_, T> {
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

    #[test]
    fn who_waits_in_vain_is_refused_and_the_next_ones_at_once_until_it_is_free() {
        let lock = Patient::new(1);
        let (let_go, wait) = mpsc::channel::<()>();
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
            assert!(waited >= PATIENCE, "it waited for {waited:?} only");
            let next = std::time::Instant::now();
            assert_eq!(lock.lock().err(), Some(Code::Overloaded));
            assert!(next.elapsed() < PATIENCE, "it waited again");
            assert!(lock.try_lock().is_none());
            drop(let_go);
            assert_eq!(*lock.wait().unwrap(), 2);
        });
        assert_eq!(*lock.lock().unwrap(), 2);
        assert!(!lock.is_stuck.load(Relaxed));
    }

    #[test]
    fn what_a_panic_may_have_left_half_changed_is_given_to_nobody_but_who_throws_it_away() {
        let lock = Patient::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut held = lock.lock().unwrap();
            *held = 2;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(lock.lock().err(), Some(Code::Internal));
        assert_eq!(lock.wait().err(), Some(Code::Internal));
        assert!(lock.try_lock().is_none());
        assert_eq!(*lock.wait_for_what_is_left(), 2);
    }
}
