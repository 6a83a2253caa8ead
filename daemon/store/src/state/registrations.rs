// SPDX-License-Identifier: Apache-2.0
//! Registrations of executors, kept for the next daemon on the same directories. An executor
//! registers once, when it starts, and its blocks must be found after the daemon was restarted.
//!
//! ```text
//! lodestone-<incarnation>/
//!   executors-<n>    a line of JSON per registration; the last line about an executor counts
//! ```
//!
//! The file grows with each registration, until half of it may be out of date. Then a file with the
//! next number starts with the known ones, and the old file is removed. Numbers continue those of
//! earlier daemons. Executors of an earlier daemon for which this one has no room are in a file of
//! their own, which stays.

use std::collections::HashSet;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::executors::ExecutorInfo;
use crate::fs::{Fs, Open, read_exact_at, write_all_at};
use crate::resource::incarnation::{registration_file_name, registration_files};
use crate::resource::timed_mutex::{TimedGuard, TimedMutex};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Size up to which the file grows before it is checked.
const REWRITE_BYTES: u64 = 1024 * 1024;

/// Files have numbers from 1 on.
const NO_FILES: RangeInclusive<u64> = 0..=0;

/// A file larger than this was not written here.
const READ_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// One executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) app: String,
    pub(crate) attempt: i32,
    pub(crate) executor: String,
    #[serde(flatten)]
    pub(crate) info: ExecutorInfo,
}

/// Where they are written down.
#[derive(Debug)]
pub(crate) struct Registrations {
    root: PathBuf,
    log: TimedMutex<Log>,
    /// An executor is known that could not wait until it was recorded.
    is_behind: AtomicBool,
    /// Nothing is written until all executors of earlier daemons are known again: the first file of
    /// this daemon replaces the old one.
    pub(crate) is_held: AtomicBool,
    /// Executors of earlier daemons for which there is no room.
    without_room: AtomicUsize,
}

/// The file and what is in it.
#[derive(Debug)]
pub(crate) struct Log {
    /// The number of the file that is written, or was last.
    number: u64,
    /// The numbers of files that stay: nothing else has the executors without room.
    kept: RangeInclusive<u64>,
    /// False if there is nothing yet, or not all that is known.
    is_whole: bool,
    bytes: u64,
    rewrite_at: u64,
}

impl Registrations {
    /// `number` is that of the newest file of earlier daemons: those of this one are newer.
    pub(crate) fn new(root: PathBuf, number: u64) -> Self {
        let log = TimedMutex::new(Log {
            number,
            kept: NO_FILES,
            is_whole: false,
            bytes: 0,
            rewrite_at: 0,
        });
        Self {
            root,
            log,
            is_behind: false.into(),
            is_held: false.into(),
            without_room: 0.into(),
        }
    }

    /// Returns a lock to hold while an executor is registered and recorded, so that the file has
    /// the order in which it happened. It does not wait for a disk that hangs: an executor that
    /// cannot register ends.
    pub(crate) fn turn(&self) -> Option<TimedGuard<'_, Log>> {
        self.log.lock().ok()
    }

    /// Returns true if the next daemon will find all that is known.
    pub(crate) fn are_kept(&self) -> bool {
        self.turn().is_some_and(|log| self.is_whole(&log))
    }

    pub(crate) fn is_whole(&self, log: &Log) -> bool {
        log.is_whole && !self.is_behind.load(SeqCst)
    }

    /// All is to be written down the next time.
    pub(crate) fn fall_behind(&self) {
        self.is_behind.store(true, SeqCst);
    }

    /// Returns true if the file is in this directory.
    pub(crate) fn are_in(&self, root: &Path) -> bool {
        self.root == root
    }

    /// Records a registration; together with all that is `known`, which includes it, when a new
    /// file is due. After a failure a new file is due.
    pub(crate) fn add(
        &self,
        log: &mut Log,
        fs: &dyn Fs,
        registration: &Registration,
        known: impl FnOnce() -> Vec<Registration>,
    ) -> io::Result<()> {
        let line = line_of(registration)?;
        let was_whole = std::mem::take(&mut log.is_whole) && !self.is_behind.swap(false, SeqCst);
        if !was_whole || log.bytes >= log.rewrite_at {
            return self.rewrite(log, fs, &known());
        }
        let file = fs.open(&self.path(log.number), Open::Write)?;
        write_all_at(file.as_ref(), &[&line], log.bytes)?;
        log.bytes += line.len() as u64;
        log.is_whole = true;
        Ok(())
    }

    /// Starts the next file with all that is known.
    pub(crate) fn rewrite(
        &self,
        log: &mut Log,
        fs: &dyn Fs,
        known: &[Registration],
    ) -> io::Result<()> {
        let before = registration_files(fs, &self.root)?;
        log.bytes = self.write_next(log, fs, known)?;
        for (number, name) in before {
            if !log.kept.contains(&number) {
                // A file that stays is read before the newer one, and changes nothing.
                let _ = fs.remove_file(&self.root.join(name));
            }
        }
        log.rewrite_at = REWRITE_BYTES.max(2 * log.bytes);
        log.is_whole = true;
        Ok(())
    }

    /// Writes these into a file of their own, for a daemon with more memory: this one has no room
    /// for them. The file needs none of it.
    pub(crate) fn keep_apart(
        &self,
        log: &mut Log,
        fs: &dyn Fs,
        without_room: &[Registration],
    ) -> io::Result<()> {
        self.without_room.store(without_room.len(), SeqCst);
        if without_room.is_empty() {
            return Ok(());
        }
        // Until they are in the next file, only the older ones have them.
        log.kept = 0..=log.number + 1;
        self.write_next(log, fs, without_room)?;
        log.kept = log.number..=log.number;
        Ok(())
    }

    /// The number of executors for which there is no room.
    pub(crate) fn without_room_count(&self) -> usize {
        self.without_room.load(SeqCst)
    }

    /// Reads the executors for which there is no room.
    pub(crate) fn without_room(&self, fs: &dyn Fs) -> io::Result<Vec<Registration>> {
        if self.without_room_count() == 0 {
            return Ok(Vec::new());
        }
        let kept = self.turn().map(|log| log.kept.clone());
        let kept = kept.ok_or(io::ErrorKind::ResourceBusy)?;
        if kept.start() != kept.end() {
            return Err(io::Error::other("they could not be written again"));
        }
        let content = content(fs, &self.path(*kept.end()))?;
        Ok(registrations_in(&content).collect())
    }

    /// Writes the next file, and returns its size.
    fn write_next(&self, log: &mut Log, fs: &dyn Fs, all: &[Registration]) -> io::Result<u64> {
        let lines = all.iter().map(line_of).collect::<io::Result<Vec<_>>>()?;
        let lines = lines.concat();
        log.number += 1;
        let file = fs.open(&self.path(log.number), Open::Create)?;
        write_all_at(file.as_ref(), &[&lines], 0)?;
        Ok(lines.len() as u64)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.root.join(registration_file_name(number))
    }
}

fn line_of(registration: &Registration) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(registration)?;
    line.push(b'\n');
    Ok(line)
}

/// A line that is cut is left out: its executor got no answer.
fn registrations_in(content: &[u8]) -> impl Iterator<Item = Registration> {
    let lines = content.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok())
}

/// The registrations of earlier daemons.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// In the order of the registrations.
    pub(crate) registrations: Vec<Registration>,
    /// The number of the newest file.
    pub(crate) number: u64,
    /// False if a file could not be read.
    pub(crate) is_whole: bool,
}

impl Earlier {
    /// Reads the directories of earlier daemons.
    pub(crate) fn read<'a>(fs: &dyn Fs, roots: impl Iterator<Item = &'a Path>) -> Self {
        let mut earlier = Self {
            is_whole: true,
            ..Self::default()
        };
        let mut files = Vec::new();
        for root in roots {
            match registration_files(fs, root) {
                Ok(found) => files.extend(found.into_iter().map(|(n, name)| (n, root.join(name)))),
                Err(error) => earlier.miss(root, &error),
            }
        }
        files.sort_unstable();
        earlier.number = files.last().map_or(0, |(number, _)| *number);
        for (_, path) in files {
            match content(fs, &path) {
                Ok(content) => earlier.registrations.extend(registrations_in(&content)),
                Err(error) => earlier.miss(&path, &error),
            }
        }
        earlier.keep_last();
        earlier
    }

    /// Only the last registration of an executor may be written again: if the daemon is killed
    /// during this, a newer file must not have an older registration.
    fn keep_last(&mut self) {
        let mut seen = HashSet::new();
        let mut last: Vec<_> = std::mem::take(&mut self.registrations)
            .into_iter()
            .rev()
            .filter(|one| seen.insert((one.app.clone(), one.executor.clone())))
            .collect();
        last.reverse();
        self.registrations = last;
    }

    fn miss(&mut self, path: &Path, error: &io::Error) {
        tracing::warn!(path = %path.display(), %error, "registrations of executors cannot be read");
        self.is_whole = false;
    }
}

fn content(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path, Open::Read)?;
    let size = file.size()?;
    if size > READ_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; size as usize];
    read_exact_at(file.as_ref(), &mut content, 0)?;
    Ok(content)
}
