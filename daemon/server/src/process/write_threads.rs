// SPDX-License-Identifier: Apache-2.0
//! A thread for each place of the store. It writes out data when memory is short, and when the
//! daemon is drained or ends: no client waits for that.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use lodestone_store::Store;

/// The threads, until this is dropped. Dropping does not wait for their writes.
#[must_use = "nothing is written out when this is dropped"]
pub(crate) struct WriteThreads(Arc<Store>);

impl WriteThreads {
    pub(crate) fn start(store: &Arc<Store>) -> io::Result<Self> {
        let threads = Self(Arc::clone(store));
        store.begin_writing();
        for place in 0..=store.disk_count() {
            let store = Arc::clone(store);
            thread::Builder::new()
                .name(format!("write-out-{place}"))
                .spawn(move || write_out(&store, place))?;
        }
        Ok(threads)
    }
}

/// Goes on after a panic: the partitions whose locks the thread held are lost, which their locks
/// say, and the others need it.
fn write_out(store: &Store, place: u16) {
    let once = || store.write_out_when_called(place);
    while catch_unwind(AssertUnwindSafe(once)).is_err() {}
}

impl Drop for WriteThreads {
    fn drop(&mut self) {
        self.0.end_writing();
    }
}
