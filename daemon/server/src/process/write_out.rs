// SPDX-License-Identifier: Apache-2.0
//! A daemon that is asked to stop writes out the data of remote shuffles in memory while it still
//! serves. The rest, which it writes after it has closed, takes a moment and not minutes: clients
//! wait for half a minute, and then run again the maps whose outputs exist nowhere else.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use lodestone_store::{STEP_BYTES, Store};
use tokio::sync::watch;
use tokio::time::timeout;

use super::shutdown::Stop;

/// Give up if the remaining bytes have not decreased for this long: pushes come in as fast as the
/// disks write, or a disk stands still and the others have nothing left to write.
const NO_LESS_FOR: Duration = Duration::from_secs(30);

/// The longest time in all. A supervisor waits some minutes (systemd's `TimeoutStopSec`), and then
/// kills the daemon. At 80 MB/s this is enough for 18 GiB.
const LIMIT: Duration = Duration::from_secs(240);

/// How often the remaining bytes are counted while the disks write.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The reason why writing out ended.
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

/// Waits until the daemon is asked to stop, writes out what it can, and closes it. Writes nothing
/// if the daemon closes before, or the next one would not take it over.
pub(crate) async fn when_asked(store: Arc<Store>, stop: Stop) {
    let mut closing = stop.watch();
    tokio::select! {
        () = stop.asked() => {}
        _ = closing.wait_for(|closing| *closing) => return,
    }
    let first = store.unwritten_bytes();
    if first > STEP_BYTES && store.hands_over() {
        tracing::info!(
            bytes = first,
            "the daemon writes out its memory and serves meanwhile; a second signal closes it at once"
        );
        stop.prepare();
        let began_ms = store.now_ms();
        let (going, left_in) = start(&store, first);
        let ending = tokio::select! {
            ending = follow(left_in.clone()) => ending,
            _ = closing.wait_for(|closing| *closing) => Ending::Hurried,
        };
        drop(going);
        let left = *left_in.borrow();
        let seconds = (store.now_ms() - began_ms) as f64 / 1000.0;
        tracing::info!(first, left, seconds, ?ending, "written out before closing");
    }
    stop.now();
}

/// Begins to call the threads of the disks, until the first result is dropped. The second one is
/// the smallest number of bytes that were left.
fn start(store: &Arc<Store>, first: u64) -> (mpsc::Sender<()>, watch::Receiver<u64>) {
    let (left_out, left_in) = watch::channel(first);
    let (going, goes_on) = mpsc::channel();
    let store = Arc::clone(store);
    // A thread of its own: requests may have all threads of the pool.
    let started = thread::Builder::new()
        .name("write-out".to_owned())
        .spawn(move || write_out(&store, &left_out, &goes_on));
    if let Err(error) = started {
        tracing::warn!(%error, "nothing is written out before closing");
    }
    (going, left_in)
}

/// Lets the threads of the disks write until little is left, no disk takes the rest, or the caller
/// has no more time.
fn write_out(store: &Store, left_out: &watch::Sender<u64>, goes_on: &mpsc::Receiver<()>) {
    let mut pause = Duration::ZERO;
    while goes_on.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        // Also if one of them is slow, or hangs: the others are called again.
        store.call_to_write_out();
        let is_done = store.wait_until_written(COUNT_EVERY);
        let left = store.unwritten_bytes();
        let is_less = left_out.send_if_modified(|least| {
            let is_less = left < *least;
            *least = left.min(*least);
            is_less
        });
        if left <= STEP_BYTES {
            return;
        }
        // Otherwise its partitions are in use.
        pause = match is_done && !is_less {
            true if !store.takes_writes() => {
                tracing::warn!(left, "no disk takes the data in memory");
                return;
            }
            true => COUNT_EVERY,
            false => Duration::ZERO,
        };
    }
}

/// Waits for the end of the sender, as long as there is progress.
async fn follow(mut left_in: watch::Receiver<u64>) -> Ending {
    let progress = async {
        loop {
            match timeout(NO_LESS_FOR, left_in.changed()).await {
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
