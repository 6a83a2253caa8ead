// SPDX-License-Identifier: Apache-2.0
//! A thread for each data directory: it asks how much room its disk has, and whether a disk that is
//! out of use works again, and deletes what nobody needs any more, also parts of files. Each disk
//! with directories of executors has a thread, too: it deletes there, and looks whether the
//! directories exist. If a disk hangs, only its thread waits.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use lodestone_planted::{self as planted, Bug};

use super::leases::forgotten;
use crate::service::Service;

/// How often a disk is looked at. A disk that failed is probed after five seconds.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The looks go on until this is dropped, which does not wait for one that is under way.
#[derive(Debug)]
#[must_use = "no disk is looked at when this is dropped"]
pub(crate) struct DiskWatch {
    _stops: Vec<SyncSender<()>>,
}

impl DiskWatch {
    pub(crate) fn start(service: &Arc<Service>) -> io::Result<Self> {
        let mut stops = vec![close_map_files(service)?];
        let known = service.store.places_in_use();
        for place in 0..known {
            stops.push(look_after(service, place)?);
        }
        stops.push(watch_others(service, known)?);
        Ok(Self { _stops: stops })
    }
}

/// Starts a thread for each disk of executors that becomes known. Asks no disk. These threads end
/// after this one.
fn watch_others(service: &Arc<Service>, known: usize) -> io::Result<SyncSender<()>> {
    let (stop, stopped) = mpsc::sync_channel(0);
    let service = Arc::clone(service);
    let watch = move || {
        let mut stops = Vec::new();
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            let others = known + stops.len()..service.store.places_in_use();
            for place in others {
                match look_after(&service, place) {
                    Ok(stop) => stops.push(stop),
                    Err(error) => {
                        tracing::error!(%error, "no thread for a disk of executors: trying again");
                        break;
                    }
                }
            }
        }
    };
    thread::Builder::new()
        .name("other-disks".to_owned())
        .spawn(watch)?;
    Ok(stop)
}

/// Starts the thread of a place, which ends when the returned value is dropped.
fn look_after(service: &Arc<Service>, place: usize) -> io::Result<SyncSender<()>> {
    let (stop, stopped) = mpsc::sync_channel(0);
    let service = Arc::clone(service);
    let looks = move || {
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            look(&service, place);
        }
    };
    thread::Builder::new()
        .name(format!("disk-{place}"))
        .spawn(looks)?;
    Ok(stop)
}

/// Looks at a place. Blocks as long as its disk hangs.
pub fn look(service: &Service, place: usize) {
    let store = &service.store;
    store.look_after(place);
    let is_of_executors = place >= usize::from(store.disk_count());
    if is_of_executors && !planted::is(Bug::GoneExecutorsKept) {
        forgotten(service, store.forget_gone_at(place));
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
