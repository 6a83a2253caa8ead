// SPDX-License-Identifier: Apache-2.0
//! Registrations of executors, kept for the next daemon on the same directories. An executor
//! registers once, when it starts, and its blocks must be found after the daemon was restarted.
//!
//! ```text
//! lodestone-<incarnation>/    on each disk
//!   executors-<n>    a line of JSON per registration, each with a serial
//! ```
//!
//! Each disk has a log with all registrations, so that the failure of a disk loses none: no write
//! says that a disk is about to fail. The line with the highest serial counts, in whatever file it
//! is. So a disk that is back after it was away, a file that is cut, or one that a crash left
//! beside the next one, has only older lines, or the same ones.
//!
//! A file grows with each registration, until half of it may be out of date. Then a file with the
//! next number starts with the known ones, and the old file is removed. So it is, too, after a
//! write failed, and after a disk hung: the log there lacks registrations, and the next
//! registration, or the next look at the disk, writes all of them. No disk waits for another one.
//! Executors of an earlier daemon for which this one has no room are in a file of their own, which
//! stays.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::registration_files::{Earlier, Registration, lines_of};
use super::registration_log::{DiskLog, Lines};
use crate::fs::Fs;
use crate::resource::disk::RETRY_MS;
use crate::resource::timed_mutex::{TimedGuard, TimedMutex};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// How long a registration waits for a disk that hangs. A disk in use is seldom silent for longer,
/// and Spark repeats a registration after 5 s (`spark.shuffle.registration.timeout`).
const WAIT: Duration = Duration::from_secs(3);

/// How long it waits for each other one after a wait in vain.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// All that is known, to be written down.
type Known<'a> = &'a dyn Fn() -> Vec<Registration>;

/// Where they are written down.
#[derive(Debug)]
pub(crate) struct Registrations {
    turn: TimedMutex<()>,
    /// By disk.
    logs: Vec<Arc<DiskLog>>,
    /// The highest serial.
    serial: AtomicU64,
    /// An executor is known that could not wait until it was recorded.
    is_behind: AtomicBool,
    /// Nothing is written until all executors of earlier daemons are known again: the first file of
    /// this daemon replaces the old one.
    pub(crate) is_held: AtomicBool,
    /// Executors of earlier daemons for which there is no room.
    without_room: AtomicUsize,
}

impl Registrations {
    /// Those of this daemon are newer than the earlier ones.
    pub(crate) fn new(roots: &[PathBuf], earlier: &Earlier) -> Self {
        let log = |root: &PathBuf| DiskLog::new(root, earlier.number, earlier.has_read(root));
        Self {
            turn: TimedMutex::default(),
            logs: roots.iter().map(log).map(Arc::new).collect(),
            serial: earlier.serial().into(),
            is_behind: false.into(),
            is_held: false.into(),
            without_room: 0.into(),
        }
    }

    /// Returns a lock to hold while an executor is registered and recorded, so that the files have
    /// the order in which it happened. It does not wait for a disk that hangs: an executor that
    /// cannot register ends.
    pub(crate) fn turn(&self) -> Option<TimedGuard<'_, ()>> {
        self.turn.lock().ok()
    }

    /// Returns the serial of a registration. It is a time, if possible: an earlier daemon may have
    /// given higher numbers than this one could read.
    pub(crate) fn next_serial(&self, unix_ms: u64) -> u64 {
        self.serial.fetch_max(unix_ms, SeqCst);
        self.serial.fetch_add(1, SeqCst) + 1
    }

    /// Returns true if the next daemon will find all that is known, on each disk.
    pub(crate) fn are_kept(&self) -> bool {
        !self.is_behind.load(SeqCst) && self.logs.iter().all(|log| log.is_whole())
    }

    /// All is to be written down the next time.
    pub(crate) fn fall_behind(&self) {
        self.is_behind.store(true, SeqCst);
    }

    /// Records a registration, if it is one, on each disk; together with all that is `known`, which
    /// includes it, where a new file is due. After a failure a new file is due; if another disk has
    /// the registration, not at once: each executor would write all of them to a disk that is gone.
    /// Fails if no disk has it. The caller has the turn.
    pub(crate) fn add(
        &self,
        fs: &Arc<dyn Fs>,
        news: Option<&Registration>,
        known: Known<'_>,
        now_ms: u64,
    ) -> io::Result<()> {
        self.pass_on_delay();
        let line = news.map(|one| lines_of(std::slice::from_ref(one)));
        let line = line.transpose()?.map(Arc::new);
        let mut all = KnownLines { known, lines: None };
        let mut wait = WAIT;
        let mut outcome = Ok(());
        let mut is_kept = false;
        let logs = self.logs.iter();
        let (whole, lacking): (Vec<_>, Vec<_>) = logs.partition(|log| log.is_whole());
        for log in whole.into_iter().chain(lacking) {
            if is_kept && log.rests(now_ms) {
                continue;
            }
            let begun = log.begin(wait, |file| match file.needs_all() {
                true => Ok(Some(Lines::All(all.get()?))),
                false => Ok(line.clone().map(Lines::Next)),
            });
            let written = begun.and_then(|begun| match begun {
                Some(write) => log.write_in_time(write, fs, wait),
                None => Ok(()),
            });
            match written {
                Ok(()) => is_kept = true,
                Err(error) => {
                    // The disks together must not take longer than the client waits.
                    if error.kind() == io::ErrorKind::TimedOut {
                        wait = SHORT_WAIT;
                    }
                    log.retry_at(now_ms.saturating_add(RETRY_MS));
                    outcome = Err(error);
                }
            }
        }
        if is_kept { Ok(()) } else { outcome }
    }

    /// Writes down what this daemon has taken over, on this thread, and the executors for which it
    /// has no room.
    pub(crate) fn start(
        &self,
        fs: &dyn Fs,
        without_room: &[Registration],
        known: Known<'_>,
    ) -> io::Result<()> {
        self.without_room.store(without_room.len(), SeqCst);
        let apart = Arc::new(lines_of(without_room)?);
        let all = Arc::new(lines_of(&known())?);
        for log in &self.logs {
            let (apart, all) = (Arc::clone(&apart), Arc::clone(&all));
            let begun = log.begin(WAIT, |_| Ok(Some(Lines::First { apart, all })))?;
            begun.map(|write| write.run(fs));
        }
        Ok(())
    }

    /// Writes all that is known to the log on this disk, on the thread of the disk, if it lacks
    /// something: perhaps no executor registers before the next daemon starts.
    pub(crate) fn repair(&self, place: usize, fs: &dyn Fs, known: Known<'_>, now_ms: u64) {
        let Some(log) = self.logs.get(place) else {
            return;
        };
        // If an executor registers just now, the next look comes in time.
        let Some(turn) = self.turn.try_lock() else {
            return;
        };
        self.pass_on_delay();
        if !log.is_lacking() || log.rests(now_ms) {
            return;
        }
        let begun = log.begin(Duration::ZERO, |_| {
            let known = known();
            // Nothing to write: also before the first registration.
            let lines = (!known.is_empty()).then(|| lines_of(&known).map(Arc::new));
            Ok(lines.transpose()?.map(Lines::All))
        });
        // Others may register while this disk hangs.
        drop(turn);
        if let Ok(Some(write)) = begun
            && !write.run(fs)
        {
            log.retry_at(now_ms + RETRY_MS);
        }
    }

    /// Writes what a log lacks, as far as the disks do it in time, and nothing any more from then
    /// on. Call it before the executors are forgotten, which would look as if there were none.
    pub(crate) fn close(&self, fs: &Arc<dyn Fs>, known: Known<'_>) {
        // The last moment: a disk that hung may just have gone on.
        self.logs.iter().for_each(|log| log.wait_again());
        if let Some(_turn) = self.turn.try_lock()
            && !known().is_empty()
            && let Err(error) = self.add(fs, None, known, u64::MAX)
        {
            tracing::warn!(%error, "the next daemon will not know all executors");
        }
        let mut wait = WAIT;
        for log in &self.logs {
            if !log.close(wait) {
                wait = SHORT_WAIT;
            }
        }
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
        let mut outcome = Err(io::Error::other("they could not be written again"));
        for found in self.logs.iter().filter_map(|log| log.without_room(fs)) {
            outcome = found;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn pass_on_delay(&self) {
        if self.is_behind.swap(false, SeqCst) {
            self.logs.iter().for_each(|log| log.fall_behind());
        }
    }
}

/// The lines of all that is known, for several disks.
struct KnownLines<'a> {
    known: Known<'a>,
    lines: Option<Arc<Vec<u8>>>,
}

impl KnownLines<'_> {
    fn get(&mut self) -> io::Result<Arc<Vec<u8>>> {
        if let Some(lines) = &self.lines {
            return Ok(Arc::clone(lines));
        }
        let lines = Arc::new(lines_of(&(self.known)())?);
        self.lines = Some(Arc::clone(&lines));
        Ok(lines)
    }
}
