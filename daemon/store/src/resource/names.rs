// SPDX-License-Identifier: Apache-2.0
//! Memory for the names of executors' directories. Clients decide how many they register and how
//! long the names are, and the names stay as long as the directories do, also in the file for the
//! next daemon.

use std::sync::Arc;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// All names of a store.
#[derive(Debug)]
pub(crate) struct Names {
    most: u64,
    held: AtomicU64,
}

/// The memory of some names, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldNames {
    names: Arc<Names>,
    bytes: u64,
}

impl Names {
    /// At most this many bytes.
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: 0.into(),
        })
    }

    /// Takes memory for names. `None`: there is no room for them.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Option<HeldNames> {
        let held = HeldNames {
            names: Arc::clone(self),
            bytes,
        };
        // What does not fit is given back when `held` is dropped.
        let before = self.held.fetch_add(bytes, Relaxed);
        (before.saturating_add(bytes) <= self.most).then_some(held)
    }
}

impl Drop for HeldNames {
    fn drop(&mut self) {
        self.names.held.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_leave_the_room_to_others() {
        let names = Names::new(100);
        let first = names.hold(60).unwrap();
        assert!(names.hold(41).is_none());
        assert!(names.hold(40).is_some());
        drop(first);
        assert!(names.hold(100).is_some());
        assert_eq!(names.held.load(Relaxed), 0);
    }
}
