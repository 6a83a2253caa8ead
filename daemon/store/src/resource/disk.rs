// SPDX-License-Identifier: Apache-2.0
//! Our directories, one per disk, and which disks are out of use.
//!
//! A failed write takes its disk out of use: no new file goes there and appends to its files are
//! refused, with DISK_FULL or DISK_FAILED. After [`RETRY_MS`] the next caller probes it by writing
//! a small file, and takes it into use again if that works. If this process lacks descriptors for
//! that file, the next caller probes; if it lacks anything else, the first one after [`LACK_MS`].
//! What is refused meanwhile gets OVERLOADED. A disk that is stalled ([`Flow`]) is out of use as
//! long as it is stalled, and is not probed: a thread that writes to it may not come back.

mod choice;
mod error;
mod health;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use lodestone_model::Code;

pub(crate) use error::code_of;
use error::has_no_descriptor;
use health::Health;

use super::flow::{Flow, Stalled};
use super::foreign::ForeignPath;
use super::foreign_disks::ForeignDisks;
use super::reserve::Reserve;
use super::{Environment, locked};
use crate::fs::{Fs, Open, Space, write_all_at};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How long a bad disk is not used.
pub(crate) const RETRY_MS: u64 = 5_000;

/// How long no one probes after a probe that this process had no memory for: it may fail only after
/// a file was made.
const LACK_MS: u64 = 100;

/// Bytes of a probe: as many as one write of a group, so that a disk that takes a probe takes a
/// group.
const PROBE_BYTES: usize = 256 * 1024;

/// Position in the list of directories.
pub(crate) type DiskIndex = u16;

#[derive(Debug)]
struct Disk {
    root: PathBuf,
    /// `None` if the table of mounts does not say it.
    device: Option<u64>,
    /// False is a shortcut: the lock is only taken for a disk that had trouble.
    troubled: AtomicBool,
    health: Mutex<Health>,
    flow: Flow,
    /// The stall of the disk was logged.
    is_known_to_stall: AtomicBool,
    /// The lack of room was logged.
    is_known_to_be_low: AtomicBool,
    /// Its room when it was looked at last, less what was written since.
    free: AtomicU64,
    total: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Disks {
    disks: Vec<Disk>,
    /// The disks behind the directories that Spark's executors name.
    foreign: ForeignDisks,
    reserve: Reserve,
    /// Steps of writes to all of them: these show progress.
    steps: AtomicU64,
    /// Writes may use the reserve: their data would be lost otherwise.
    reserve_is_open: AtomicBool,
}

impl Disks {
    /// The table of mounts says which roots share a disk with directories of executors. It knows
    /// paths without links only. Requests that write to one disk hold `bodies_max` bytes of bodies.
    pub(crate) fn new(roots: Vec<PathBuf>, fs: &dyn Fs, reserve: Reserve, bodies_max: u64) -> Self {
        let count = roots.len();
        let mounts = fs.mounts();
        let without_links = |root: &PathBuf| fs.canonical(root).unwrap_or_else(|_| root.clone());
        let disk = |root: PathBuf| Disk {
            device: mounts.device_of(&without_links(&root)),
            root,
            troubled: false.into(),
            health: Mutex::new(Health::Well),
            flow: Flow::with_bodies(count, bodies_max),
            is_known_to_stall: false.into(),
            is_known_to_be_low: false.into(),
            free: 0.into(),
            total: 0.into(),
        };
        Self {
            disks: roots.into_iter().map(disk).collect(),
            foreign: ForeignDisks::new(count),
            reserve,
            steps: 0.into(),
            reserve_is_open: false.into(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.disks.len()
    }

    pub(crate) fn root(&self, index: DiskIndex) -> &Path {
        self.disks
            .get(usize::from(index))
            .map_or(Path::new(""), |disk| &disk.root)
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.disks.iter().map(|disk| disk.root.as_path())
    }

    /// The disks behind the directories that Spark's executors name.
    pub(crate) fn foreign(&self) -> &ForeignDisks {
        &self.foreign
    }

    /// Returns the place of the directories of executors on a device: see [`ForeignDisks::number`].
    pub(crate) fn foreign_place(&self, device: Option<u64>) -> usize {
        self.len() + self.foreign.number(device)
    }

    /// Returns the flow of writes at a place. One disk has one flow, also if executors have
    /// directories there: otherwise it could hold twice as many threads. Disks of which nothing is
    /// known are never the same.
    pub(crate) fn flow_at(&self, place: usize) -> &Flow {
        if let Some(disk) = self.disks.get(place) {
            return &disk.flow;
        }
        let number = place - self.len();
        let device = self.foreign.device(number);
        let is_the_same = |disk: &&Disk| device.is_some() && disk.device == device;
        let ours = self.disks.iter().find(is_the_same);
        ours.map_or(&self.foreign.flows(number).writes, |disk| &disk.flow)
    }

    /// Returns the flow of looks at the place of a disk of executors.
    pub(crate) fn looks_at(&self, place: usize) -> &Flow {
        &self.foreign.flows(place.saturating_sub(self.len())).looks
    }

    /// Ok if the disk takes writes; probes it if it is time to.
    pub(crate) fn check(&self, index: DiskIndex, environment: &Environment) -> Result<(), Code> {
        let Some(disk) = self.disks.get(usize::from(index)) else {
            return Err(Code::Internal);
        };
        if disk.is_stalled(environment) {
            return Err(Code::DiskFailed);
        }
        if self.is_low(disk) {
            return Err(Code::DiskFull);
        }
        if !disk.troubled.load(Relaxed) {
            return Ok(());
        }
        let now_ms = environment.clock.now_ms();
        let Some(claimed_until_ms) = locked(&disk.health).claim(now_ms)? else {
            return Ok(());
        };
        match disk.probe(environment) {
            Ok(()) => {
                tracing::info!(dir = %disk.root.display(), "the disk accepts writes again");
                *locked(&disk.health) = Health::Well;
                disk.troubled.store(false, Relaxed);
                Ok(())
            }
            Err(error) => {
                let code = self.report(index, &error, environment);
                if code == Code::Overloaded {
                    let rest_ms = match has_no_descriptor(&error) {
                        true => 0,
                        false => LACK_MS,
                    };
                    locked(&disk.health).doubt(claimed_until_ms, now_ms + rest_ms);
                }
                Err(code)
            }
        }
    }

    /// Takes the disk out of use if the error is the disk's, and returns the code of the answer.
    pub(crate) fn report(
        &self,
        index: DiskIndex,
        error: &io::Error,
        environment: &Environment,
    ) -> Code {
        let code = code_of(error);
        if !matches!(code, Code::DiskFull | Code::DiskFailed) || Stalled::is(error) {
            return code;
        }
        if let Some(disk) = self.disks.get(usize::from(index)) {
            let retry_at_ms = environment.clock.now_ms() + RETRY_MS;
            let mut health = locked(&disk.health);
            if matches!(*health, Health::Well) {
                tracing::warn!(dir = %disk.root.display(), %code, %error, "the disk takes no data");
            }
            *health = Health::bad(code, retry_at_ms);
            disk.troubled.store(true, Relaxed);
        }
        code
    }

    /// Writes a small file, after a write failed for a reason that need not be the disk's.
    pub(crate) fn probe(&self, index: DiskIndex, environment: &Environment) -> io::Result<()> {
        let disk = self.disks.get(usize::from(index));
        disk.map_or(Err(ErrorKind::NotFound.into()), |d| d.probe(environment))
    }

    /// Probes the disk if it is time to, and asks for its room. Blocks as long as the disk does.
    pub(crate) fn look_at(&self, index: DiskIndex, environment: &Environment) {
        // A refusal is known to those that write.
        let _ = self.check(index, environment);
        if let Some(disk) = self.disks.get(usize::from(index)) {
            let space = environment.fs.space(&disk.root).unwrap_or_default();
            disk.free.store(space.free, Relaxed);
            disk.total.store(space.total, Relaxed);
        }
    }

    /// True if the disk takes writes, as far as is known.
    pub(crate) fn is_well(&self, index: DiskIndex, environment: &Environment) -> bool {
        let disk = self.disks.get(usize::from(index));
        disk.is_some_and(|disk| {
            !disk.troubled.load(Relaxed)
                && !self.is_low(disk)
                && !disk.flow.is_stalled(environment.clock.as_ref())
        })
    }

    /// Lets data use the reserve that would be lost otherwise: the daemon is drained, or ends.
    pub(crate) fn open_reserve(&self) {
        self.reserve_is_open.store(true, Relaxed);
    }

    /// Ends what [`Disks::open_reserve`] began.
    pub(crate) fn close_reserve(&self) {
        self.reserve_is_open.store(false, Relaxed);
    }

    /// Counts bytes that were written since the room of the disk was looked at.
    pub(crate) fn count_written(&self, index: DiskIndex, bytes: u64) {
        if let Some(disk) = self.disks.get(usize::from(index)) {
            let less = |free: u64| Some(free.saturating_sub(bytes));
            let _ = disk.free.try_update(Relaxed, Relaxed, less);
        }
    }

    /// Counts a step of a write.
    pub(crate) fn count_step(&self) {
        self.steps.fetch_add(1, Relaxed);
    }

    /// Steps of writes so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    /// True if only the reserve is left.
    fn is_low(&self, disk: &Disk) -> bool {
        let is_low = self.reserve.is_reached(disk.space());
        if is_low != disk.is_known_to_be_low.load(Relaxed)
            && is_low != disk.is_known_to_be_low.swap(is_low, Relaxed)
        {
            let (dir, free) = (disk.root.display(), disk.space().free);
            match is_low {
                true => {
                    tracing::warn!(%dir, free, "the disk takes no data: see `reserve`")
                }
                false => tracing::info!(%dir, free, "the disk has room again"),
            }
        }
        is_low && !self.reserve_is_open.load(Relaxed)
    }

    /// True if a file of executors is on a disk that has only the reserve left.
    pub(crate) fn keeps(&self, path: &ForeignPath, space: Space) -> bool {
        let is_low = self.reserve.is_reached(space);
        let number = path.place.saturating_sub(self.len());
        if self.foreign.is_news(number, is_low) {
            let (dir, free) = (path.base.display(), space.free);
            match is_low {
                true => tracing::warn!(
                    %dir, free, "this disk of executors gets no merged data: see `reserve`"
                ),
                false => tracing::info!(%dir, free, "this disk of executors has room again"),
            }
        }
        is_low
    }

    /// Ok if a disk takes writes, as far as is known: no disk is asked.
    pub(crate) fn known(&self, environment: &Environment) -> Result<(), Code> {
        let mut refusal = Code::DiskFailed;
        for disk in &self.disks {
            match self.refusal_of(disk, environment) {
                None => return Ok(()),
                Some(code) => refusal = code,
            }
        }
        Err(refusal)
    }

    /// Returns for each disk the reason why it takes no writes, as far as is known.
    pub(crate) fn refusals(&self, environment: &Environment) -> Vec<Option<Code>> {
        let disks = self.disks.iter();
        disks
            .map(|disk| self.refusal_of(disk, environment))
            .collect()
    }

    /// Returns for each disk the bytes that stay free.
    pub(crate) fn reserves(&self) -> Vec<u64> {
        let totals = self.disks.iter().map(|disk| disk.space().total);
        totals.map(|total| self.reserve.bytes_of(total)).collect()
    }

    fn refusal_of(&self, disk: &Disk, environment: &Environment) -> Option<Code> {
        match disk.known(environment) {
            Ok(()) => self.is_low(disk).then_some(Code::DiskFull),
            Err(code) => Some(code),
        }
    }

    /// Room on all disks together, when they were looked at last.
    pub(crate) fn space(&self) -> Space {
        let mut sum = Space::default();
        for disk in &self.disks {
            let Space { free, total } = disk.space();
            sum.free = sum.free.saturating_add(free);
            sum.total = sum.total.saturating_add(total);
        }
        sum
    }
}

impl Disk {
    /// Its room when it was looked at last, less what was written since.
    fn space(&self) -> Space {
        Space {
            free: self.free.load(Relaxed),
            total: self.total.load(Relaxed),
        }
    }

    /// True if it had trouble, and may be probed again.
    fn is_due(&self, now_ms: u64) -> bool {
        locked(&self.health).is_due(now_ms)
    }

    fn known(&self, environment: &Environment) -> Result<(), Code> {
        if self.is_stalled(environment) {
            return Err(Code::DiskFailed);
        }
        locked(&self.health).known()
    }

    fn is_stalled(&self, environment: &Environment) -> bool {
        let is_stalled = self.flow.is_stalled(environment.clock.as_ref());
        if self.is_known_to_stall.load(Relaxed) != is_stalled
            && self.is_known_to_stall.swap(is_stalled, Relaxed) != is_stalled
        {
            let dir = self.root.display();
            match is_stalled {
                true => tracing::warn!(%dir, error = %Stalled, "the disk takes no data"),
                false => tracing::info!(%dir, "the disk writes again"),
            }
        }
        is_stalled
    }

    fn probe(&self, environment: &Environment) -> io::Result<()> {
        let writing = self.flow.begin(environment.clock.as_ref())?;
        let path = self.root.join(PROBE_NAME);
        let file = environment.fs.open(&path, Open::Create)?;
        let written = write_all_at(file.as_ref(), &[&vec![0; PROBE_BYTES]], 0);
        drop(file);
        let removed = match environment.fs.remove_file(&path) {
            // Another thread probed at the same time, and removed the file first.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        drop(writing);
        written.and(removed)
    }
}

/// The name of the probe file in a disk's directory.
pub(crate) const PROBE_NAME: &str = "probe";

#[cfg(test)]
mod tests;
