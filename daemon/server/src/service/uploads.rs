// SPDX-License-Identifier: Apache-2.0
//! Memory for uploads and large frames on their way. Each connection and each application has a
//! share of it. Small uploads have memory of their own: they do not wait behind the large ones of
//! others.

use lodestone_model::AppId;

use super::pool::{Pool, Reserved};
use super::shares::Shares;

/// Uploads of at most this size are small.
const SMALL_BYTES: u64 = 64 << 10;

/// One connection may hold a quarter of the memory.
const PART_OF_CONNECTION: u64 = 4;

/// One application may hold half of the memory.
const PART_OF_APPLICATION: u64 = 2;

/// All memory for uploads.
#[derive(Debug)]
pub struct Uploads {
    large: Pool,
    small: Pool,
    /// What each application may hold.
    of_applications: Shares,
}

impl Uploads {
    /// Memory for large uploads and frames, and for small uploads.
    pub fn new(large_bytes: u64, small_bytes: u64) -> Self {
        Self {
            large: Pool::new(large_bytes),
            small: Pool::new(small_bytes),
            of_applications: Shares::new(PART_OF_APPLICATION),
        }
    }

    /// The most that one upload may have.
    pub fn most_bytes(&self) -> u64 {
        self.large.capacity_bytes()
    }

    /// Bytes of all uploads together.
    pub fn capacity_bytes(&self) -> u64 {
        self.large.capacity_bytes() + self.small.capacity_bytes()
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        self.large.used_bytes() + self.small.used_bytes()
    }

    /// The share of a new connection.
    pub(crate) fn share(&self) -> Pool {
        self.large.share(PART_OF_CONNECTION)
    }

    /// Waits for the memory of a large frame. It is not known yet of which application it is.
    pub(crate) async fn reserve_frame(&self, connection: &Pool, bytes: u64) -> Vec<Reserved> {
        let of_connection = connection.reserve(bytes).await;
        vec![self.large.reserve(bytes).await, of_connection]
    }

    /// Waits for the memory of an upload. An upload that is larger than a share gets in when it has
    /// all of the share.
    pub(crate) async fn reserve(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Vec<Reserved> {
        if bytes <= SMALL_BYTES {
            let now = self.small.try_reserve(bytes).map(|small| vec![small]);
            return match now.or_else(|| self.try_large(app, connection, bytes)) {
                Some(reserved) => reserved,
                None => vec![self.small.reserve(bytes).await],
            };
        }
        // The shares come first: a client with many uploads waits for its own.
        let of_connection = connection.reserve(bytes).await;
        let of_application = self.of_application(app).reserve(bytes).await;
        vec![
            self.large.reserve(bytes).await,
            of_application,
            of_connection,
        ]
    }

    /// Takes memory of small uploads that is free now.
    pub(crate) fn try_small(&self, bytes: u64) -> Option<Reserved> {
        let fits = bytes <= self.small.capacity_bytes();
        self.small.try_reserve(bytes).filter(|_| fits)
    }

    fn try_large(&self, app: &AppId, connection: &Pool, bytes: u64) -> Option<Vec<Reserved>> {
        let of_connection = connection.try_reserve(bytes)?;
        let of_application = self.of_application(app).try_reserve(bytes)?;
        let large = self.large.try_reserve(bytes)?;
        Some(vec![large, of_application, of_connection])
    }

    fn of_application(&self, app: &AppId) -> Pool {
        self.of_applications.of(&self.large, app)
    }
}
