// SPDX-License-Identifier: Apache-2.0
//! A disk that hangs during a read blocks only the requests that read from it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use lodestone_server::service::lanes::{Lanes, READS_OF_DISK};
use lodestone_store::fs::Open;
use lodestone_wire::extension::hello::HelloReply;
use lodestone_wire::frame::{ChunkId, Frame};

use crate::support::client::hello;
use crate::support::inside::Inside;
use crate::support::trap::TrapFs;

/// Where readers wait.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        self.waiting.fetch_add(1, SeqCst);
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }
}

/// However the test ends: nothing hangs any more, and the daemon can be stopped.
struct Opened(Arc<Gate>);

impl Drop for Opened {
    fn drop(&mut self) {
        *self.0.is_open.lock().unwrap() = true;
        self.0.opened.notify_all();
    }
}

#[test]
fn more_readers_of_a_hanging_disk_than_there_are_threads_keep_others_from_nothing_in_memory() {
    let disk = TrapFs::default();
    let daemon = Inside::start(disk.environment());
    let key = daemon.key(1);
    let mut pusher = daemon.connect();
    pusher.register(&key, 8, 1);
    // Less memory than that: some of it goes to the disk.
    let block = vec![7; 4 << 20];
    for map in 0..8 {
        pusher.output(&key, map, 1, &[(0, &block)]);
    }

    let gate = Arc::new(Gate::default());
    let hanging = Arc::clone(&gate);
    disk.arm(move |how| {
        if how == Open::Read {
            hanging.pass();
        }
        Ok(())
    });
    let opened = Opened(Arc::clone(&gate));
    let mut readers: Vec<_> = (0..Lanes::threads(1) + 6)
        .map(|_| daemon.connect())
        .collect();
    for reader in &mut readers {
        let (handle, _) = reader.open_partition(&key, 0, 8);
        let chunk = ChunkId {
            stream_id: handle.stream_id,
            chunk_index: 0,
        };
        reader.send(&Frame::ChunkFetchRequest(chunk));
    }
    while gate.waiting.load(SeqCst) < READS_OF_DISK {
        thread::yield_now();
    }

    let other = daemon.key(2);
    pusher.register(&other, 1, 1);
    pusher.output(&other, 0, 1, &[(0, b"at once")]);
    assert_eq!(pusher.partition(&other, 0)[0].2, "at once");
    let _: HelloReply = daemon.connect().ask(&hello());
    drop(opened);
    disk.disarm();
    for reader in &mut readers {
        assert!(matches!(
            reader.receive(),
            Some(Frame::ChunkFetchSuccess { .. })
        ));
    }
    daemon.stop();
}
