// SPDX-License-Identifier: Apache-2.0
//! How fast a client takes its answers, or sends its request. A client that moves a few bytes every
//! few seconds is never quiet for long, and would keep its place without this measure.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::pace::WINDOW;
use crate::service::clock;

/// A client is slow if it moves fewer bytes while the daemon waits for it for [`WINDOW`]. If 4,096
/// clients share a network of 1 Gbit/s, each of them moves about four times as many.
pub(super) const LEAST_BYTES: usize = 64 << 10;

/// A network of 1 Gbit/s moves so many bytes a second.
const LINK_BYTES: usize = 100 << 20;

/// The least and the most bytes a second that are a fair part of a network: that of 4,096 clients,
/// and of four hundred.
pub(super) const LEAST_PART: usize = 24 << 10;
pub(super) const MOST_PART: usize = 256 << 10;

/// Returns how many bytes a second a client takes that holds memory of answers, if others wait for
/// it: its part of a network that so many connections share. More would end honest ones.
pub(super) fn fair_part(connections: usize) -> usize {
    (LINK_BYTES / connections.max(1)).clamp(LEAST_PART, MOST_PART)
}

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
    /// How far the client is behind its [`fair_part`]. Bytes that it takes faster do not count
    /// later.
    behind: Duration,
    /// Since when the daemon waits for the client, which has memory.
    behind_since: Option<Instant>,
}

impl Moved {
    /// Begins again with what makes a client slow.
    fn forget(&mut self) {
        (self.bytes, self.waited, self.since) = (0, Duration::ZERO, None);
    }

    fn waited(&self) -> Duration {
        self.waited + elapsed(self.since)
    }

    fn behind(&self) -> Duration {
        self.behind + elapsed(self.behind_since)
    }
}

/// How long a wait lasts now.
fn elapsed(since: Option<Instant>) -> Duration {
    since.map_or(Duration::ZERO, |since| since.elapsed())
}

impl Progress {
    /// Waits until the client moves bytes.
    pub(super) async fn wait<T>(&self, awaited: impl Future<Output = T>) -> T {
        let since = Some(clock::now());
        {
            let mut state = self.state();
            (state.since, state.behind_since) = (since, since);
        }
        let _end = End(self);
        awaited.await
    }

    /// The client moved bytes while so many connections were open. When it has moved enough of
    /// them, it is judged by those that follow.
    pub(super) fn moved(&self, bytes: usize, connections: usize) {
        let mut state = self.state();
        state.bytes += bytes;
        let time = Duration::from_secs_f64(bytes as f64 / fair_part(connections) as f64);
        state.behind = state.behind.saturating_sub(time);
        if state.bytes >= LEAST_BYTES {
            state.forget();
        }
    }

    /// The client holds memory from now on. It had no reason to be fast before, also if the daemon
    /// waits for it already.
    pub(super) fn holds(&self) {
        let mut state = self.state();
        state.behind = Duration::ZERO;
        state.behind_since = state.behind_since.map(|_| clock::now());
    }

    /// The client has nothing to move.
    pub(super) fn done(&self) {
        *self.state() = Moved::default();
    }

    /// How long the daemon has waited for the client since it last moved much; `None`: it does not
    /// wait now.
    pub(super) fn waits(&self) -> Option<Duration> {
        let state = self.state();
        state.since.map(|_| state.waited())
    }

    /// The daemon waits for the client, and has done so for long without getting rid of much.
    pub(super) fn is_slow(&self) -> bool {
        let state = self.state();
        state.since.is_some() && state.waited() >= WINDOW
    }

    /// The daemon waits for the client, which is [`WINDOW`] behind: N bytes take it at most that
    /// long and N / [`fair_part`] seconds.
    pub(super) fn is_behind(&self) -> bool {
        let state = self.state();
        state.since.is_some() && state.behind() >= WINDOW
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
        (state.waited, state.behind) = (state.waited(), state.behind());
        (state.since, state.behind_since) = (None, None);
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
        progress.moved(LEAST_BYTES - 1, 1);
        advance(WINDOW * 9).await;
        assert!(!progress.is_slow(), "the daemon does not wait for it");
        assert!(wait(&progress, WINDOW / 2).await);
        progress.moved(1, 1);
        assert!(!wait(&progress, WINDOW / 2).await, "it moved enough");
        progress.moved(1, 1);
        assert!(wait(&progress, WINDOW / 2).await);
        progress.done();
        assert!(!wait(&progress, WINDOW / 2).await);
    }

    #[tokio::test]
    async fn a_client_that_gets_memory_has_all_of_its_time_from_then_on() {
        pause();
        let progress = Progress::default();
        let moment = Duration::from_millis(100);
        let looks = async {
            advance(WINDOW - moment).await;
            progress.holds();
            advance(WINDOW - moment).await;
            assert!(!progress.is_behind());
            advance(moment).await;
            assert!(progress.is_behind());
        };
        progress.wait(looks).await;
    }

    /// True if a client falls behind that takes so many bytes each time that so much time has
    /// passed, while so many connections are open.
    async fn falls_behind(connections: usize, bytes: usize, every: Duration) -> bool {
        let progress = Progress::default();
        progress.holds();
        for _ in 0..100 {
            let looks = async {
                advance(every).await;
                progress.is_behind()
            };
            if progress.wait(looks).await {
                return true;
            }
            progress.moved(bytes, connections);
        }
        false
    }

    #[tokio::test]
    async fn a_client_has_to_take_its_part_of_a_network_that_all_connections_share() {
        pause();
        const SECOND: Duration = Duration::from_secs(1);
        assert!(
            !falls_behind(1000, 110 << 10, SECOND).await,
            "an honest one"
        );
        assert!(falls_behind(1000, 80 << 10, SECOND).await);
        assert!(falls_behind(10, 110 << 10, SECOND).await);
        assert!(!falls_behind(10, 260 << 10, SECOND).await);
        for connections in [0, 10, 1000, 4096, usize::MAX] {
            let often = WINDOW - Duration::from_millis(100);
            assert!(falls_behind(connections, LEAST_BYTES, often).await);
        }
    }
}
