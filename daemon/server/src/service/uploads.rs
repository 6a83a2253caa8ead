// SPDX-License-Identifier: Apache-2.0
//! Memory for uploads and large frames on their way. Each connection and each application has a
//! share of it. Small uploads and large frames have memory of their own: small uploads do not wait
//! behind the large ones of others, and the body of an upload does not wait behind frames. The
//! frames of uploads do not wait behind other requests, which have their memory until they are
//! carried out.

use super::line::{Hurry, Line};
use super::pool::{Pool, Reserved};
use super::shared_pool::{PART_OF_CONNECTION, SharedPool};
use lodestone_model::AppId;

/// Uploads of at most this size are small.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;

/// Frames may have this part of the memory for large uploads.
const PART_LENT: u64 = 4;

/// What is in a large frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// An upload with its list of segments. It has its memory while the frame comes.
    Upload,
    /// Another request. It has its memory until it is carried out.
    Request,
}

/// The memory of bytes that come.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) reserved: Vec<Reserved>,
    /// Says when others wait for such memory.
    pub(crate) hurry: Hurry,
}

/// All memory for uploads.
#[derive(Debug)]
pub struct Uploads {
    large: SharedPool,
    small: Line,
    /// For the large frames of uploads, and of other requests.
    lists: Line,
    requests: Line,
    /// The part of `large` that frames may have when nobody uses it.
    lent: Pool,
}

impl Uploads {
    /// Memory for large uploads, for small ones, and for large frames, half of it for uploads.
    pub fn new(large_bytes: u64, small_bytes: u64, frame_bytes: u64) -> Self {
        Self {
            large: SharedPool::new(large_bytes),
            small: Line::new(small_bytes),
            lists: Line::new(frame_bytes / 2),
            requests: Line::new(frame_bytes / 2),
            lent: Pool::new(large_bytes / PART_LENT),
        }
    }

    /// Bytes that large uploads have, of [`Uploads::most_bytes`]. Small ones that find no memory of
    /// their own have some of it too.
    pub fn large_used_bytes(&self) -> u64 {
        self.large.used_bytes()
    }

    /// The most that one upload may have.
    pub fn most_bytes(&self) -> u64 {
        self.large.capacity_bytes()
    }

    /// Bytes of all uploads and frames together.
    pub fn capacity_bytes(&self) -> u64 {
        let uploads = self.large.capacity_bytes() + self.small.capacity_bytes();
        uploads + self.lists.capacity_bytes() + self.requests.capacity_bytes()
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        let uploads = self.large.used_bytes() + self.small.used_bytes();
        uploads + self.lists.used_bytes() + self.requests.used_bytes()
    }

    /// The share of a new connection.
    pub(crate) fn share(&self) -> Pool {
        self.large.share()
    }

    /// The share of a new connection of the memory for requests. A connection has one frame of an
    /// upload at a time.
    pub(crate) fn share_of_requests(&self) -> Pool {
        self.requests.share(PART_OF_CONNECTION)
    }

    /// Waits for the memory of a large frame, unless uploads can lend some now. The application of
    /// the frame is not known yet.
    pub(crate) async fn reserve_frame(
        &self,
        content: Content,
        connection: &Pool,
        bytes: u64,
    ) -> Incoming {
        let (line, of_connection) = match content {
            Content::Upload => (&self.lists, None),
            Content::Request => (&self.requests, Some(connection.reserve(bytes).await)),
        };
        let mut memory = match line.try_reserve(bytes) {
            Some(own) => Incoming::of(line, own),
            None => match self.try_lend(bytes) {
                Some(reserved) => self.of_large(reserved),
                None => Incoming::of(line, line.reserve(bytes).await),
            },
        };
        memory.reserved.extend(of_connection);
        memory
    }

    /// Takes memory of requests that is free now, for a small one.
    pub(crate) fn try_request(&self, bytes: u64) -> Option<Reserved> {
        self.requests.try_reserve(bytes)
    }

    /// Nothing is lent for a frame that needs more than may be lent.
    fn try_lend(&self, bytes: u64) -> Option<Vec<Reserved>> {
        let fits = bytes <= self.lent.capacity_bytes();
        let lent = self.lent.try_reserve(bytes).filter(|_| fits)?;
        Some(vec![self.large.try_reserve_for_unknown(bytes)?, lent])
    }

    /// Waits for the memory of an upload.
    pub(crate) async fn reserve(&self, app: &AppId, connection: &Pool, bytes: u64) -> Incoming {
        if bytes > SMALL_BYTES {
            return self.of_large(self.large.reserve(app, connection, bytes).await);
        }
        match self.small.try_reserve(bytes) {
            Some(small) => Incoming::of(&self.small, small),
            None => match self.large.try_reserve(app, connection, bytes) {
                Some(reserved) => self.of_large(reserved),
                None => Incoming::of(&self.small, self.small.reserve(bytes).await),
            },
        }
    }

    /// Waits for the shares of a large upload.
    pub(super) async fn reserve_shares(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> [Reserved; 2] {
        self.large.reserve_shares(app, connection, bytes).await
    }

    /// Takes shares of a large upload that are free now.
    pub(super) fn try_shares(
        &self,
        app: &AppId,
        connection: &Pool,
        bytes: u64,
    ) -> Option<[Reserved; 2]> {
        self.large.try_shares(app, connection, bytes)
    }

    /// Waits for the memory of a large upload that has these shares.
    pub(super) async fn reserve_large(&self, shares: [Reserved; 2], bytes: u64) -> Incoming {
        self.of_large(self.large.reserve_all(shares, bytes).await)
    }

    fn of_large(&self, reserved: Vec<Reserved>) -> Incoming {
        Incoming {
            reserved,
            hurry: self.large.hurry(),
        }
    }

    /// Takes memory of small uploads that is free now.
    pub(crate) fn try_small(&self, bytes: u64) -> Option<Reserved> {
        let fits = bytes <= self.small.capacity_bytes();
        self.small.try_reserve(bytes).filter(|_| fits)
    }
}

impl Incoming {
    fn of(line: &Line, reserved: Reserved) -> Self {
        Self {
            reserved: vec![reserved],
            hurry: line.hurry(),
        }
    }
}
