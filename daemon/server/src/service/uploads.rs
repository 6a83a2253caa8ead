// SPDX-License-Identifier: Apache-2.0
//! Memory for uploads and large frames on their way. Each connection and each application has a
//! share of it. Small uploads and large frames have memory of their own: small uploads do not wait
//! behind the large ones of others, and the body of an upload does not wait behind frames.

use lodestone_model::AppId;
use lodestone_planted::{self as planted, Bug};

use super::pool::{Pool, Reserved};
use super::shared_pool::{PART_OF_CONNECTION, SharedPool};

/// Uploads of at most this size are small.
const SMALL_BYTES: u64 = 64 << 10;

/// Frames may have this part of the memory for large uploads.
const PART_LENT: u64 = 4;

/// All memory for uploads.
#[derive(Debug)]
pub struct Uploads {
    large: SharedPool,
    small: Pool,
    frames: Pool,
    /// The part of `large` that frames may have when nobody uses it.
    lent: Pool,
}

impl Uploads {
    /// Memory for large uploads, for small ones, and for large frames.
    pub fn new(large_bytes: u64, small_bytes: u64, frame_bytes: u64) -> Self {
        Self {
            large: SharedPool::new(large_bytes),
            small: Pool::new(small_bytes),
            frames: Pool::new(frame_bytes),
            lent: Pool::new(large_bytes / PART_LENT),
        }
    }

    /// The most that one upload may have.
    pub fn most_bytes(&self) -> u64 {
        self.large.capacity_bytes()
    }

    /// Bytes of all uploads and frames together.
    pub fn capacity_bytes(&self) -> u64 {
        let uploads = self.large.capacity_bytes() + self.small.capacity_bytes();
        uploads + self.frames.capacity_bytes()
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        self.large.used_bytes() + self.small.used_bytes() + self.frames.used_bytes()
    }

    /// The share of a new connection.
    pub(crate) fn share(&self) -> Pool {
        self.large.share()
    }

    /// The share of a new connection of the memory for frames.
    pub(crate) fn share_of_frames(&self) -> Pool {
        self.frames.share(PART_OF_CONNECTION)
    }

    /// Waits for the memory of a large frame, unless uploads can lend some now.
    /// It is not known yet of which application the frame is.
    pub(crate) async fn reserve_frame(&self, connection: &Pool, bytes: u64) -> Vec<Reserved> {
        if planted::is(Bug::FramesShareUploads) {
            return self.large.reserve_for_unknown(connection, bytes).await;
        }
        let of_connection = connection.reserve(bytes).await;
        let now = self.frames.try_reserve(bytes);
        let now = now.map(|own| vec![own]).or_else(|| self.try_lend(bytes));
        let mut reserved = match now {
            Some(reserved) => reserved,
            None => vec![self.frames.reserve(bytes).await],
        };
        reserved.push(of_connection);
        reserved
    }

    fn try_lend(&self, bytes: u64) -> Option<Vec<Reserved>> {
        let lent = self.lent.try_reserve(bytes)?;
        Some(vec![self.large.try_reserve_for_unknown(bytes)?, lent])
    }

    /// Waits for the memory of an upload.
    pub(crate) async fn reserve(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Vec<Reserved> {
        if bytes <= SMALL_BYTES {
            let now = self.small.try_reserve(bytes).map(|small| vec![small]);
            return match now.or_else(|| self.large.try_reserve(app, connection, bytes)) {
                Some(reserved) => reserved,
                None => vec![self.small.reserve(bytes).await],
            };
        }
        self.large.reserve(app, connection, bytes).await
    }

    /// Takes memory of small uploads that is free now.
    pub(crate) fn try_small(&self, bytes: u64) -> Option<Reserved> {
        let fits = bytes <= self.small.capacity_bytes();
        self.small.try_reserve(bytes).filter(|_| fits)
    }
}
