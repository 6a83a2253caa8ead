// SPDX-License-Identifier: Apache-2.0
//! What all connections share: the store, the memory for bytes on their way, metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use lodestone_model::Load;
use lodestone_store::fs::OsFs;
use lodestone_store::{FOREIGN_PLACES, Store};
use tokio::sync::watch;

use crate::metrics::disks::MeasuredFs;
use crate::metrics::labels::{PUSHES, STORE};
use crate::metrics::{MemoryPart, Metrics, Seen};
use crate::streams::unreadable::Unreadable;
use block_memory::BlockMemory;
use body::BodyPool;
use clients::AllClients;
use lanes::{Lanes, Threads};
use pool::Pool;
use protection::Protection;
use reports::Reports;
use shared_pool::SharedPool;
use uploads::Uploads;

mod app_lines;
pub mod block_memory;
pub mod body;
pub mod certificate;
pub mod clients;
pub mod clock;
pub mod connection_share;
pub(crate) mod kernel_tls;
pub mod lanes;
pub mod line;
pub mod pool;
pub mod protection;
pub mod read_threads;
pub mod reports;
pub mod secrets;
pub mod shared_pool;
mod suites;
pub mod uploads;

/// Sixty-fourths of `--memory`. No request waits for a pool while it holds memory of the same pool.
/// Data that is sent from the store's memory counts as the store's until it is sent.
const STORE_64THS: u64 = 34;
const UPLOAD_64THS: u64 = 16;
const SMALL_UPLOAD_64THS: u64 = 1;
const FRAME_64THS: u64 = 2;
const LAYOUT_64THS: u64 = 6;
const LIST_64THS: u64 = 4;
const REPORT_64THS: u64 = 1;

/// This part of the memory for uploads stays at hand when there are none, up to a limit.
const KEPT_PART: u64 = 8;
const MAX_KEPT_BYTES: u64 = 64 << 20;

/// Pushes that write to one disk may hold this part of the memory for uploads, and so may those
/// that wait for locks while a disk hangs: together half of what an application may have.
const HANGING_PART: u64 = 8;

/// Names of blocks that wait for a disk which does not remove them: some hundred thousand.
const REMOVAL_BYTES: u64 = 16 << 20;

/// How the memory budget is shared out.
#[derive(Debug, Clone, Copy)]
pub struct MemorySplit {
    /// For the store's tails and metadata.
    pub store_bytes: u64,
    /// For uploads.
    pub upload_bytes: u64,
    /// For small uploads.
    pub small_upload_bytes: u64,
    /// For frames of more than 64 KiB.
    pub frame_bytes: u64,
    /// For layouts that are sent.
    pub layout_bytes: u64,
    /// For the lists of open streams.
    pub list_bytes: u64,
    /// For the reports of drivers.
    pub report_bytes: u64,
}

impl MemorySplit {
    /// Shares out the budget.
    pub fn of(memory_bytes: u64) -> Self {
        let of = |sixty_fourths: u64| memory_bytes / 64 * sixty_fourths;
        Self {
            store_bytes: of(STORE_64THS),
            upload_bytes: of(UPLOAD_64THS),
            small_upload_bytes: of(SMALL_UPLOAD_64THS),
            frame_bytes: of(FRAME_64THS),
            layout_bytes: of(LAYOUT_64THS),
            list_bytes: of(LIST_64THS),
            report_bytes: of(REPORT_64THS),
        }
    }

    /// Bytes of pushes that write to one disk at a time: see [`StoreConfig::hanging_bytes`].
    ///
    /// [`StoreConfig::hanging_bytes`]: lodestone_store::StoreConfig::hanging_bytes
    pub fn hanging_bytes(&self) -> u64 {
        self.upload_bytes / HANGING_PART
    }
}

/// The shared state of the daemon.
#[derive(Debug)]
pub struct Service {
    /// The merge store.
    pub store: Arc<Store>,
    /// Memory for uploads.
    pub uploads: Uploads,
    /// Buffers for the bodies of uploads.
    pub body_pool: Arc<BodyPool>,
    /// Memory for layouts that are sent.
    pub layouts: SharedPool,
    /// Memory for the lists of open streams.
    pub lists: SharedPool,
    /// Threads for calls of the store.
    pub lanes: Lanes,
    /// The memory for uploads that blocks of Spark's own push may take, by the place of their disk.
    blocks: Vec<BlockMemory>,
    /// Memory for names of blocks that wait for a disk, after their request was answered.
    pub removals: Pool,
    /// Blocks that a disk did not give.
    pub unreadable: Unreadable,
    /// The reports of drivers.
    pub reports: Reports,
    /// Metrics.
    pub metrics: Metrics,
    /// Its clients, for operators.
    pub clients: AllClients,
    /// Open connections.
    pub open: watch::Sender<usize>,
    /// How often leases were checked.
    pub looks: watch::Sender<u64>,
    /// True when the daemon was drained, and may end.
    pub drained: watch::Sender<bool>,
    /// What clients must do first.
    pub protection: Protection,
    /// The part of the cluster that fails as a whole with this host. Empty: not known.
    pub zone: String,
    next_stream: AtomicI64,
}

impl Service {
    /// Splits the budget around a store that has its part already. Without metrics of disks.
    pub fn new(store: Arc<Store>, split: MemorySplit) -> Arc<Self> {
        Self::with_threads(store, split, Threads::OfRuntime)
    }

    /// Splits the budget like [`Service::new`]. These threads carry out the calls of the store.
    pub fn with_threads(store: Arc<Store>, split: MemorySplit, threads: Threads) -> Arc<Self> {
        let no_disks = MeasuredFs::new(Arc::new(OsFs), &[]);
        Self::build(
            store,
            split,
            Arc::new(no_disks),
            threads,
            Protection::default(),
            String::new(),
        )
    }

    /// Splits the budget like [`Service::new`], with the metrics of the disks that the store writes
    /// to, with what clients must do first, and with the zone of this host.
    pub fn with_disks(
        store: Arc<Store>,
        split: MemorySplit,
        fs: Arc<MeasuredFs>,
        protection: Protection,
        zone: String,
    ) -> Arc<Self> {
        Self::build(store, split, fs, Threads::OfRuntime, protection, zone)
    }

    fn build(
        store: Arc<Store>,
        split: MemorySplit,
        fs: Arc<MeasuredFs>,
        threads: Threads,
        protection: Protection,
        zone: String,
    ) -> Arc<Self> {
        // Stream ids of another daemon must not match.
        let kept_bytes = (split.upload_bytes / KEPT_PART).min(MAX_KEPT_BYTES);
        let metrics = Metrics::beside(fs);
        metrics.started_at(store.unix_ms());
        let first_stream = store.process_number().cast_signed() & 0x00ff_ffff_ffff_0000;
        Arc::new(Self {
            lanes: Lanes::new(usize::from(store.disk_count()), threads),
            blocks: (0..usize::from(store.disk_count()) + FOREIGN_PLACES)
                .map(|_| BlockMemory::of(split.upload_bytes))
                .collect(),
            removals: Pool::new(REMOVAL_BYTES),
            store,
            uploads: Uploads::new(
                split.upload_bytes - kept_bytes,
                split.small_upload_bytes,
                split.frame_bytes,
            ),
            body_pool: BodyPool::new(kept_bytes as usize),
            layouts: SharedPool::with_share(split.layout_bytes, split.layout_bytes / 4 * 3),
            lists: SharedPool::new(split.list_bytes),
            unreadable: Unreadable::default(),
            reports: Reports::new(split.report_bytes),
            metrics,
            clients: AllClients::default(),
            open: watch::Sender::new(0),
            looks: watch::Sender::new(0),
            drained: watch::Sender::new(false),
            protection,
            zone,
            next_stream: AtomicI64::new(first_stream),
        })
    }

    /// Under which clients know the daemon's shuffles.
    pub fn incarnation(&self) -> i64 {
        self.store.incarnation().as_i64()
    }

    /// The memory of blocks of Spark's own push for the disk at this place.
    pub fn blocks_at(&self, place: usize) -> &BlockMemory {
        match self.blocks.get(place) {
            Some(blocks) => blocks,
            None => unreachable!("there is no place {place}"),
        }
    }

    /// An id that no other stream has.
    pub fn new_stream_id(&self) -> i64 {
        self.next_stream.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns what the metrics and the page show beside counters. Asks no disk.
    pub fn seen(&self) -> Seen {
        let store = self.store.load();
        Seen {
            load: self.whole(store),
            parts: self.parts(&store),
            applications: self.store.application_count(),
            disk_refusals: self.store.disk_refusals(),
            disk_reserves: self.store.disk_reserves(),
        }
    }

    /// Returns the parts of the memory that fill when work comes faster than the daemon can do it.
    /// One of them can be full while most of the whole budget is free.
    fn parts(&self, store: &Load) -> [MemoryPart; 2] {
        let of_store = MemoryPart {
            name: STORE,
            used: store.memory_used,
            limit: store.memory_limit,
        };
        let of_pushes = MemoryPart {
            name: PUSHES,
            used: self.uploads.large_used_bytes(),
            limit: self.uploads.most_bytes(),
        };
        [of_store, of_pushes]
    }

    /// Returns how busy the daemon is, for drivers: the memory is that of the part that is fullest.
    /// Asks no disk.
    pub fn load_of_fullest(&self) -> Load {
        let share = |part: &MemoryPart| part.used as f64 / part.limit.max(1) as f64;
        let load = self.store.load();
        let [store, pushes] = self.parts(&load);
        let fullest = match share(&pushes) > share(&store) {
            true => pushes,
            false => store,
        };
        Load {
            memory_used: fullest.used,
            memory_limit: fullest.limit,
            ..self.whole(load)
        }
    }

    /// Returns how busy the daemon is: the memory is the whole budget. Asks no disk.
    pub fn load(&self) -> Load {
        self.whole(self.store.load())
    }

    fn whole(&self, store: Load) -> Load {
        let used = self.uploads.used_bytes() + self.layouts.used_bytes() + self.lists.used_bytes();
        let limit = self.uploads.capacity_bytes()
            + self.layouts.capacity_bytes()
            + self.lists.capacity_bytes();
        let (used, limit) = (
            used + self.body_pool.used_bytes() + self.reports.used_bytes(),
            limit + self.body_pool.limit_bytes() + self.reports.limit_bytes(),
        );
        Load {
            memory_used: store.memory_used + used,
            memory_limit: store.memory_limit + limit,
            connections: u32::try_from(*self.open.borrow()).unwrap_or(u32::MAX),
            ..store
        }
    }
}

#[cfg(test)]
mod tests;
