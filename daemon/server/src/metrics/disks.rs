// SPDX-License-Identifier: Apache-2.0
//! The metrics of each data directory, and the file system that counts what is written and read.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_model::Code;
use lodestone_store::fs::{
    Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Mounts, Open, Space, Version,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use serde::Serialize;

use super::stopwatch::Stopwatch;
use super::{latency, signed};

/// The label of each of these metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    dir: String,
}

/// The labels of the states of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    dir: String,
    state: &'static str,
}

/// What a disk may be. Exactly one of them is 1.
const STATES: [&str; 3] = ["works", "full", "failed"];

fn state_of(refusal: Option<Code>) -> &'static str {
    match refusal {
        None => "works",
        Some(Code::DiskFull) => "full",
        Some(_) => "failed",
    }
}

/// A data directory and its metrics.
#[derive(Debug)]
struct Disk {
    /// The path as the operator wrote it, and the path without links: the store uses both.
    roots: [PathBuf; 2],
    write_seconds: Histogram,
    write_bytes: Counter,
    write_failures: Counter,
    read_bytes: Counter,
    read_failures: Counter,
    free_bytes: Gauge,
    size_bytes: Gauge,
    reserve_bytes: Gauge,
    /// In the order of [`STATES`].
    states: [Gauge; 3],
}

/// What was last seen of a data directory.
#[derive(Debug, Serialize)]
pub struct SeenDisk {
    /// As the operator wrote it.
    pub dir: String,
    /// Bytes free on its disk.
    pub free_bytes: u64,
    /// Bytes in use and free on its disk. 0: its disk does not answer.
    pub size_bytes: u64,
    /// Bytes written to it by this daemon.
    pub written_bytes: u64,
    /// Writes to it that failed.
    pub write_failures: u64,
    /// Bytes read from it by this daemon.
    pub read_bytes: u64,
    /// Reads from it that failed.
    pub read_failures: u64,
    /// Whether it takes data: one of `works`, `full`, `failed`.
    pub state: &'static str,
}

/// The metrics of all data directories.
struct Families {
    write_seconds: Family<Label, Histogram, fn() -> Histogram>,
    write_bytes: Family<Label, Counter>,
    write_failures: Family<Label, Counter>,
    read_bytes: Family<Label, Counter>,
    read_failures: Family<Label, Counter>,
    free_bytes: Family<Label, Gauge>,
    size_bytes: Family<Label, Gauge>,
    reserve_bytes: Family<Label, Gauge>,
    states: Family<StateLabels, Gauge>,
}

impl Families {
    fn registered(registry: &mut Registry) -> Self {
        fn added<M: Metric + Clone + Default>(r: &mut Registry, name: &str, help: &str) -> M {
            let metric = M::default();
            r.register(name, help, metric.clone());
            metric
        }
        let r = registry;
        let write_seconds = Family::new_with_constructor(latency as fn() -> Histogram);
        let help = "Time of one write, of at most 1 MiB, to a data directory";
        r.register("merge_write_seconds", help, write_seconds.clone());
        let failed = "Writes to a data directory that failed";
        let read = "Bytes read from a data directory, also those that the page cache had";
        let unread = "Reads from a data directory that failed";
        let free = "Bytes free on the disk of a data directory";
        let size = "Bytes in use and free on the disk of a data directory";
        let reserve = "Bytes that stay free there: a disk with fewer takes no data";
        let state = "1 for the state of a disk: works, full, or failed (it fails, or hangs)";
        Self {
            write_seconds,
            write_bytes: added(r, "merge_write_bytes", "Bytes written to a data directory"),
            write_failures: added(r, "merge_write_failures", failed),
            read_bytes: added(r, "merge_read_bytes", read),
            read_failures: added(r, "merge_read_failures", unread),
            free_bytes: added(r, "merge_disk_free_bytes", free),
            size_bytes: added(r, "merge_disk_size_bytes", size),
            reserve_bytes: added(r, "merge_disk_reserve_bytes", reserve),
            states: added(r, "merge_disk_state", state),
        }
    }

    fn disk(&self, fs: &dyn Fs, path: &Path) -> Disk {
        let dir = path.to_string_lossy().into_owned();
        let state = |state| {
            let labels = StateLabels {
                dir: dir.clone(),
                state,
            };
            self.states.get_or_create_owned(&labels)
        };
        let states = STATES.map(state);
        let label = Label { dir };
        let real = fs.canonical(path).unwrap_or_else(|_| path.to_owned());
        Disk {
            roots: [path.to_owned(), real],
            write_seconds: self.write_seconds.get_or_create_owned(&label),
            write_bytes: self.write_bytes.get_or_create_owned(&label),
            write_failures: self.write_failures.get_or_create_owned(&label),
            read_bytes: self.read_bytes.get_or_create_owned(&label),
            read_failures: self.read_failures.get_or_create_owned(&label),
            free_bytes: self.free_bytes.get_or_create_owned(&label),
            size_bytes: self.size_bytes.get_or_create_owned(&label),
            reserve_bytes: self.reserve_bytes.get_or_create_owned(&label),
            states,
        }
    }
}

/// All data directories, and the file system below them.
#[derive(Debug)]
pub struct MeasuredFs {
    fs: Arc<dyn Fs>,
    disks: Vec<Arc<Disk>>,
    registry: Registry,
}

impl MeasuredFs {
    /// Counts what is written and read below these directories. A label is a directory as the
    /// operator wrote it.
    pub fn new(fs: Arc<dyn Fs>, dirs: &[PathBuf]) -> Self {
        let mut registry = Registry::with_prefix(super::PREFIX);
        let families = Families::registered(&mut registry);
        let disk = |dir: &PathBuf| Arc::new(families.disk(fs.as_ref(), dir));
        let disks = dirs.iter().map(disk).collect();
        Self {
            fs,
            disks,
            registry,
        }
    }

    /// Sets the state of each directory, and its reserve: the refusals and reserves of the store,
    /// in the same order.
    pub(super) fn show(&self, refusals: &[Option<Code>], reserves: &[u64]) {
        for (disk, reserve) in self.disks.iter().zip(reserves) {
            disk.reserve_bytes.set(signed(*reserve));
        }
        for (disk, refusal) in self.disks.iter().zip(refusals) {
            let now = state_of(*refusal);
            for (gauge, state) in disk.states.iter().zip(STATES) {
                gauge.set((state == now).into());
            }
        }
    }

    /// Returns what was last seen of each data directory, with the refusals of the store in the
    /// same order. Asks no disk.
    pub(super) fn seen(&self, refusals: &[Option<Code>]) -> Vec<SeenDisk> {
        let unsigned = |gauge: &Gauge| gauge.get().cast_unsigned();
        let seen = |(disk, refusal): (&Arc<Disk>, &Option<Code>)| SeenDisk {
            dir: disk.roots[0].to_string_lossy().into_owned(),
            free_bytes: unsigned(&disk.free_bytes),
            size_bytes: unsigned(&disk.size_bytes),
            written_bytes: disk.write_bytes.get(),
            write_failures: disk.write_failures.get(),
            read_bytes: disk.read_bytes.get(),
            read_failures: disk.read_failures.get(),
            state: state_of(*refusal),
        };
        self.disks.iter().zip(refusals).map(seen).collect()
    }

    /// Returns the metrics.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    fn disk_of(&self, path: &Path) -> Option<&Arc<Disk>> {
        let is_below = |disk: &&Arc<Disk>| disk.roots.iter().any(|root| path.starts_with(root));
        self.disks.iter().find(is_below)
    }
}

impl Fs for MeasuredFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.fs.open(path, how)?;
        Ok(match self.disk_of(path) {
            Some(disk) => Arc::new(MeasuredFile {
                file,
                disk: Arc::clone(disk),
            }),
            None => file,
        })
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Dir>> {
        self.fs.open_dir(path)
    }

    fn create_dir(&self, path: &Path, access: Access) -> io::Result<()> {
        self.fs.create_dir(path, access)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.fs.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        self.fs.kind(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs.canonical(path)
    }

    fn dir_access(&self, path: &Path) -> io::Result<DirAccess> {
        self.fs.dir_access(path)
    }

    fn mounts(&self) -> Mounts {
        self.fs.mounts()
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let space = self.fs.space(path);
        if let Some(disk) = self.disk_of(path) {
            // A disk that fails to answer has no room, as in the load that the store reports.
            let Space { free, total } = *space.as_ref().unwrap_or(&Space::default());
            disk.free_bytes.set(signed(free));
            disk.size_bytes.set(signed(total));
        }
        space
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.fs.try_lock(path)
    }
}

/// A file that is open below a data directory.
#[derive(Debug)]
struct MeasuredFile {
    file: Arc<dyn File>,
    disk: Arc<Disk>,
}

impl File for MeasuredFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let stopwatch = Stopwatch::start();
        let written = self.file.write_at(parts, offset);
        match &written {
            Ok(bytes) => {
                self.disk.write_seconds.observe(stopwatch.seconds());
                self.disk.write_bytes.inc_by(*bytes as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                self.disk.write_failures.inc();
            }
        }
        written
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(into, offset);
        match &read {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => self.count_read(read.as_ref().ok().copied()),
        }
        read
    }

    fn count_read(&self, bytes: Option<usize>) {
        match bytes {
            Some(bytes) => self.disk.read_bytes.inc_by(bytes as u64),
            None => self.disk.read_failures.inc(),
        };
    }

    fn set_size(&self, bytes: u64) -> io::Result<()> {
        self.file.set_size(bytes)
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.punch(offset, length)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn version(&self) -> io::Result<Version> {
        self.file.version()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}

#[cfg(test)]
mod tests;
