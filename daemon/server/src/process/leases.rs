// SPDX-License-Identifier: Apache-2.0
//! Every two seconds: applications without a lease end, and unused memory goes back to the system.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use lodestone_model::AppId;
use lodestone_planted::{self as planted, Bug};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::service::Service;

/// How often leases and free memory are checked. The shortest lease has 10 s.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

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
        let mut looks = Looks::new(service);
        let work = move || {
            while ticks.recv().is_ok() {
                looks.look();
            }
        };
        thread::Builder::new()
            .name("leases".to_owned())
            .spawn(work)?;
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

/// Looks, one after another.
#[derive(Debug)]
pub struct Looks {
    service: Arc<Service>,
    /// When the last one began.
    looked_ms: u64,
}

impl Looks {
    /// No look so far.
    pub fn new(service: Arc<Service>) -> Self {
        let looked_ms = service.store.now_ms();
        Self { service, looked_ms }
    }

    /// Prolongs leases if the daemon stood still, and ends those that have run out. Asks no disk.
    pub fn look(&mut self) {
        let store = &self.service.store;
        // Leases run out by the time at which the look begins: the daemon may stand still in the
        // middle.
        let now_ms = store.now_ms();
        let gap_ms = now_ms - self.looked_ms;
        if gap_ms >= STOOD_STILL_MS {
            tracing::warn!(
                gap_ms,
                "the daemon stood still: all leases are longer by this time"
            );
            if !planted::is(Bug::GapNotAdded) {
                store.prolong_leases(gap_ms);
            }
        }
        if !planted::is(Bug::GapFromFirstLook) {
            self.looked_ms = now_ms;
        }
        store.give_back_idle_memory();
        store.finish_removals();
        let by_ms = match planted::is(Bug::LeaseEndsEarly) {
            true => now_ms + LOOK_EVERY.as_millis() as u64,
            false => now_ms,
        };
        forgotten(&self.service, store.expire_leases(by_ms));
        self.service.looks.send_modify(|looks| *looks += 1);
    }
}

/// Counts applications that are forgotten, and writes them down.
pub(super) fn forgotten(service: &Service, expired: Vec<AppId>) {
    let count = expired.len() as u64;
    service.metrics.remove_expired_total.inc_by(count);
    for app in expired {
        tracing::info!(%app, "application forgotten: its lease ran out");
    }
}
