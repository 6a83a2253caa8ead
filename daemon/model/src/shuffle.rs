// SPDX-License-Identifier: Apache-2.0
//! A shuffle: how it is registered, and what Spark is told of it at the end.

use roaring::RoaringBitmap;

use crate::id::ReduceId;
use crate::numbered::numbered;

numbered! {
    /// Whether executors keep what they push.
    pub enum Mode {
        /// They do: a service has a merged copy, and may drop what it cannot write.
        Merge = 0,
        /// They do not: a service keeps all that it has taken of attempts that commit.
        Remote = 1,
    }
}

/// What the driver says of a shuffle.
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

/// What is merged of one partition, as Spark's `MergeStatuses` tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeStatus {
    /// The partition.
    pub reduce_id: ReduceId,
    /// Map indexes that are merged.
    pub maps: RoaringBitmap,
    /// Bytes merged.
    pub bytes: u64,
}
