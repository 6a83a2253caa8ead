// SPDX-License-Identifier: Apache-2.0
//! The memory for the open streams of one connection, and the requests that wait for some of it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Requests of one connection that wait, if each has at most [`WAITING_BYTES`]; larger ones count
/// for several. They keep permits and memory of the connection, which the chunks of open streams
/// need: without those no stream ends.
pub const MAX_WAITING: usize = 16;

/// Bytes of a request that count as one.
pub const WAITING_BYTES: usize = 64 << 10;

/// The room of a connection.
#[derive(Debug)]
pub struct Room {
    used_bytes: AtomicUsize,
    freed: Notify,
    waiting: Arc<Semaphore>,
}

/// Something that takes room until it is dropped: for a stream, when its last chunk was sent.
#[derive(Debug)]
pub struct Taken<T> {
    content: T,
    bytes: usize,
    room: Arc<Room>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            used_bytes: AtomicUsize::default(),
            freed: Notify::default(),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }
}

impl Room {
    /// Returns `None` if there is not enough room. Not to be called by two threads at once.
    pub(super) fn take<T>(
        self: &Arc<Self>,
        content: T,
        bytes: usize,
        max: usize,
    ) -> Option<Taken<T>> {
        if self.used_bytes.load(Relaxed) + bytes > max {
            return None;
        }
        self.used_bytes.fetch_add(bytes, Relaxed);
        Some(Taken {
            content,
            bytes,
            room: Arc::clone(self),
        })
    }

    /// Allows a request of this size to wait, if not too many do.
    pub(crate) fn wait(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(bytes.div_ceil(WAITING_BYTES)).ok()?;
        let waiting = Arc::clone(&self.waiting);
        waiting.try_acquire_many_owned(count.max(1)).ok()
    }

    /// Ends when a stream ends after this call, once it is enabled or awaited.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}

impl<T> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.room.used_bytes.fetch_sub(self.bytes, Relaxed);
        self.room.freed.notify_waiters();
    }
}
