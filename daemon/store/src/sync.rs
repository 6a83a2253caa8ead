// SPDX-License-Identifier: Apache-2.0
//! The locks and atomics of the store. With the feature `shuttle` a test decides at each of their
//! operations which thread runs next (`tests/interleaved`).

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread;

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread;

/// Mutexes whose waits have a limit.
pub(crate) mod timed {
    #[cfg(not(feature = "shuttle"))]
    pub(crate) use parking_lot::{Mutex, MutexGuard};

    #[cfg(feature = "shuttle")]
    pub(crate) use super::drawn::{Mutex, MutexGuard};
}

/// Time does not pass while a test decides which thread runs: it draws the waits that are in vain.
#[cfg(feature = "shuttle")]
mod drawn {
    use std::sync::{PoisonError, TryLockError};
    use std::time::Duration;

    use shuttle::rand::{Rng, thread_rng};
    pub(crate) use shuttle::sync::MutexGuard;

    /// One wait of so many is in vain, if the lock is not free.
    const IN_VAIN: u32 = 8;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(held) => Some(held),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        }

        pub(crate) fn try_lock_for(&self, _limit: Duration) -> Option<MutexGuard<'_, T>> {
            match thread_rng().gen_ratio(1, IN_VAIN) {
                true => self.try_lock(),
                false => Some(self.lock()),
            }
        }
    }
}
