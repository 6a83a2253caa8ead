// SPDX-License-Identifier: Apache-2.0
//! A daemon that is asked to stop writes out the data of remote shuffles in memory while it still
//! serves. The rest, which it writes after it has closed, takes a moment and not minutes: clients
//! wait for half a minute, and then run again the maps whose outputs exist nowhere else.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lodestone_store::{Outcome, STEP_BYTES, Store};
use tokio::sync::watch;
use tokio::time::timeout;

use super::shutdown::Stop;

/// Give up if the remaining bytes have not decreased for this long: pushes come in as fast as the
/// disks write, or a disk stands still. It cannot be less: the whole tail of a partition is one
/// write.
const NO_LESS_FOR: Duration = Duration::from_secs(30);

/// The same when no push comes any more: the store takes a disk out of use after this time without
/// a write, and the other disks take its data.
const NO_LESS_AT_THE_END: Duration = Duration::from_secs(15);

/// The longest time in all. A supervisor waits some minutes (systemd's `TimeoutStopSec`), and then
/// kills the daemon. At 80 MB/s this is enough for 18 GiB.
const LIMIT: Duration = Duration::from_secs(240);

/// How often the remaining bytes are counted while the disks write.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Why it came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Little is left, or no disk takes data.
    Done,
    /// It does not become less.
    NoLess,
    /// The limit.
    TooLong,
    /// Somebody wants it closed now.
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
    let first = store.unwritten_bytes();
    if first > STEP_BYTES {
        tracing::info!(
            bytes = first,
            "writes out the data in memory, and serves meanwhile; asked again it closes at once"
        );
        stop.prepare();
        let began_ms = store.now_ms();
        let left_in = started(&store, STEP_BYTES);
        let ending = tokio::select! {
            ending = follow(left_in.clone(), NO_LESS_FOR) => ending,
            _ = closing.wait_for(|closing| *closing) => Ending::Hurried,
        };
        let left = *left_in.borrow();
        let seconds = (store.now_ms() - began_ms) as f64 / 1000.0;
        tracing::info!(first, left, seconds, ?ending, "written out before closing");
    }
    stop.now();
}

/// Writes out the rest. Each disk has its thread, so that one that hangs costs its own data only.
pub(super) async fn rest(store: &Arc<Store>) {
    if store.unwritten_bytes() == 0 {
        return;
    }
    let left_in = started(store, 0);
    let ending = follow(left_in.clone(), NO_LESS_AT_THE_END).await;
    let left = *left_in.borrow();
    if left > 0 {
        tracing::warn!(
            left,
            ?ending,
            "not all of the data in memory could be written"
        );
    }
}

/// Starts to write until at most `enough` bytes are left, and returns the smallest number of bytes
/// that were left. The end of its sender is the end of the writing.
fn started(store: &Arc<Store>, enough: u64) -> watch::Receiver<u64> {
    let (left_out, left_in) = watch::channel(store.unwritten_bytes());
    let store = Arc::clone(store);
    // A thread of its own: requests may have all threads of the runtime.
    let started = thread::Builder::new()
        .name("write-out".to_owned())
        .spawn(move || write_out(&store, enough, &left_out));
    if let Err(error) = started {
        tracing::warn!(%error, "nothing is written out before closing");
    }
    left_in
}

/// Lets the disks' threads write until little is left, nothing more can be written, or nobody
/// waits for it.
fn write_out(store: &Store, enough: u64, left_out: &watch::Sender<u64>) {
    let mut outcome = Outcome::Waits;
    while *left_out.borrow() > enough && outcome != Outcome::Freed(0) && !left_out.is_closed() {
        // If one disk is slow or hangs, this calls the others again.
        store.call_to_write_out();
        outcome = store.wait_for_writes(COUNT_EVERY);
        let left = store.unwritten_bytes();
        left_out.send_if_modified(|least| {
            let is_less = left < *least;
            *least = left.min(*least);
            is_less
        });
    }
}

/// Waits for the end of the sender, as long as there is progress.
async fn follow(mut left_in: watch::Receiver<u64>, no_less_for: Duration) -> Ending {
    let progress = async {
        loop {
            match timeout(no_less_for, left_in.changed()).await {
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
