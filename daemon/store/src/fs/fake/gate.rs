// SPDX-License-Identifier: Apache-2.0
//! Holds writes back until a test releases them, like a disk that hangs.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{FakeFs, locked};
use crate::sync::{Condvar, Mutex};

/// Where writes wait while the gate is closed. They do not wait under the lock of the filesystem:
/// while a write hangs, tests look at files, and the store writes to other disks.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Below which directory nothing is written.
    closed: Option<PathBuf>,
    waiting: usize,
}

impl Gate {
    /// Returns when a write to `path` may continue.
    pub(super) fn pass(&self, path: &Path) {
        let mut state = locked(&self.state);
        state.waiting += 1;
        let passed = self.opened.wait_while(state, |state| {
            let closed = state.closed.as_ref();
            closed.is_some_and(|dir| path.starts_with(dir))
        });
        passed.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }
}

/// The part of the gate that tests use.
impl FakeFs {
    /// Lets writes wait until [`FakeFs::release_writes`].
    pub fn hold_writes(&self) {
        self.hold_writes_below(Path::new("/"));
    }

    /// Holds back only writes to files below `dir`.
    pub fn hold_writes_below(&self, dir: &Path) {
        locked(&self.gate.state).closed = Some(dir.into());
    }

    /// Ends what [`FakeFs::hold_writes`] began.
    pub fn release_writes(&self) {
        locked(&self.gate.state).closed = None;
        self.gate.opened.notify_all();
    }

    /// Writes that wait.
    pub fn held_writes(&self) -> usize {
        locked(&self.gate.state).waiting
    }
}
