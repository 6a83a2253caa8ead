// SPDX-License-Identifier: Apache-2.0
//! Holds calls back until a test releases them, like a disk that hangs.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::{FakeFs, locked};
use crate::sync::{Condvar, Mutex};

/// Where calls wait while the gate is closed. They do not wait under the lock of the filesystem:
/// while a call hangs, tests look at files, and the store uses other disks.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Below which directory nothing is written.
    closed: Option<PathBuf>,
    /// Other calls than writes wait there, too.
    is_for_all: bool,
    /// So many of the calls that wait, or come next, may continue.
    passes: usize,
    waiting: usize,
}

impl Gate {
    /// Returns when a write to `path` may continue.
    pub(super) fn pass(&self, path: &Path) {
        self.pass_if(path, |_| true);
    }

    /// Returns when a call that writes nothing to `path` may continue.
    pub(super) fn pass_by(&self, path: &Path) {
        self.pass_if(path, |state| state.is_for_all);
    }

    fn pass_if(&self, path: &Path, waits: impl Fn(&State) -> bool) {
        let mut state = locked(&self.state);
        state.waiting += 1;
        let passed = self.opened.wait_while(state, |state| {
            let closed = state.closed.as_ref();
            let is_held = waits(state) && closed.is_some_and(|dir| path.starts_with(dir));
            let may_pass = is_held && state.passes > 0;
            state.passes -= usize::from(may_pass);
            is_held && !may_pass
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

    /// Holds back only writes to `dir` and files below it.
    pub fn hold_writes_below(&self, dir: &Path) {
        locked(&self.gate.state).closed = Some(dir.into());
    }

    /// Holds back writes to files below `dir`, and also looks, openings and removals.
    pub fn hold_calls_below(&self, dir: &Path) {
        let mut state = locked(&self.gate.state);
        (state.closed, state.is_for_all) = (Some(dir.into()), true);
    }

    /// Lets one of the calls that wait continue, or the next one.
    pub fn release_one(&self) {
        locked(&self.gate.state).passes += 1;
        self.gate.opened.notify_all();
    }

    /// Ends what [`FakeFs::hold_writes`] or [`FakeFs::hold_calls_below`] began.
    pub fn release_writes(&self) {
        let mut state = locked(&self.gate.state);
        (state.closed, state.is_for_all, state.passes) = (None, false, 0);
        self.gate.opened.notify_all();
    }

    /// Calls that wait.
    pub fn held_writes(&self) -> usize {
        locked(&self.gate.state).waiting
    }
}
