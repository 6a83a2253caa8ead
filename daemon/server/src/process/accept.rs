// SPDX-License-Identifier: Apache-2.0
//! Clients that connect, one after another.

use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// Pause after an accept that failed, for instance because file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Returns the next client, or `None` when the switch is thrown.
pub async fn next<T, F>(accept: impl Fn() -> F, stop: &mut watch::Receiver<bool>) -> Option<T>
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        let accepted = tokio::select! {
            accepted = accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return None,
        };
        match accepted {
            Ok(client) => return Some(client),
            Err(error) => pause_after(error).await,
        }
    }
}

/// Waits before the next accept.
pub async fn pause_after(error: io::Error) {
    tracing::warn!(%error, "accept failed");
    sleep(ACCEPT_PAUSE).await;
}
