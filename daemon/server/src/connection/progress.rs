// SPDX-License-Identifier: Apache-2.0
//! How fast a client takes its answers, or sends its request. A client that moves a few bytes every
//! few seconds is never quiet for long, and would keep its place for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::pace::WINDOW;
use crate::service::clock;

/// A client is slow if it moves fewer bytes while the daemon waits for it for [`WINDOW`]. If 4,096
/// clients share a network of 1 Gbit/s, each of them moves about four times as many.
pub(super) const LEAST_BYTES: usize = 64 << 10;

/// What the client moved since the daemon first had to wait for it. Only the time counts in which
/// the daemon waits for the client: a disk may be slow as well.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Moved>);

#[derive(Debug, Default)]
struct Moved {
    bytes: usize,
    waited: Duration,
    /// Since when the daemon waits for the client.
    since: Option<Instant>,
}

impl Moved {
    fn waited(&self) -> Duration {
        self.waited + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Progress {
    /// Waits until the client moves bytes.
    pub(super) async fn wait<T>(&self, awaited: impl Future<Output = T>) -> T {
        self.state().since = Some(clock::now());
        let _end = End(self);
        awaited.await
    }

    /// The client moved bytes. When it has moved enough of them, it is judged by those that follow.
    pub(super) fn moved(&self, bytes: usize) {
        let mut state = self.state();
        state.bytes += bytes;
        if state.bytes >= LEAST_BYTES {
            *state = Moved::default();
        }
    }

    /// The client has nothing to move.
    pub(super) fn done(&self) {
        *self.state() = Moved::default();
    }

    /// The daemon waits for the client, and has done so for long without getting rid of much.
    pub(super) fn is_slow(&self) -> bool {
        let state = self.state();
        state.since.is_some() && state.waited() >= WINDOW
    }

    fn state(&self) -> MutexGuard<'_, Moved> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a wait, also if nobody waits for it any more.
struct End<'a>(&'a Progress);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waited = state.waited();
        state.since = None;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, pause};

    use super::*;

    async fn wait(progress: &Progress, time: Duration) -> bool {
        progress
            .wait(async {
                advance(time).await;
                progress.is_slow()
            })
            .await
    }

    #[tokio::test]
    async fn a_client_is_slow_if_it_moves_little_while_the_daemon_waits_for_it() {
        pause();
        let progress = Progress::default();
        assert!(!wait(&progress, WINDOW / 2).await);
        progress.moved(LEAST_BYTES - 1);
        advance(WINDOW * 9).await;
        assert!(!progress.is_slow(), "the daemon does not wait for it");
        assert!(wait(&progress, WINDOW / 2).await);
        progress.moved(1);
        assert!(!wait(&progress, WINDOW / 2).await, "it moved enough");
        progress.moved(1);
        assert!(wait(&progress, WINDOW / 2).await);
        progress.done();
        assert!(!wait(&progress, WINDOW / 2).await);
    }
}
