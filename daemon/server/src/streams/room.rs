// SPDX-License-Identifier: Apache-2.0
//! The requests of one connection that wait for memory for the list of a stream.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Requests of one connection that wait: half of those that may be in work. The chunks of open
/// streams need the others; without those no stream ends.
const MAX_WAITING: usize = 32;

/// The waiting requests of a connection.
#[derive(Debug)]
pub struct Room {
    waiting: Arc<Semaphore>,
    has_ended: watch::Sender<bool>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            has_ended: watch::Sender::new(false),
        }
    }
}

impl Room {
    /// Allows one more request to wait, if not too many do.
    pub(crate) fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.waiting).try_acquire_owned().ok()
    }

    /// The connection ends: nothing waits any more.
    pub(crate) fn end(&self) {
        self.has_ended.send_replace(true);
    }

    /// Returns when the connection has ended.
    pub(crate) async fn ended(&self) {
        let mut has_ended = self.has_ended.subscribe();
        // The sender is a part of this.
        let _ = has_ended.wait_for(|ended| *ended).await;
    }
}
