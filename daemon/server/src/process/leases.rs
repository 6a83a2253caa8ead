// SPDX-License-Identifier: Apache-2.0
//! Every two seconds: applications without a lease end, and unused memory goes back to the system.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use lodestone_model::AppId;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::service::Service;

/// How often leases and free memory are checked. The shortest lease has 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The daemon stood still if it did not look for this long: its process was frozen, or got no
/// memory or no processor. The renewals of this time wait in its sockets.
const STOOD_STILL_MS: u64 = 6_000;

/// The looks go on until this is dropped, which does not wait for one that is under way.
#[derive(Debug)]
#[must_use = "no lease runs out when this is dropped"]
pub(crate) struct LeaseWatch(JoinHandle<()>);

impl LeaseWatch {
    /// Starts a thread for this only: leases must run out also while disks hang, and all threads of
    /// the store's calls with them.
    pub(crate) fn start(service: Arc<Service>) -> io::Result<Self> {
        let (tick, ticks) = mpsc::sync_channel(1);
        let mut looked_ms = service.store.now_ms();
        let looks = move || {
            while ticks.recv().is_ok() {
                looked_ms = look(&service, looked_ms);
                service.looks.send_modify(|looks| *looks += 1);
            }
        };
        thread::Builder::new()
            .name("leases".to_owned())
            .spawn(looks)?;
        Ok(Self(tokio::spawn(send_ticks(tick))))
    }
}

impl Drop for LeaseWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn send_ticks(tick: SyncSender<()>) {
    let mut times = interval(LOOK_EVERY);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        if let Err(TrySendError::Disconnected(())) = tick.try_send(()) {
            tracing::error!(
                "leases do not expire any more: a bug of the daemon, see the log above"
            );
            return;
        }
    }
}

/// Returns the time of this look. It is the time of its start, and leases run out by it: the daemon
/// may stand still in the middle.
fn look(service: &Service, looked_ms: u64) -> u64 {
    let store = &service.store;
    let now_ms = store.now_ms();
    let gap_ms = now_ms - looked_ms;
    if gap_ms >= STOOD_STILL_MS {
        tracing::warn!(
            gap_ms,
            "the daemon stood still: all leases are longer by this time"
        );
        store.prolong_leases(gap_ms);
    }
    store.give_back_idle_memory();
    store.finish_removals();
    forgotten(service, store.expire_leases(now_ms));
    now_ms
}

/// Counts applications that are forgotten, and writes them down.
pub(super) fn forgotten(service: &Service, expired: Vec<AppId>) {
    let count = expired.len() as u64;
    service.metrics.remove_expired_total.inc_by(count);
    for app in expired {
        tracing::info!(%app, "application forgotten: its lease ran out");
    }
}
