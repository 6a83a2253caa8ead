// SPDX-License-Identifier: Apache-2.0
//! Merge: segments of many maps become one partition, in memory first, then on disk.
//!
//! ```text
//! segment --append--> tail (memory) --write-out--> extents: runs of bytes in files
//!                                    \
//!                                     with others: memory becomes short
//!                                     alone: there is none left
//! ```

mod abort;
mod extents;
mod note;
mod partition;
mod published;
mod relief;
mod steps;
mod tail;
mod write_out;

pub(crate) use extents::FileRun;
pub(crate) use note::PartitionNote;
pub(crate) use partition::{PARTITION_BYTES, Partition, View};
pub(crate) use published::{publish, unpublish};
pub(crate) use relief::relieve;
pub use steps::STEP_BYTES;
pub(crate) use steps::{unwritten_bytes, write_some_out};
