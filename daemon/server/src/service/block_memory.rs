// SPDX-License-Identifier: Apache-2.0
//! The part of the memory for uploads that blocks of Spark's own push to one disk of executors may
//! take. A disk that is slow or hangs keeps them for long, and leaves the rest to other disks.

use super::line::{Hurry, Line};
use super::pool::{Pool, Reserved};
use super::uploads::SMALL_BYTES;

/// Large blocks for one disk may have this part.
const LARGE_PART: u64 = 4;

/// Small blocks for one disk that wait may have so many eighths. One application has less in work
/// at a time: its share of the memory for large uploads, and all of that for small ones.
const SMALL_EIGHTHS: u64 = 5;

/// The memory of blocks for one disk.
#[derive(Debug)]
pub struct BlockMemory {
    large: Line,
    small: Pool,
}

impl BlockMemory {
    /// A part of the memory for uploads.
    pub fn of(upload_bytes: u64) -> Self {
        Self {
            large: Line::new(upload_bytes / LARGE_PART),
            small: Pool::new(upload_bytes / 8 * SMALL_EIGHTHS),
        }
    }

    /// Waits for memory of a large block, first come, first served.
    pub(crate) async fn reserve_large(&self, bytes: u64) -> (Reserved, Hurry) {
        (self.large.reserve(bytes).await, self.large.hurry())
    }

    /// Takes memory that is free now, for a small block that has to wait for the disk.
    pub(crate) fn try_small(&self, bytes: u64) -> Option<Reserved> {
        self.small.try_reserve(bytes)
    }

    /// True for a block that waits for its memory before its bytes are read.
    pub(crate) fn is_large(bytes: u64) -> bool {
        bytes > SMALL_BYTES
    }
}
