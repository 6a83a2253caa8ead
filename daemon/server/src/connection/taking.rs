// SPDX-License-Identifier: Apache-2.0
//! How fast a client takes its answers. One that takes a few bytes now and then is never quiet for
//! long, and would keep its place for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::pace::{LEAST_BYTES, WINDOW};
use crate::service::clock;

/// What the client took since the daemon first had to wait for it. Only the time counts in which
/// the daemon waits for the client: a disk may be slow as well.
#[derive(Debug, Default)]
pub(super) struct Taking(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    waited: Duration,
    /// Since when the daemon waits for the client.
    since: Option<Instant>,
}

impl Taken {
    fn waited(&self) -> Duration {
        self.waited + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Taking {
    /// Waits until the client takes bytes.
    pub(super) async fn wait<T>(&self, awaited: impl Future<Output = T>) -> T {
        self.taken().since = Some(clock::now());
        let _end = End(self);
        awaited.await
    }

    /// The client took bytes. When it has taken enough of them, it is judged by those that follow.
    pub(super) fn took(&self, bytes: usize) {
        let mut taken = self.taken();
        taken.bytes += bytes;
        if taken.bytes >= LEAST_BYTES {
            *taken = Taken::default();
        }
    }

    /// There is no other answer for the client.
    pub(super) fn took_all(&self) {
        *self.taken() = Taken::default();
    }

    /// The daemon waits for the client, and has done so for long without getting rid of much.
    pub(super) fn is_slow(&self) -> bool {
        let taken = self.taken();
        taken.since.is_some() && taken.waited() >= WINDOW
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a wait, also if nobody waits for it any more.
struct End<'a>(&'a Taking);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.taken();
        taken.waited = taken.waited();
        taken.since = None;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, pause};

    use super::*;

    async fn wait(taking: &Taking, time: Duration) -> bool {
        taking
            .wait(async {
                advance(time).await;
                taking.is_slow()
            })
            .await
    }

    #[tokio::test]
    async fn a_client_is_slow_if_it_takes_little_while_the_daemon_waits_for_it() {
        pause();
        let taking = Taking::default();
        assert!(!wait(&taking, WINDOW / 2).await);
        taking.took(LEAST_BYTES - 1);
        advance(WINDOW * 9).await;
        assert!(!taking.is_slow(), "the daemon does not wait for it");
        assert!(wait(&taking, WINDOW / 2).await);
        taking.took(1);
        assert!(!wait(&taking, WINDOW / 2).await, "it took enough");
        taking.took(1);
        assert!(wait(&taking, WINDOW / 2).await);
        taking.took_all();
        assert!(!wait(&taking, WINDOW / 2).await);
    }
}
