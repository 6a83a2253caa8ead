// SPDX-License-Identifier: Apache-2.0
//! A thread for each data directory: it asks how much room its disk has, and whether a disk that is
//! out of use works again, and deletes what nobody needs any more. Another thread does that for the
//! directories of executors. If a disk hangs, only its thread waits.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use super::leases::forgotten;
use crate::service::Service;

/// How often a disk is looked at. A disk that failed is probed after five seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The looks go on until this is dropped, which does not wait for one that is under way.
#[derive(Debug)]
#[must_use = "no disk is looked at when this is dropped"]
pub(crate) struct DiskWatch {
    _stops: Vec<SyncSender<()>>,
}

impl DiskWatch {
    pub(crate) fn start(service: &Arc<Service>) -> io::Result<Self> {
        let executors = service.store.disk_count();
        let start = |place: u16| {
            let (stop, stopped) = mpsc::sync_channel(0);
            let service = Arc::clone(service);
            let look = move || {
                while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    service.store.look_after(place);
                    if place == executors {
                        forgotten(&service, service.store.forget_gone());
                    }
                }
            };
            thread::Builder::new()
                .name(format!("disk-{place}"))
                .spawn(look)?;
            Ok(stop)
        };
        let stops: io::Result<Vec<_>> = (0..=executors).map(start).collect();
        let mut stops = stops?;
        stops.push(close_map_files(service)?);
        Ok(Self { _stops: stops })
    }
}

/// Closes map outputs that stay open. A thread of its own: the space of removed files must not stay
/// in use because a directory of another disk hangs.
fn close_map_files(service: &Arc<Service>) -> io::Result<SyncSender<()>> {
    let (stop, stopped) = mpsc::sync_channel(0);
    let service = Arc::clone(service);
    let close = move || {
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            service.store.close_map_files();
        }
    };
    thread::Builder::new()
        .name("map-files".to_owned())
        .spawn(close)?;
    Ok(stop)
}
