// SPDX-License-Identifier: Apache-2.0
//! Memory for uploads and large frames on their way. Each connection and each application has a
//! share of it. Small uploads and frames have memory of their own: small uploads do not wait behind
//! the large ones of others, and no upload waits behind a frame that is not complete.

use lodestone_model::AppId;
use lodestone_planted::{self as planted, Bug};

use super::pool::{Pool, Reserved};
use super::shared_pool::SharedPool;

/// Uploads of at most this size are small.
const SMALL_BYTES: u64 = 64 << 10;

/// All memory for uploads.
#[derive(Debug)]
pub struct Uploads {
    large: SharedPool,
    small: Pool,
    frames: SharedPool,
}

impl Uploads {
    /// Memory for large uploads, for small ones, and for large frames.
    pub fn new(large_bytes: u64, small_bytes: u64, frame_bytes: u64) -> Self {
        Self {
            large: SharedPool::new(large_bytes),
            small: Pool::new(small_bytes),
            frames: SharedPool::new(frame_bytes),
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
        self.frames.share()
    }

    /// Waits for the memory of a large frame. It is not known yet of which application it is.
    pub(crate) async fn reserve_frame(&self, connection: &Pool, bytes: u64) -> Vec<Reserved> {
        let pool = match planted::is(Bug::FramesShareUploads) {
            true => &self.large,
            false => &self.frames,
        };
        pool.reserve_for_unknown(connection, bytes).await
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
