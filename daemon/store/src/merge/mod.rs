// SPDX-License-Identifier: Apache-2.0
//! Merge: segments of many maps become one partition, in memory first, then on disk.
//!
//! ```text
//! segment --append--> tail (memory) --write out--> extents: byte ranges of files
//!                                    \
//!                                     with others: memory becomes short
//!                                     alone: no memory is left
//! ```

mod abort;
mod append;
mod entry;
mod extents;
mod partition;
mod published;
mod steps;
mod tail;
mod write_out;
mod write_out_when_full;

pub(crate) use entry::PartitionEntry;
pub(crate) use extents::FileRange;
pub(crate) use partition::{Partition, View};
pub(crate) use published::publish;
pub use steps::STEP_BYTES;
pub(crate) use steps::{unwritten_bytes, write_step};
pub(crate) use write_out_when_full::write_out_largest;
