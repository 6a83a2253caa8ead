// SPDX-License-Identifier: Apache-2.0
//! A shuffle: how a driver registers it, and what Spark gets to know about it at the end.

use roaring::RoaringBitmap;

use crate::id::ReduceId;
use crate::numbered::numbered;

numbered! {
    /// Whether executors keep what they push.
    pub enum Mode {
        /// They do: a service has merged blocks, and may drop a segment that it cannot write.
        Merge = 0,
        /// They do not: a service keeps all that it has taken of attempts that commit.
        Remote = 1,
    }
}

/// The description of a shuffle that the driver sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShuffleSpec {
    /// Whether executors keep what they push.
    pub mode: Mode,
    /// Map tasks; every map index is below.
    pub num_maps: u32,
    /// Reduce partitions; every reduce id is below.
    pub num_partitions: u32,
    /// Tag of what segments hold, such as `spark-stream`.
    pub format: String,
}

/// The merged part of one partition, as in Spark's `MergeStatuses`.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeStatus {
    /// The partition.
    pub reduce_id: ReduceId,
    /// Map indexes that are merged.
    pub maps: RoaringBitmap,
    /// Bytes merged.
    pub bytes: u64,
}
