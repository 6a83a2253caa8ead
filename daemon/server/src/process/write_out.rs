// SPDX-License-Identifier: Apache-2.0
//! A daemon that is asked to stop writes out the data of remote shuffles in memory while it still
//! serves. The rest, which it writes after it has closed, takes a moment and not minutes: clients
//! wait for half a minute, and then run again the maps whose outputs exist nowhere else.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lodestone_store::{STEP_BYTES, Store};
use tokio::sync::watch;
use tokio::time::timeout;

use super::shutdown::Stop;

/// Give up if the remaining bytes have not decreased for this long: pushes come in as fast as the
/// disk writes, or the disk stands still. It cannot be less: the whole tail of a partition is one
/// write.
const NO_LESS_FOR: Duration = Duration::from_secs(30);

/// The longest time in all. A supervisor waits some minutes (systemd's `TimeoutStopSec`), and then
/// kills the daemon. At 80 MB/s this is enough for 18 GiB.
const LIMIT: Duration = Duration::from_secs(240);

/// How far it is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    written: u64,
    /// The smallest number of bytes that were left.
    left: u64,
}

/// Why it came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Little is left, or no disk takes data.
    Done,
    /// It does not become less.
    NoLess,
    /// The limit.
    TooLong,
    /// A second signal came.
    Hurried,
}

/// Waits until the daemon is asked to stop, writes out what it can, and closes it. Returns without
/// a write if the daemon closes before.
pub(crate) async fn when_asked(store: Arc<Store>, stop: Stop) {
    let mut closing = stop.watch();
    tokio::select! {
        () = stop.asked() => {}
        _ = closing.wait_for(|closing| *closing) => return,
    }
    let (progress_out, progress_in) = watch::channel(Progress::default());
    let began_ms = store.now_ms();
    let (shared, stopping) = (Arc::clone(&store), stop.clone());
    // A thread of its own: requests that wait for the same disk may have all threads of the pool.
    let started = thread::Builder::new()
        .name("write-out".to_owned())
        .spawn(move || write_out(&shared, &stopping, &progress_out));
    if let Err(error) = started {
        tracing::warn!(%error, "nothing is written out before closing");
    }
    let ending = tokio::select! {
        ending = follow(progress_in.clone()) => ending,
        _ = closing.wait_for(|closing| *closing) => Ending::Hurried,
    };
    let Progress { written, left } = *progress_in.borrow();
    if stop.is_prepared() {
        let seconds = (store.now_ms() - began_ms) as f64 / 1000.0;
        tracing::info!(
            written,
            left,
            seconds,
            ?ending,
            "written out before closing"
        );
    }
    stop.now();
}

/// Writes until little is left, no disk takes data, or the daemon closes.
fn write_out(store: &Store, stop: &Stop, progress_out: &watch::Sender<Progress>) {
    let first = store.unwritten_bytes();
    if first <= STEP_BYTES {
        return;
    }
    tracing::info!(
        bytes = first,
        "the daemon writes out its memory and serves meanwhile; a second signal closes it at once"
    );
    stop.prepare();
    progress_out.send_modify(|progress| progress.left = first);
    while !*stop.watch().borrow() {
        let written = match store.write_some_out() {
            Ok(0) => return,
            Ok(written) => written,
            Err(code) => {
                tracing::warn!(%code, "no disk takes the data in memory");
                return;
            }
        };
        let left = store.unwritten_bytes();
        progress_out.send_if_modified(|progress| {
            progress.written += written;
            let is_less = left < progress.left;
            progress.left = progress.left.min(left);
            is_less
        });
        if left <= STEP_BYTES {
            return;
        }
    }
}

/// Waits for the end of the sender, as long as there is progress.
async fn follow(mut progress_in: watch::Receiver<Progress>) -> Ending {
    let progress = async {
        loop {
            match timeout(NO_LESS_FOR, progress_in.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Ending::Done,
                Err(_) => return Ending::NoLess,
            }
        }
    };
    timeout(LIMIT, progress).await.unwrap_or(Ending::TooLong)
}

#[cfg(test)]
mod tests;
