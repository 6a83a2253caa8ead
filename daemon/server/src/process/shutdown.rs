// SPDX-License-Identifier: Apache-2.0
//! Signals: the first SIGTERM or SIGINT asks for a clean end, a later one ends at once.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

/// Exit code after a second signal.
const IMPATIENT_EXIT: i32 = 1;

/// Signals this close together are one wish: a supervisor that ends a process group, and then the
/// process itself, sends two.
const SAME_WISH: Duration = Duration::from_secs(1);

/// A switch that is thrown once: whoever watches it stops.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// Throws the switch.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// To be watched.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}

/// Registers the handlers, and follows the signals in the background.
pub fn on_signals(stop: Stop) -> io::Result<()> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(follow(terminate, interrupt, stop));
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a second signal means: now, without destructors"
)]
async fn follow(mut terminate: Signal, mut interrupt: Signal, stop: Stop) {
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("asked to stop; requests in work are finished first");
    stop.now();
    let echoes = async {
        loop {
            either(&mut terminate, &mut interrupt).await;
        }
    };
    // Ends by the time-out only.
    let _ = timeout(SAME_WISH, echoes).await;
    either(&mut terminate, &mut interrupt).await;
    tracing::warn!("asked to stop again: ending at once");
    std::process::exit(IMPATIENT_EXIT);
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
