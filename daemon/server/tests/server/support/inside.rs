// SPDX-License-Identifier: Apache-2.0
//! A daemon inside the test's process, on a disk and a clock that the test owns.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lodestone_model::Code;
use lodestone_server::metrics::labels::CodeLabel;
use lodestone_server::operator::admin;
use lodestone_server::process::shutdown::Stop;
use lodestone_server::serve::{self, Admission};
use lodestone_server::service::lanes::{Kind, Lanes, Turns};
use lodestone_server::service::{MemorySplit, Service};
use lodestone_store::{Environment, Store, StoreConfig};
use lodestone_wire::extension::ShuffleAddress;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;

use super::client::{Client, generation};
use super::daemon::TEST_TIMEOUT;

const MEMORY_BYTES: u64 = 32 << 20;

pub(crate) struct Inside {
    pub(crate) service: Arc<Service>,
    address: SocketAddr,
    runtime: Handle,
    stop: Stop,
    serving: Option<JoinHandle<()>>,
    /// The end of its serving.
    served: mpsc::Receiver<()>,
    _dir: TempDir,
}

/// The daemon's time, until this is dropped: then it jumps.
pub(crate) struct StoppedClock<'a> {
    daemon: &'a Inside,
    _held: mpsc::Sender<()>,
}

/// Threads that hang, until this is dropped.
pub(crate) struct HangingThreads(#[expect(dead_code, reason = "held")] mpsc::Sender<()>);

/// Kinds of calls that may wait for locks or disks.
const WAITING_KINDS: [Kind; 8] = [
    Kind::Question,
    Kind::Push,
    Kind::Abort,
    Kind::Removal,
    Kind::Operator,
    Kind::Registration,
    Kind::Diagnosis,
    Kind::Handshake,
];

impl StoppedClock<'_> {
    /// Lets so much time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.daemon.run(tokio::time::advance(time));
    }
}

impl Inside {
    pub(crate) fn start(environment: Environment) -> Self {
        Self::with_memory(environment, MEMORY_BYTES)
    }

    pub(crate) fn with_memory(environment: Environment, memory_bytes: u64) -> Self {
        Self::with(environment, memory_bytes, None)
    }

    pub(crate) fn with_idle_exit(idle_exit: Duration) -> Self {
        Self::with(Environment::os(), MEMORY_BYTES, Some(idle_exit))
    }

    /// With these data directories.
    pub(crate) fn on<P: AsRef<Path>>(environment: Environment, dirs: &[P]) -> Self {
        let dirs = dirs.iter().map(|dir| dir.as_ref().to_owned()).collect();
        Self::with_dirs(environment, 8 * MEMORY_BYTES, None, dirs)
    }

    fn with(environment: Environment, memory_bytes: u64, idle_exit: Option<Duration>) -> Self {
        Self::with_dirs(environment, memory_bytes, idle_exit, Vec::new())
    }

    /// Without a directory it has one of its own.
    fn with_dirs(
        environment: Environment,
        memory_bytes: u64,
        idle_exit: Option<Duration>,
        mut dirs: Vec<PathBuf>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        if dirs.is_empty() {
            dirs.push(dir.path().to_owned());
        }
        let threads = Lanes::threads(dirs.len());
        let split = MemorySplit::of(memory_bytes);
        let config = StoreConfig::of(dirs, split.store_bytes);
        let store = Store::open(config, environment).unwrap();
        let service = Service::new(store, split);
        let (stop, shared) = (Stop::default(), Arc::clone(&service));
        let (sender, receiver) = mpsc::channel();
        let (ends, served) = mpsc::channel();
        let stopping = stop.clone();
        let serving = thread::spawn(move || {
            // One thread: only such a runtime lets a test control its time.
            let runtime = Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(threads)
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                sender.send((address, Handle::current())).unwrap();
                let admission = Admission {
                    max_connections: 1000,
                    idle_exit,
                };
                drop(serve::run(listener, shared, admission, &stopping).await);
                // A test may not wait for it.
                let _ = ends.send(());
            });
        });
        let (address, runtime) = receiver.recv().unwrap();
        Self {
            service,
            address,
            runtime,
            stop,
            serving: Some(serving),
            served,
            _dir: dir,
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::over(TcpStream::connect(self.address).unwrap())
    }

    /// Requests that were refused because the service was at its limit.
    pub(crate) fn refused(&self) -> u64 {
        let counted = &self.service.metrics.requests_refused_total;
        let label = CodeLabel {
            code: Code::Overloaded.name(),
        };
        counted.get_or_create(&label).get()
    }

    pub(crate) fn key(&self, shuffle_id: i32) -> ShuffleAddress {
        ShuffleAddress {
            shuffle: generation(shuffle_id),
            incarnation: self.service.incarnation(),
        }
    }

    /// From now on the daemon's time jumps to its next time-out whenever it has nothing to do.
    pub(crate) fn jump_over_idle_time(&self) {
        self.run(async { tokio::time::pause() });
    }

    /// From now on the daemon's time is that of the machine again.
    pub(crate) fn do_not_jump(&self) {
        self.run(async { tokio::time::resume() });
    }

    /// From now on the daemon's time passes only in [`StoppedClock::pass`].
    pub(crate) fn stop_the_clock(&self) -> StoppedClock<'_> {
        let (held, release) = mpsc::channel();
        self.run(async move {
            tokio::time::pause();
            // Time does not jump while such a task is in work.
            tokio::task::spawn_blocking(move || release.recv().ok());
        });
        StoppedClock {
            daemon: self,
            _held: held,
        }
    }

    /// Takes the turns of all calls that may wait for a disk, and lets all threads for calls hang,
    /// except those for calls that use memory only. Returns the number of these, too.
    pub(crate) fn hang_in_all_calls(&self) -> (Vec<Turns>, HangingThreads, usize) {
        let turns = WAITING_KINDS
            .into_iter()
            .flat_map(|kind| self.all_turns(kind));
        let turns = turns.collect();
        let controls = self.all_turns(Kind::Control).len();
        let disks = usize::from(self.service.store.disk_count());
        let hanging = self.hang_threads(Lanes::threads(disks) - controls);
        (turns, hanging, controls)
    }

    /// Lets so many threads for calls hang.
    pub(crate) fn hang_threads(&self, count: usize) -> HangingThreads {
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        let (begun, begins) = mpsc::channel();
        for _ in 0..count {
            let (hang, begun) = (Arc::clone(&hang), begun.clone());
            self.runtime.spawn_blocking(move || {
                begun.send(()).ok();
                drop(hang.lock().map(|hang| hang.recv()));
            });
        }
        for number in 0..count {
            let begins = begins.recv_timeout(TEST_TIMEOUT);
            assert!(begins.is_ok(), "{number} of {count} hang");
        }
        HangingThreads(release)
    }

    /// Takes the turns of all calls of a kind.
    pub(crate) fn all_turns(&self, kind: Kind) -> Vec<Turns> {
        self.all_turns_at(kind, &[])
    }

    /// Takes all turns at these disks.
    pub(crate) fn all_turns_at(&self, kind: Kind, places: &[usize]) -> Vec<Turns> {
        let mut taken = Vec::new();
        self.runtime.block_on(async {
            let turns = || self.service.lanes.turns_for(kind, places);
            while let Ok(turns) = timeout(Duration::ZERO, turns()).await {
                taken.push(turns);
            }
        });
        taken
    }

    /// Returns when the daemon has checked leases, at the time that its clock shows now.
    pub(crate) fn wait_for_a_look(&self) {
        let mut looks = self.service.looks.subscribe();
        // The next one may have begun before.
        let enough = *looks.borrow() + 2;
        self.run(async move {
            looks.wait_for(|looks| *looks >= enough).await.unwrap();
        });
    }

    /// Returns when no connection is open any more.
    pub(crate) fn wait_for_no_connections(&self) {
        let mut open = self.service.open.subscribe();
        self.run(async move {
            open.wait_for(|open| *open == 0).await.unwrap();
        });
    }

    fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel();
        self.runtime.spawn(async move {
            work.await;
            sender.send(()).unwrap();
        });
        receiver.recv_timeout(TEST_TIMEOUT).unwrap();
    }

    /// Asks it to stop, and waits until it serves nobody any more: threads may still hang.
    pub(crate) fn end(&self) {
        self.stop.now();
        self.served.recv_timeout(TEST_TIMEOUT).unwrap();
    }

    /// Serves the admin endpoint, too, and returns its address.
    pub(crate) fn admin(&self) -> SocketAddr {
        let (service, stop) = (Arc::clone(&self.service), self.stop.watch());
        let (sender, receiver) = mpsc::channel();
        self.runtime.spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            admin::run(listener, service, stop).await;
        });
        receiver.recv_timeout(TEST_TIMEOUT).unwrap()
    }

    /// Stops it, and waits until it has.
    pub(crate) fn stop(mut self) {
        self.stop.now();
        self.serving.take().unwrap().join().unwrap();
        self.service.store.close();
    }
}
