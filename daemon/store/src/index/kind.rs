// SPDX-License-Identifier: Apache-2.0
//! The kinds of shuffles, and how their segments differ.

use lodestone_model::{Mode, ShuffleSpec};

/// The kind of a shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Spark's own push: blocks without attempts, at most one for each map index, until finalize.
    SparkPush,
    /// Attempts of registered maps commit, and executors keep their map outputs.
    Merge,
    /// Attempts of registered maps commit, and only services keep the map outputs.
    Remote,
}

impl Kind {
    /// Returns the kind of a shuffle with this registration, or of Spark's own push if there is
    /// none.
    pub(crate) fn of(spec: Option<&ShuffleSpec>) -> Self {
        match spec.map(|spec| spec.mode) {
            None => Self::SparkPush,
            Some(Mode::Merge) => Self::Merge,
            Some(Mode::Remote) => Self::Remote,
        }
    }

    /// Returns true if map attempts commit: readers may read their segments from then on. Otherwise
    /// the shuffle is finalized, and read afterwards.
    pub(crate) fn commits(self) -> bool {
        self != Self::SparkPush
    }

    /// Returns true if the store may drop a segment that it cannot write, because executors have it
    /// too.
    pub(crate) fn has_originals(self) -> bool {
        self != Self::Remote
    }
}
