// SPDX-License-Identifier: Apache-2.0
//! The metrics of each data directory, and the file system that counts the writes to it.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_store::fs::{
    Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Mounts, Open, Space, Version,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde::Serialize;

use super::latency;
use super::stopwatch::Stopwatch;

/// The label of each of these metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    dir: String,
}

/// A data directory and its metrics.
#[derive(Clone, Debug)]
struct Disk {
    /// The path as the operator wrote it, and the path without links: the store uses both.
    roots: [PathBuf; 2],
    write_seconds: Histogram,
    write_bytes: Counter,
    write_failures: Counter,
    free_bytes: Gauge,
    size_bytes: Gauge,
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
}

/// All data directories, and the file system below them.
#[derive(Debug)]
pub struct MeasuredFs {
    fs: Arc<dyn Fs>,
    disks: Vec<Disk>,
    registry: Registry,
}

impl MeasuredFs {
    /// Counts the writes below these directories. A label is a directory as the operator wrote it.
    pub fn new(fs: Arc<dyn Fs>, dirs: &[PathBuf]) -> Self {
        let write_seconds = Family::<Label, _, fn() -> Histogram>::new_with_constructor(latency);
        let (write_bytes, write_failures) = (Family::default(), Family::default());
        let (free_bytes, size_bytes) = (Family::default(), Family::default());
        let disk = |dir: &PathBuf| {
            let label = Label {
                dir: dir.to_string_lossy().into_owned(),
            };
            Disk {
                roots: [
                    dir.clone(),
                    fs.canonical(dir).unwrap_or_else(|_| dir.clone()),
                ],
                write_seconds: write_seconds.get_or_create_owned(&label),
                write_bytes: write_bytes.get_or_create_owned(&label),
                write_failures: write_failures.get_or_create_owned(&label),
                free_bytes: free_bytes.get_or_create_owned(&label),
                size_bytes: size_bytes.get_or_create_owned(&label),
            }
        };
        let disks = dirs.iter().map(disk).collect();
        let mut registry = Registry::with_prefix(super::PREFIX);
        let help = "Time of one write, of at most 1 MiB, to a data directory";
        registry.register("merge_write_seconds", help, write_seconds);
        let help = "Bytes written to a data directory";
        registry.register("merge_write_bytes", help, write_bytes);
        let help = "Writes to a data directory that failed";
        registry.register("merge_write_failures", help, write_failures);
        let help = "Bytes free on the disk of a data directory";
        registry.register("merge_disk_free_bytes", help, free_bytes);
        let help = "Bytes in use and free on the disk of a data directory";
        registry.register("merge_disk_size_bytes", help, size_bytes);
        Self {
            fs,
            disks,
            registry,
        }
    }

    /// Returns what was last seen of each data directory. Asks no disk.
    pub(super) fn seen(&self) -> Vec<SeenDisk> {
        let unsigned = |gauge: &Gauge| gauge.get().cast_unsigned();
        let seen = |disk: &Disk| SeenDisk {
            dir: disk.roots[0].to_string_lossy().into_owned(),
            free_bytes: unsigned(&disk.free_bytes),
            size_bytes: unsigned(&disk.size_bytes),
            written_bytes: disk.write_bytes.get(),
            write_failures: disk.write_failures.get(),
        };
        self.disks.iter().map(seen).collect()
    }

    /// Returns the metrics.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    fn disk_of(&self, path: &Path) -> Option<&Disk> {
        let is_below = |disk: &&Disk| disk.roots.iter().any(|root| path.starts_with(root));
        self.disks.iter().find(is_below)
    }
}

impl Fs for MeasuredFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.fs.open(path, how)?;
        Ok(match (how, self.disk_of(path)) {
            (Open::Write | Open::Create, Some(disk)) => Arc::new(MeasuredFile {
                file,
                disk: disk.clone(),
            }),
            _ => file,
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
            let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            disk.free_bytes.set(signed(free));
            disk.size_bytes.set(signed(total));
        }
        space
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.fs.try_lock(path)
    }
}

/// A file that is open for writing below a data directory.
#[derive(Debug)]
struct MeasuredFile {
    file: Arc<dyn File>,
    disk: Disk,
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
        self.file.read_at(into, offset)
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
mod tests {
    use super::*;
    use lodestone_store::fs::fake::{Errno, FakeFs};

    fn write(fs: &MeasuredFs, path: &str) -> io::Result<usize> {
        let file = fs.open(Path::new(path), Open::Create)?;
        file.write_at(&[IoSlice::new(b"seven b")], 0)
    }

    #[test]
    fn writes_below_a_directory_that_is_a_link_count_by_either_name() {
        let temporary = tempfile::tempdir().unwrap();
        let (real, link) = (temporary.path().join("real"), temporary.path().join("link"));
        let real_fs = Arc::new(lodestone_store::fs::OsFs);
        real_fs.create_dir(&real, Access::Private).unwrap();
        rustix::fs::symlink(&real, &link).unwrap();
        let fs = MeasuredFs::new(real_fs, std::slice::from_ref(&link));
        write(&fs, link.join("one").to_str().unwrap()).unwrap();
        write(&fs, real.join("two").to_str().unwrap()).unwrap();
        let line = format!(
            "lodestone_merge_write_bytes_total{{dir=\"{}\"}} 14",
            link.display()
        );
        assert!(text(&fs).lines().any(|found| found == line), "no {line}");
    }

    fn text(fs: &MeasuredFs) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, fs.registry()).unwrap();
        text
    }

    #[test]
    fn an_operator_sees_which_disk_is_written_to_and_which_one_fails() {
        let fake = FakeFs::with_dirs(["/a", "/b", "/elsewhere"]);
        fake.set_capacity(Path::new("/a"), 1000);
        let fs = MeasuredFs::new(Arc::new(fake.clone()), &["/a".into(), "/b".into()]);
        write(&fs, "/a/one").unwrap();
        write(&fs, "/a/two").unwrap();
        write(&fs, "/elsewhere/three").unwrap();
        let torn = lodestone_store::fs::fake::Fault::Torn(0, Errno::IO);
        fake.fault_at(0, torn);
        assert!(write(&fs, "/b/four").is_err());
        fs.space(Path::new("/a")).unwrap();
        let text = text(&fs);
        for line in [
            "lodestone_merge_write_bytes_total{dir=\"/a\"} 14",
            "lodestone_merge_write_seconds_count{dir=\"/a\"} 2",
            "lodestone_merge_write_failures_total{dir=\"/a\"} 0",
            "lodestone_merge_disk_free_bytes{dir=\"/a\"} 986",
            "lodestone_merge_disk_size_bytes{dir=\"/a\"} 1000",
            "lodestone_merge_write_bytes_total{dir=\"/b\"} 0",
            "lodestone_merge_write_seconds_count{dir=\"/b\"} 0",
            "lodestone_merge_write_failures_total{dir=\"/b\"} 1",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "no {line} in {text}"
            );
        }
    }
}
