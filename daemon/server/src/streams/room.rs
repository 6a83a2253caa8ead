// SPDX-License-Identifier: Apache-2.0
//! The memory for the open streams of one connection, and the requests that wait for some of it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Requests of one connection that wait: half of those that may be in work. The chunks of open
/// streams need the others; without those no stream ends.
pub const MAX_WAITING: usize = 32;

/// The room of a connection.
#[derive(Debug)]
pub struct Room {
    used_bytes: AtomicUsize,
    freed: Notify,
    has_ended: AtomicBool,
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
            has_ended: AtomicBool::default(),
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

    /// Allows one more request to wait, if not too many do, and the connection goes on.
    pub(crate) fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().ok();
        waiting.filter(|_| !self.has_ended())
    }

    /// Ends when a stream or the connection ends after this call, once it is enabled or awaited.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// The connection ends: nothing waits any more.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Relaxed);
        self.freed.notify_waiters();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
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
