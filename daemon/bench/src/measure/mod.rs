// SPDX-License-Identifier: Apache-2.0
//! Time, and the resources that processes use.

pub mod clock;
pub mod counts;
pub mod latency;
pub mod machine;
pub mod process;
pub mod spread;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The values behind these locks are consistent between any two statements, so a panic elsewhere
/// does not spoil them.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
