// SPDX-License-Identifier: Apache-2.0
//! The kinds of shuffles, and how their segments differ.

use lodestone_model::{Mode, ShuffleSpec};

/// The kind of a shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Spark's own push: blocks without attempts, at most one for each map index, until finalize.
    SparkPush,
    /// Attempts of registered maps commit, and executors keep what they push.
    Merge,
    /// Attempts of registered maps commit, and nobody else has what they push.
    Remote,
}

impl Kind {
    /// Returns the kind of a shuffle that was registered so, or that Spark's own push made.
    pub(crate) fn of(spec: Option<&ShuffleSpec>) -> Self {
        match spec.map(|spec| spec.mode) {
            None => Self::SparkPush,
            Some(Mode::Merge) => Self::Merge,
            Some(Mode::Remote) => Self::Remote,
        }
    }

    /// Returns true if map attempts commit: their segments are read from then on, at any time. Otherwise
    /// the shuffle is finalized, and read afterwards.
    pub(crate) fn commits(self) -> bool {
        self != Self::SparkPush
    }

    /// Returns true if what cannot be written may be dropped, because executors have it too.
    pub(crate) fn has_originals(self) -> bool {
        self != Self::Remote
    }
}
