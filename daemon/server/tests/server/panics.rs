// SPDX-License-Identifier: Apache-2.0
//! A bug in a handler costs one connection. The daemon runs in this process, on a disk that panics when it
//! is told to.

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::Client;
use crate::support::client::{app, batch};
use lodestone_server::serve::{self, Admission};
use lodestone_server::service::{Service, Shares};
use lodestone_server::shutdown::Stop;
use lodestone_store::fs::{Access, Entry, File, Fs, Kind, Lock, Open, OsFs, Space};
use lodestone_store::{Environment, Store, StoreConfig};
use lodestone_wire::extension::MergeKey;
use lodestone_wire::extension::status::Status;
use tokio::net::TcpListener;

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
    let dir = tempfile::tempdir().unwrap();
    let trap = Arc::new(TrapFs::default());
    let environment = Environment {
        fs: Arc::clone(&trap) as Arc<dyn Fs>,
        ..Environment::os()
    };
    let shares = Shares::of(32 << 20);
    let config = StoreConfig {
        dirs: vec![dir.path().to_owned()],
        memory_bytes: shares.store_bytes,
        executor_roots: Vec::new(),
    };
    let store = Store::open(config, environment).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let service = Service::new(Arc::clone(&store), shares);
    let (stop, serving) = (Stop::default(), Arc::clone(&service));
    let admission = Admission {
        max_connections: 10,
        idle_exit: None,
    };
    let stopper = stop.clone();
    let running =
        runtime.spawn(async move { serve::run(listener, serving, admission, &stop).await });

    let connect = || Client::over(TcpStream::connect(address).unwrap());
    let (app, app_attempt, incarnation) = (app(), -1, service.incarnation());
    let key = |shuffle_id| {
        let app = app.clone();
        MergeKey {
            app,
            app_attempt,
            incarnation,
            shuffle_id,
            merge_id: 0,
        }
    };
    let (mut victim, mut bystander) = (connect(), connect());
    victim.register(&key(1), 1, 1);
    bystander.register(&key(2), 1, 1);
    trap.armed.store(true, Ordering::SeqCst);
    // Larger than a memory tail: it must go to the disk.
    let (meta, body) = batch(&key(1), 0, 1, &[(0, &vec![7; 1 << 20])]);
    victim.send_upload(&meta, &body);
    assert_eq!(victim.receive(), None, "the connection is closed");
    trap.armed.store(false, Ordering::SeqCst);

    assert_eq!(
        bystander.push(&key(2), 0, 1, &[(0, b"unharmed")]),
        [Status::Ok]
    );
    bystander.finalize(&key(2));
    assert_eq!(bystander.partition(&key(2), 0)[0].2, "unharmed");
    assert_eq!(
        service.uploads.used_bytes(),
        0,
        "the memory of the lost request came back"
    );
    stopper.now();
    runtime.block_on(running).unwrap();
    store.close();
}
