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
    pub(crate) at_disk: AtDisk,
}

/// What a large block has of the memory for its disk.
#[derive(Debug)]
pub(crate) struct AtDisk {
    pub(crate) memory: [Reserved; 2],
    /// Say when others wait for that.
    pub(crate) hurries: [Hurry; 2],
}

/// The memory of blocks for one disk.
#[derive(Debug)]
pub struct BlockMemory {
    large: Line,
    /// Limits the large blocks of one application, also those that wait. They may have half of its
    /// share of the memory for uploads, or be one block, if that is larger.
    of_applications: AppLines,
    /// Limits those that keep their shares while they wait for the disk. They may have a quarter of
    /// the share of their application: two slow disks leave half of it to other pushes.
    with_shares: AppLines,
    small: Pool,
}

impl BlockMemory {
    /// A part of the memory for uploads.
    pub fn of(upload_bytes: u64) -> Self {
        let large = Line::new(upload_bytes / LARGE_PART);
        Self {
            of_applications: AppLines::new(large.capacity_bytes()),
            with_shares: AppLines::new(large.capacity_bytes() / 2),
            large,
            small: Pool::new(upload_bytes / 8 * SMALL_EIGHTHS),
        }
    }

    /// Waits for the memory of a large block, first come, first served.
    pub(crate) async fn reserve_large(
        &self,
        uploads: &Uploads,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> LargeBlock {
        let own = self.of_applications.of(app);
        let of_application = own.reserve(bytes).await;
        let of_all_and_shares = self.reserve_with_shares(uploads, app, connection, bytes);
        let (of_all, shares) = of_all_and_shares.await;
        LargeBlock {
            incoming: uploads.reserve_large(shares, bytes).await,
            at_disk: AtDisk {
                memory: [of_all, of_application],
                hurries: [self.large.hurry(), own.hurry()],
            },
        }
    }

    /// Waits for memory of this disk, and for the shares of the application and the connection. A
    /// block that waits for its shares has nothing of the disk, which blocks of others need. One
    /// that waits for the disk has no shares, which the uploads of its application need that go to
    /// other disks or to none. If these have taken the shares when its turn comes, it takes them
    /// before its next turn, as they could take them each time.
    async fn reserve_with_shares(
        &self,
        uploads: &Uploads,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> (Reserved, [Reserved; 2]) {
        let shares = uploads.reserve_shares(app, connection, bytes).await;
        if let Some(of_all) = self.large.try_reserve(bytes) {
            return (of_all, shares);
        }
        drop(shares);
        let of_all = self.large.reserve(bytes).await;
        if let Some(shares) = uploads.try_shares(app, connection, bytes) {
            return (of_all, shares);
        }
        drop(of_all);
        let _waits = self.with_shares.of(app).reserve(bytes).await;
        let shares = uploads.reserve_shares(app, connection, bytes).await;
        (self.large.reserve(bytes).await, shares)
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Waits as long as others that go on need.
    async fn in_time<T>(awaited: impl Future<Output = T>) -> Option<T> {
        timeout(Duration::from_secs(1), awaited).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_whose_application_has_no_memory_in_its_turn_leaves_the_disk_to_others() {
        let uploads = Uploads::new(64 * MIB, MIB, MIB);
        let disk = BlockMemory::of(64 * MIB);
        let [full, other] = ["full", "other"].map(|app| AppId::new(app).unwrap());
        let connections: Vec<Pool> = (0..5).map(|_| uploads.share()).collect();
        let reserve = |app, connection: usize, mib| {
            disk.reserve_large(&uploads, app, &connections[connection], mib * MIB)
        };
        let all_of_disk = in_time(reserve(&other, 0, 16)).await.unwrap();
        let waits = reserve(&full, 1, 4);
        tokio::pin!(waits);
        assert!(in_time(&mut waits).await.is_none(), "the disk is taken");
        let mut crowd = Vec::new();
        for connection in &connections[2..4] {
            // All that it may have: the block that waits holds nothing of it.
            let memory = uploads.reserve(&full, connection, 16 * MIB);
            crowd.push(in_time(memory).await.unwrap());
        }
        drop(all_of_disk);
        assert!(in_time(&mut waits).await.is_none(), "no share is left");
        let of_other = in_time(reserve(&other, 4, 16)).await.unwrap();
        drop(crowd);
        assert!(in_time(&mut waits).await.is_none(), "the disk is taken");
        drop(of_other);
        assert!(in_time(&mut waits).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn blocks_that_wait_for_two_disks_leave_half_of_the_share_of_their_application() {
        let uploads = Uploads::new(64 * MIB, MIB, MIB);
        let disks = [(); 2].map(|()| BlockMemory::of(64 * MIB));
        let [full, other] = ["full", "other"].map(|app| AppId::new(app).unwrap());
        let connections: Vec<Pool> = (0..9).map(|_| uploads.share()).collect();
        let reserve = |disk: usize, app, connection: usize, mib| {
            disks[disk].reserve_large(&uploads, app, &connections[connection], mib * MIB)
        };
        let taken = [
            in_time(reserve(0, &other, 0, 16)).await.unwrap(),
            in_time(reserve(1, &other, 1, 16)).await.unwrap(),
        ];
        let waits = [reserve(0, &full, 2, 8), reserve(1, &full, 3, 8)];
        let mut waits = waits.map(Box::pin);
        for waiting in &mut waits {
            assert!(in_time(waiting).await.is_none(), "the disk is taken");
        }
        let crowd = async |of: &[Pool]| {
            let mut crowd = Vec::new();
            for connection in of {
                let memory = uploads.reserve(&full, connection, 16 * MIB);
                crowd.extend(in_time(memory).await);
            }
            crowd
        };
        let shares = crowd(&connections[4..6]).await;
        assert_eq!(shares.len(), 2, "all of the share");
        drop(taken);
        for waiting in &mut waits {
            assert!(in_time(waiting).await.is_none(), "no share is left");
        }
        let taken = [
            in_time(reserve(0, &other, 6, 16)).await.unwrap(),
            in_time(reserve(1, &other, 7, 16)).await.unwrap(),
        ];
        drop(shares);
        for waiting in &mut waits {
            assert!(in_time(waiting).await.is_none(), "the disk is taken");
        }
        assert_eq!(crowd(&connections[4..5]).await.len(), 1, "half of it");
        drop(taken);
        for waiting in waits {
            assert!(in_time(waiting).await.is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn blocks_that_wait_for_a_slow_disk_hold_up_no_block_for_another_one() {
        let uploads = Uploads::new(64 * MIB, MIB, MIB);
        let [slow, well] = [(); 2].map(|()| BlockMemory::of(64 * MIB));
        let [full, other] = ["full", "other"].map(|app| AppId::new(app).unwrap());
        let connections: Vec<Pool> = (0..8).map(|_| uploads.share()).collect();
        let reserve = |disk, app, connection: usize, mib| {
            BlockMemory::reserve_large(disk, &uploads, app, &connections[connection], mib * MIB)
        };
        let lose_shares = async |waits: &mut Pin<Box<_>>, taken, left_mib: [u64; 2]| {
            assert!(in_time(&mut *waits).await.is_none(), "the disk is taken");
            let mut crowd = Vec::new();
            for (connection, mib) in connections[4..6].iter().zip(left_mib) {
                let memory = uploads.reserve(&full, connection, mib * MIB);
                crowd.push(in_time(memory).await.unwrap());
            }
            drop(taken);
            assert!(in_time(waits).await.is_none(), "no share is left");
        };
        let taken = in_time(reserve(&slow, &other, 0, 16)).await.unwrap();
        let mut for_slow = Box::pin(reserve(&slow, &full, 1, 16));
        lose_shares(&mut for_slow, taken, [16, 16]).await;
        let _hangs = in_time(reserve(&slow, &other, 2, 16)).await.unwrap();
        assert!(in_time(&mut for_slow).await.is_none());
        let taken = in_time(reserve(&well, &other, 3, 16)).await.unwrap();
        let mut for_well = Box::pin(reserve(&well, &full, 6, 8));
        lose_shares(&mut for_well, taken, [8, 8]).await;
        assert!(in_time(for_well).await.is_some());
    }
}
