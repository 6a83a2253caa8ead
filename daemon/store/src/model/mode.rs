// SPDX-License-Identifier: Apache-2.0
//! What a shuffle's data here is.

/// Whether executors keep what they push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They do: a merged copy, of which some may be missing.
    Merge,
    /// They do not: all there is of attempts that commit.
    Remote,
}
