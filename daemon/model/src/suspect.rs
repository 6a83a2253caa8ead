// SPDX-License-Identifier: Apache-2.0
//! A block that a reader found corrupt, and where it was damaged.

use crate::id::{MapId, ReduceId, ShuffleId};
use crate::numbered::numbered;

/// The block that a reader found corrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuspectBlock {
    /// The shuffle.
    pub shuffle: ShuffleId,
    /// The map attempt that wrote it.
    pub map: MapId,
    /// The partition.
    pub reduce: ReduceId,
    /// The checksum that the reader computed.
    pub reader_checksum: i64,
}

numbered! {
    /// Where a block was damaged: the answer to `DiagnoseCorruption`.
    pub enum Cause {
        /// On the disk: the file is not what the writer wrote.
        DiskIssue = 0,
        /// On the way: the reader got something else than the file.
        NetworkIssue = 1,
        /// The cause cannot be found.
        UnknownIssue = 2,
        /// Nowhere: all three checksums agree.
        ChecksumVerifyPass = 3,
        /// The algorithm is not known.
        UnsupportedChecksumAlgorithm = 4,
    }
}
