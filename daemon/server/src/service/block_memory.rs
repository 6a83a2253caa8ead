// SPDX-License-Identifier: Apache-2.0
//! The part of the memory for uploads that blocks of Spark's own push to one disk of executors may
//! take. A disk that is slow or hangs keeps them for long, and leaves the rest to other disks.

use lodestone_model::AppId;

use super::app_lines::AppLines;
use super::line::{Hurry, Line};
use super::pool::{Pool, Reserved};
use super::uploads::{Incoming, SMALL_BYTES, Uploads};

/// Large blocks for one disk may have this part.
const LARGE_PART: u64 = 4;

/// Small blocks for one disk that wait may have so many eighths. One application has less in work
/// at a time: its share of the memory for large uploads, and all of that for small ones.
const SMALL_EIGHTHS: u64 = 5;

/// The memory of a large block.
#[derive(Debug)]
pub(crate) struct LargeBlock {
    pub(crate) incoming: Incoming,
    /// What it has of the memory for its disk.
    pub(crate) at_disk: [Reserved; 2],
    /// Say when others wait for that.
    pub(crate) hurries: [Hurry; 2],
}

/// The memory of blocks for one disk.
#[derive(Debug)]
pub struct BlockMemory {
    large: Line,
    /// What the large blocks of one application may have, with those that wait: half of its share
    /// of the memory for uploads. The other half is for other disks.
    of_applications: AppLines,
    small: Pool,
}

impl BlockMemory {
    /// A part of the memory for uploads.
    pub fn of(upload_bytes: u64) -> Self {
        let large = Line::new(upload_bytes / LARGE_PART);
        Self {
            of_applications: AppLines::new(large.capacity_bytes()),
            large,
            small: Pool::new(upload_bytes / 8 * SMALL_EIGHTHS),
        }
    }

    /// Waits for the memory of a large block, first come, first served. A block that waits for a
    /// share of its application has no memory that blocks of others need, and one that waits for
    /// this disk has no memory that uploads to other disks need.
    pub(crate) async fn reserve_large(
        &self,
        uploads: &Uploads,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> LargeBlock {
        let own = self.of_applications.of(app);
        let of_application = own.reserve(bytes).await;
        let shares = uploads.reserve_shares(app, connection, bytes).await;
        let of_all = self.large.reserve(bytes).await;
        LargeBlock {
            incoming: uploads.reserve_large(shares, bytes).await,
            at_disk: [of_all, of_application],
            hurries: [self.large.hurry(), own.hurry()],
        }
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
