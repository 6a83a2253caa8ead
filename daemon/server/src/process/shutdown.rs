// SPDX-License-Identifier: Apache-2.0
//! Signals: the first SIGTERM or SIGINT asks for a clean end. If the daemon then writes out, the
//! next signal skips the rest of that, and the third ends the process at once. Otherwise the second
//! ends it at once.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lodestone_store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::log::Log;

/// Exit code after the last signal.
const FORCED_EXIT_CODE: i32 = 1;

/// Signals this close together are one wish: a supervisor that ends a process group, and then the
/// process itself, sends two.
const SAME_WISH: Duration = Duration::from_secs(1);

/// A handover that makes no progress for this long has met a disk that hangs. It waits 10 s for a
/// disk that is only slow.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(30);

/// Files on the disks of executors that nobody needs any more are deleted until then. Spark removes
/// the others with their directories.
const LAST_DELETIONS: Duration = Duration::from_secs(2);

/// The end of the daemon, in two switches that turn once each: the end is requested, and then it
/// comes.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: watch::Sender<bool>,
    /// There is something to do in between.
    is_prepared: watch::Sender<bool>,
    closing: watch::Sender<bool>,
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            asked: watch::Sender::new(false),
            is_prepared: watch::Sender::new(false),
            closing: watch::Sender::new(false),
        }
    }
}

impl Stop {
    /// Requests the end; the preparation comes first.
    pub fn ask(&self) {
        self.asked.send_replace(true);
    }

    /// The preparation has begun: the next request skips the rest of it. It must not end the
    /// process at once, even if the preparation is done by then.
    pub fn prepare(&self) {
        self.is_prepared.send_replace(true);
    }

    /// Returns true if the preparation has begun.
    pub fn is_prepared(&self) -> bool {
        *self.is_prepared.borrow()
    }

    /// Turns the other switch: every task that watches it closes, whatever is left of the
    /// preparation.
    pub fn now(&self) {
        self.closing.send_replace(true);
    }

    /// Returns when it is asked for.
    pub async fn asked(&self) {
        // An error would mean that the switch is gone; `self` is one.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }

    /// The other switch, to be watched.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }
}

/// Hands over what can be handed over. Meanwhile deletes on the disks of executors what is left.
pub(crate) async fn hand_over(store: Arc<Store>) -> io::Result<()> {
    let deletions = timeout(LAST_DELETIONS, delete_the_rest(&store));
    let (written, _in_time) = tokio::join!(write_handover(Arc::clone(&store)), deletions);
    written
}

/// Each disk has a thread, because it may hang.
async fn delete_the_rest(store: &Arc<Store>) {
    let mut deleting = Vec::new();
    for place in store.foreign_places_with_trash() {
        let (done, over) = oneshot::channel();
        let store = Arc::clone(store);
        let delete = move || {
            store.empty_trash_at(place);
            // Nobody waits if it took too long.
            let _ = done.send(());
        };
        let name = format!("delete-{place}");
        match thread::Builder::new().name(name).spawn(delete) {
            Ok(_) => deleting.push(over),
            Err(error) => tracing::warn!(%error, "files of removed shuffles stay on a disk"),
        }
    }
    for over in deleting {
        // An error is a panic, which is logged.
        let _ = over.await;
    }
}

/// Writes the handover. It has a thread and a time limit, because a disk may hang.
async fn write_handover(store: Arc<Store>) -> io::Result<()> {
    let (done, mut over) = oneshot::channel();
    let writing = Arc::clone(&store);
    thread::Builder::new()
        .name("hand-over".to_owned())
        .spawn(move || {
            writing.hand_over();
            // Nobody waits if it took too long.
            let _ = done.send(());
        })?;
    loop {
        let steps = store.write_steps();
        match timeout(HAND_OVER_TIMEOUT, &mut over).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => tracing::error!("the handover ended early: a bug of the daemon"),
            Err(_) if store.write_steps() != steps => continue,
            Err(_) => {
                tracing::warn!(
                    "a disk hangs: remote shuffles that are not in the handover yet are lost"
                );
                // The thread may keep the process, and with it the locks, until the disk goes on.
                store.unlock();
            }
        }
        return Ok(());
    }
}

/// Registers the handlers, and follows the signals in the background.
pub fn on_signals(stop: Stop, log: Arc<Log>) -> io::Result<()> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(follow(terminate, interrupt, stop, log));
    Ok(())
}

/// Ends the process when its standard input ends. So it cannot outlive the process at the other end
/// of the pipe, however that ends, and whoever has its signals.
#[expect(
    clippy::disallowed_methods,
    reason = "the directories go with the process that is gone: there is nothing to hand over"
)]
pub fn on_end_of_input(log: Arc<Log>) -> io::Result<()> {
    let follow = move || {
        // No input means anything, and an error is an end.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        tracing::info!("the standard input has ended, and so does the daemon");
        log.end();
        std::process::exit(0);
    };
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(follow)?;
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a second signal means: now, without destructors"
)]
async fn follow(mut terminate: Signal, mut interrupt: Signal, stop: Stop, log: Arc<Log>) {
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("a signal asks the daemon to stop");
    stop.ask();
    again(&mut terminate, &mut interrupt).await;
    if stop.is_prepared() {
        tracing::warn!(
            "a second signal: the daemon closes now, and writes the rest of its memory then"
        );
        stop.now();
        again(&mut terminate, &mut interrupt).await;
    }
    tracing::warn!("asked to stop again: ending at once");
    log.end();
    std::process::exit(FORCED_EXIT_CODE);
}

/// Waits for the next signal that is not an echo of the last.
async fn again(terminate: &mut Signal, interrupt: &mut Signal) {
    let echoes = async {
        loop {
            either(terminate, interrupt).await;
        }
    };
    // Ends by the time-out only.
    let _ = timeout(SAME_WISH, echoes).await;
    either(terminate, interrupt).await;
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(test)]
mod tests;
