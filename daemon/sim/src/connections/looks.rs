// SPDX-License-Identifier: Apache-2.0
//! The work of the daemon's own threads, without end: the real looks, at the times of the daemon. A
//! disk that hangs keeps the thread of its place only.

use std::sync::Arc;
use std::time::Duration;

use lodestone_server::process::disks;
use lodestone_server::process::leases::{self, Looks};
use tokio::time::sleep;

use super::machine::Machine;

/// The threads that write out lag by this time at most.
const WRITES_EVERY: Duration = Duration::from_millis(100);

/// Writes out when memory is short.
pub(super) async fn write_out(machine: Arc<Machine>) {
    let store = &machine.service.store;
    loop {
        sleep(WRITES_EVERY).await;
        for place in (0..=store.disk_count()).filter(|at| !machine.hangs(usize::from(*at))) {
            store.write_out_as_called(place);
        }
    }
}

/// Looks at the disks of the daemon, and at those with directories of executors.
pub(super) async fn look_at_disks(machine: Arc<Machine>) {
    let store = &machine.service.store;
    loop {
        sleep(disks::LOOK_EVERY).await;
        for place in (0..store.places_in_use()).filter(|place| !machine.hangs(*place)) {
            disks::look(&machine.service, place);
        }
    }
}

/// Looks at leases until the daemon stops: no lease runs out while it closes its connections.
pub(super) async fn look_at_leases(machine: Arc<Machine>) {
    let mut looks = Looks::new(Arc::clone(&machine.service));
    while !machine.is_stopping() {
        looks.look();
        sleep(leases::LOOK_EVERY).await;
    }
}
