// SPDX-License-Identifier: Apache-2.0
//! A daemon inside the test's process, and the things that the bench needs to drive it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lodestone_bench::dialect::{Dialect, Shuffle};
use lodestone_bench::error::BenchError;
use lodestone_bench::report::Measured;
use lodestone_bench::run::fetch_work::Shape;
use lodestone_bench::run::phase::Conduct;
use lodestone_bench::run::scene::{self, Pushed, Slow};
use lodestone_bench::server::{Server, bare};
use lodestone_bench::workload::payload::Payload;
use lodestone_bench::workload::{BlockSize, Workload};
use lodestone_model::AppId;
use lodestone_server::process::shutdown::Stop;
use lodestone_server::serve::{self, Admission};
use lodestone_server::service::{MemorySplit, Service};
use lodestone_sort::progress::Progress;
use lodestone_store::{Environment, Store, StoreConfig};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) const SHAPE: Shape = Shape {
    connections: 7,
    window_bytes: 300_000,
};

pub(crate) const QUICK: Slow = Slow {
    connections: 0,
    bytes_a_second: 0,
};

/// A daemon or a bare loop, and its folder.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) dir: TempDir,
    interrupt: watch::Sender<bool>,
}

impl World {
    pub(crate) async fn of(dialect: Dialect) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        if dialect == Dialect::Bare {
            tokio::spawn(bare::serve(listener, Some(dir.path().to_owned())));
        } else {
            serve_daemon(listener, dir.path());
        }
        Self::at(address, dialect, dir)
    }

    /// The bare loop from memory.
    pub(crate) async fn bare_in_memory() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(bare::serve(listener, None));
        Self::at(address, Dialect::Bare, tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(address: SocketAddr, dialect: Dialect, dir: TempDir) -> Self {
        let home = dir.path().join("home");
        let mut server = Server::running("it".to_owned(), address, dialect, home).unwrap();
        server.pid = Some(std::process::id());
        let (interrupt, _) = watch::channel(false);
        Self {
            server,
            dir,
            interrupt,
        }
    }

    /// The same server, behind another address.
    pub(crate) fn behind(&mut self, address: SocketAddr) {
        self.server.address = address;
    }

    pub(crate) fn conduct(&self) -> Conduct {
        Conduct {
            stall_timeout: Duration::from_secs(30),
            trouble: None,
            interrupted: self.interrupt.subscribe(),
        }
    }

    pub(crate) async fn shuffle(&self, workload: Workload) -> Shuffle {
        let payload = Payload::of(workload.size);
        Shuffle::register(
            self.server.address,
            self.server.dialect,
            app(),
            (workload, payload),
            &self.server.home,
        )
        .await
        .unwrap()
    }

    /// Pushes until everything is merged, and finalizes, or commits each map.
    pub(crate) async fn prepare(&self, shuffles: &[Shuffle]) -> (Measured, Vec<Pushed>) {
        self.prepare_beside(None, shuffles).await
    }

    /// Prepares like `prepare`, while slow connections push to another shuffle.
    pub(crate) async fn prepare_beside(
        &self,
        noise: Option<(&Shuffle, Slow)>,
        shuffles: &[Shuffle],
    ) -> (Measured, Vec<Pushed>) {
        let (conduct, progress) = (self.conduct(), progress(shuffles[0].workload));
        let pushing = scene::push(&self.server, shuffles, noise, SHAPE, &conduct, progress);
        let (measured, works) = pushing.await.unwrap();
        let merged = works.iter().map(|work| Arc::clone(&work.merged));
        let pushed = shuffles.iter().cloned().zip(merged);
        let pushed: Vec<_> = pushed
            .map(|(shuffle, merged)| Pushed { shuffle, merged })
            .collect();
        scene::complete(&self.server, works, &conduct)
            .await
            .unwrap();
        scene::finalize(&self.server, &pushed).await.unwrap();
        (measured, pushed)
    }

    pub(crate) async fn fetch(
        &self,
        pushed: &[Pushed],
        slow: Slow,
    ) -> Result<Measured, BenchError> {
        let (conduct, progress) = (self.conduct(), progress(pushed[0].shuffle.workload));
        scene::fetch_merged(&self.server, pushed, SHAPE, slow, &conduct, progress).await
    }

    pub(crate) async fn fetch_originals(
        &self,
        workload: Workload,
        payload: &Payload,
    ) -> Result<Measured, BenchError> {
        let (conduct, progress) = (self.conduct(), progress(workload));
        let what = (&app(), workload, payload);
        scene::fetch_originals(&self.server, what, SHAPE, QUICK, &conduct, progress).await
    }
}

fn serve_daemon(listener: TcpListener, dir: &Path) {
    let split = MemorySplit::of(64 << 20);
    let config = StoreConfig::of(vec![dir.to_owned()], split.store_bytes);
    let store = Store::open(config, Environment::os()).unwrap();
    let service = Service::new(store, split);
    let admission = Admission {
        max_connections: 100,
        idle_exit: None,
    };
    tokio::spawn(async move { serve::run(listener, service, admission, &Stop::default()).await });
}

pub(crate) fn app() -> AppId {
    AppId::new("bench-test").unwrap()
}

pub(crate) fn progress(workload: Workload) -> Arc<Progress> {
    Arc::new(Progress::of(workload.total()))
}

/// A shuffle of its own for each size.
pub(crate) fn small(size: BlockSize) -> Workload {
    let workload = Workload::plan(size, 6_000_000, None, Some(11)).unwrap();
    workload.of_shuffle(if size == BlockSize::Mixed { 4 } else { 3 })
}
