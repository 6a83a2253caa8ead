// SPDX-License-Identifier: Apache-2.0
//! A bug in a handler costs one connection: the daemon's disk panics when it is told to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::client::batch;
use crate::support::inside::Inside;
use lodestone_store::Environment;
use lodestone_store::fs::{Access, Entry, File, Fs, Kind, Lock, Open, OsFs, Space};
use lodestone_wire::extension::status::Status;

/// The real disk, until it is told to panic.
#[derive(Debug, Default)]
struct TrapFs {
    armed: AtomicBool,
}

impl Fs for TrapFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        assert!(!self.armed.load(Ordering::SeqCst), "the trap was sprung");
        OsFs.open(path, how)
    }
    fn create_dir(&self, path: &Path, access: Access) -> io::Result<()> {
        OsFs.create_dir(path, access)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        OsFs.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        OsFs.remove_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        OsFs.list(path)
    }
    fn kind(&self, path: &Path) -> io::Result<Kind> {
        OsFs.kind(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        OsFs.canonical(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        OsFs.space(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        OsFs.try_lock(path)
    }
}

#[test]
fn a_handler_that_panics_costs_its_own_connection_only() {
    let trap = Arc::new(TrapFs::default());
    let daemon = Inside::start(Environment {
        fs: Arc::clone(&trap) as Arc<dyn Fs>,
        ..Environment::os()
    });
    let (mut victim, mut bystander) = (daemon.connect(), daemon.connect());
    victim.register(&daemon.key(1), 4, 1);
    bystander.register(&daemon.key(2), 1, 1);
    // Three quarters of the store's memory; what comes then must go to the disk.
    let block = vec![7; 4 << 20];
    for map in 0..3 {
        let codes = victim.push(&daemon.key(1), map, 1, &[(0, &block)]);
        assert_eq!(codes, [Status::Ok]);
    }
    trap.armed.store(true, Ordering::SeqCst);
    let (meta, body) = batch(&daemon.key(1), 3, 1, &[(0, &block)]);
    victim.send_upload(&meta, &body);
    assert_eq!(victim.receive(), None, "the connection is closed");
    trap.armed.store(false, Ordering::SeqCst);

    assert_eq!(
        bystander.push(&daemon.key(2), 0, 1, &[(0, b"unharmed")]),
        [Status::Ok]
    );
    bystander.finalize(&daemon.key(2));
    assert_eq!(bystander.partition(&daemon.key(2), 0)[0].2, "unharmed");
    assert_eq!(
        daemon.service.uploads.used_bytes(),
        0,
        "the memory of the lost request came back"
    );
    daemon.stop();
}
