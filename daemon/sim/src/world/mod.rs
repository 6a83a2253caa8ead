// SPDX-License-Identifier: Apache-2.0
//! One machine: its disks and clock, and the daemons that run on it, one after another.

pub mod disk;
mod handlers;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use lodestone_model::{AppId, Code, Refusal, ShuffleKey, State};
use lodestone_server::handler::{self, Answer, Call, Removal, Upload};
use lodestone_server::service::{MemorySplit, Service};
use lodestone_server::streams::SharedStreams;
use lodestone_store::{
    ChunkData, Clock, Environment, ManualClock, NamedBlocks, NoThreads, Part, Reserve,
    SeededRandom, Store, StoreConfig,
};

use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::frame::MergedBlockMetaRequest;

use crate::client::full_layout;
use crate::model::refusal;
use disk::Disk;
use handlers::Handlers;

/// Memory for bytes on their way: no message of the simulation comes near it.
const TRANSIT_BYTES: u64 = 64 << 20;

/// The connection of the simulation itself.
const OWN_CONNECTION: u64 = 98;

/// The most that one read of a file returns, so that a chunk is read in several.
const READ_BYTES: usize = 64 << 10;

/// Partitions of a run are small: with parts of this length their tails have many.
const TAIL_PART_BYTES: usize = 16 << 10;

/// How a machine is made.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Seed of the incarnations.
    pub seed: u64,
    /// Disks, and as many data directories.
    pub disks: usize,
    /// Memory of the store.
    pub memory_bytes: u64,
}

/// A machine on which daemons run, one after another.
#[derive(Debug)]
pub struct World {
    /// Its disks.
    pub disk: Disk,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// Its data directories.
    pub dirs: Vec<PathBuf>,
    random: Arc<SeededRandom>,
    memory_bytes: u64,
    daemon: Option<Daemon>,
    start_was_killed: bool,
}

#[derive(Debug)]
struct Daemon {
    service: Arc<Service>,
    connections: BTreeMap<u64, SharedStreams>,
    handlers: Handlers,
    calls: u64,
}

/// The threads that write out lag: so many calls come before they have written.
const CALLS_BEFORE_WRITES: u64 = 3;

/// The reason why there is no chunk.
#[derive(Debug)]
pub enum NoChunk {
    /// The stream does not have it, or not now.
    Stream(Refusal),
    /// The store refused.
    Store(Refusal),
    /// The store refused, and the connection is closed for it.
    Closes(Refusal),
}

/// The daemon's work after removals, for which it has threads.
fn end_removals(store: &Store) {
    store.finish_removals();
    store.empty_trash();
}

/// The daemon's work when memory is short or it is drained, for which it has threads.
fn write_out(store: &Store) {
    (0..=store.disk_count()).for_each(|place| {
        store.write_out_as_called(place);
    });
}

impl World {
    /// A machine that was never used.
    pub fn new(machine: &Machine) -> Self {
        let dirs: Vec<_> = (0..machine.disks)
            .map(|number| PathBuf::from(format!("/disk{number}")))
            .collect();
        Self {
            disk: Disk::new(&dirs),
            clock: Arc::default(),
            dirs,
            random: Arc::new(SeededRandom::new(machine.seed)),
            memory_bytes: machine.memory_bytes,
            daemon: None,
            start_was_killed: false,
        }
    }

    /// Milliseconds on the clock.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Starts the daemon, if it can start; returns its incarnation.
    pub fn start(&mut self) -> Option<i64> {
        let environment = Environment {
            fs: Arc::new(self.disk.clone()),
            clock: self.clock.clone(),
            random: self.random.clone(),
            threads: Arc::new(NoThreads),
        };
        let config = StoreConfig {
            dirs: self.dirs.clone(),
            memory_bytes: self.memory_bytes,
            quota_percent: 75,
            tail_part_bytes: TAIL_PART_BYTES,
            hanging_bytes: u64::MAX,
            reserve: Reserve::Bytes(0),
            executor_roots: Vec::new(),
        };
        let store = Store::open(config, environment).ok();
        self.start_was_killed = self.disk.is_dead();
        if self.start_was_killed {
            drop(store);
            self.disk.bury();
            return None;
        }
        let split = MemorySplit {
            store_bytes: self.memory_bytes,
            upload_bytes: TRANSIT_BYTES,
            small_upload_bytes: TRANSIT_BYTES,
            frame_bytes: TRANSIT_BYTES,
            layout_bytes: TRANSIT_BYTES,
            list_bytes: TRANSIT_BYTES,
            report_bytes: TRANSIT_BYTES,
        };
        let service = Service::new(store?, split);
        let incarnation = service.incarnation();
        self.daemon = Some(Daemon {
            service,
            connections: BTreeMap::new(),
            handlers: Handlers::new(self.disk.clone()),
            calls: 0,
        });
        Some(incarnation)
    }

    /// Returns true if the daemon was killed while it started.
    pub fn start_was_killed(&self) -> bool {
        self.start_was_killed
    }

    /// Kills the daemon. The data in its memory is gone.
    pub fn kill(&mut self) {
        self.daemon = None;
        self.disk.bury();
    }

    /// Stops the daemon in good order. Returns true if it was killed meanwhile.
    pub fn stop(&mut self) -> bool {
        if let Some(daemon) = self.daemon.take() {
            daemon.service.store.hand_over();
        }
        let was_killed = self.disk.is_dead();
        self.disk.bury();
        was_killed
    }

    /// Returns true if a daemon runs.
    pub fn is_up(&self) -> bool {
        self.daemon.is_some()
    }

    /// The store, while there is a daemon.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.daemon.as_ref().map(|daemon| &daemon.service.store)
    }

    /// The client closes its connection, and comes back with another.
    pub fn reconnect(&mut self, connection: u64) {
        if let Some(daemon) = &mut self.daemon {
            daemon.connections.remove(&connection);
        }
    }

    fn on<T>(
        &mut self,
        connection: u64,
        work: impl FnOnce(&mut Handlers, &Call) -> T,
    ) -> Option<T> {
        let daemon = self.daemon.as_mut()?;
        let call = Call::new(&daemon.service, connection);
        let streams = daemon.connections.entry(connection);
        let call = Call {
            streams: streams.or_insert_with(|| call.streams.clone()).clone(),
            ..call
        };
        let outcome = work(&mut daemon.handlers, &call);
        end_removals(&daemon.service.store);
        daemon.calls += 1;
        if daemon.calls.is_multiple_of(CALLS_BEFORE_WRITES) {
            write_out(&daemon.service.store);
        }
        Some(outcome)
    }

    /// Returns true if the daemon knows of no disk that takes writes.
    pub fn no_disk_takes_writes(&self) -> bool {
        let daemon = self.daemon.as_ref();
        let state = daemon.map(|daemon| daemon.service.store.load().state);
        matches!(state, Some(State::DiskFull | State::DiskFailed))
    }

    /// Returns true if the daemon's answer shows that it has this shuffle.
    pub fn knows(&mut self, key: &ShuffleAddress) -> bool {
        let answer = self.rpc(OWN_CONNECTION, &full_layout(key, 1));
        let refused = answer.as_ref().and_then(refusal);
        refused.is_none_or(|refused| {
            !matches!(
                refused.code,
                Code::UnknownShuffle | Code::UnknownApplication
            )
        })
    }

    /// Carries out an RPC; nothing if there is no daemon.
    pub fn rpc(&mut self, connection: u64, body: &Bytes) -> Option<Answer> {
        self.on(connection, |handlers, call| handlers.rpc(call, body))
    }

    /// Begins a removal of blocks of executors; an error is the answer.
    pub fn begin_removal(
        &mut self,
        connection: u64,
        body: &Bytes,
    ) -> Option<Result<Vec<NamedBlocks>, Answer>> {
        self.on(connection, |_, call| {
            Removal::begin(call, body.clone())?.next_by_place(call)
        })
    }

    /// Removes some of these blocks; an error is the answer.
    pub fn remove_some(
        &mut self,
        connection: u64,
        blocks: &NamedBlocks,
    ) -> Option<Result<u32, Answer>> {
        self.on(connection, |_, call| handler::remove_some(call, blocks))
    }

    /// Carries out a request that has no answer.
    pub fn one_way(&mut self, connection: u64, body: &[u8]) -> Option<()> {
        self.on(connection, |_, call| handler::one_way(call, body))
    }

    /// Asks how a partition of Spark's own push is cut.
    pub fn merged_meta(
        &mut self,
        connection: u64,
        request: &MergedBlockMetaRequest,
    ) -> Option<Result<(u32, Bytes), String>> {
        self.on(connection, |_, call| handler::merged_meta(call, request))
    }

    /// Returns true if the daemon has this shuffle of Spark's own push.
    pub fn has_begun(&self, key: &ShuffleKey) -> bool {
        let readable = self.store().map(|store| store.check_readable(key));
        matches!(readable, Some(Ok(())))
            || matches!(readable, Some(Err(refusal)) if refusal.code == Code::NotFinalized)
    }

    /// Admits or refuses an upload before its body is there.
    pub fn admit(
        &mut self,
        connection: u64,
        meta: &Bytes,
        body: &Bytes,
    ) -> Option<Result<Upload, Answer>> {
        self.on(connection, |_, call| {
            handler::admit_upload(call, meta, body.len() as u64)
        })
    }

    /// Merges an upload whose body has arrived.
    pub fn upload(&mut self, connection: u64, upload: &Upload, body: &Bytes) -> Option<Answer> {
        self.on(connection, |handlers, call| {
            handlers.upload(call, upload, body)
        })
    }

    /// Opens the next chunk of a stream.
    pub fn open_chunk(
        &mut self,
        connection: u64,
        stream: i64,
        index: i32,
    ) -> Option<Result<ChunkData, NoChunk>> {
        self.on(connection, |handlers, call| {
            let job = call.streams.take(stream, index).map_err(NoChunk::Stream)?;
            handlers
                .open(call, &job)
                .map_err(|refusal| match job.closes(&refusal) {
                    true => NoChunk::Closes(refusal),
                    false => NoChunk::Store(refusal),
                })
        })
    }

    /// Reads the bytes of an open chunk, as the writer of a connection does.
    pub fn read(&self, data: &ChunkData) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for part in &data.parts {
            match part {
                Part::Memory(memory) => bytes.extend_from_slice(memory),
                Part::File {
                    file,
                    offset,
                    length,
                } => {
                    let mut at = *offset;
                    let end = at + length;
                    while at < end {
                        let mut buffer = vec![0; READ_BYTES.min((end - at) as usize)];
                        match file.read_at(&mut buffer, at)? {
                            0 => return Err(ErrorKind::UnexpectedEof.into()),
                            count => {
                                bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
                                at += count as u64;
                            }
                        }
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// There is hardly any memory for metadata.
    pub fn is_short_of_metadata(&self) -> bool {
        self.store()
            .is_some_and(|store| store.is_short_of_metadata())
    }

    /// The daemon may have more memory from now on, or must use less; `None` if no daemon runs.
    pub fn limit_memory(&self, bytes: u64) -> Option<()> {
        self.store().map(|store| store.limit_memory(bytes))
    }

    /// The daemon's regular work: ends applications without a lease.
    pub fn expire_leases(&self) -> Option<Vec<AppId>> {
        self.store().map(|store| {
            let mut ended = store.expire_leases(store.now_ms());
            ended.extend(store.forget_gone());
            end_removals(store);
            store.look_after_all();
            ended
        })
    }

    /// The daemon's regular work after it stood still; `None` if no daemon runs.
    pub fn prolong_leases(&self, by_ms: u64) -> Option<()> {
        self.store().map(|store| store.prolong_leases(by_ms))
    }
}
