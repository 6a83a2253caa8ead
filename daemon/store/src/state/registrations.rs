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

use super::deadline::Deadline;
use super::registration_files::{Earlier, Registration, lines_of};
use super::registration_log::{DiskLog, Lines, LogFile};
use crate::fs::Fs;
use crate::resource::Environment;
use crate::resource::disk::code_of;
use crate::resource::timed_mutex::{LockWaits, TimedGuard, TimedMutex};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// How long one registration waits for all disks together, and so does the end. A disk in use is
/// seldom silent for longer, and Spark repeats a registration after 5 s
/// (`spark.shuffle.registration.timeout`).
const WAIT: Duration = Duration::from_secs(3);

/// The part of it that is left for disks that failed a moment ago, if no other disk has the
/// registration.
const LAST_WAIT: Duration = Duration::from_millis(500);

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
    /// The end has begun to write what the logs lack, or has done it.
    is_closed: AtomicBool,
}

impl Registrations {
    /// Later registrations get higher serials than the earlier ones.
    pub(crate) fn new(roots: &[PathBuf], earlier: &Earlier) -> Self {
        let log = |root: &PathBuf| DiskLog::new(root, earlier.number, earlier.has_read(root));
        Self {
            turn: TimedMutex::default(),
            logs: roots.iter().map(log).map(Arc::new).collect(),
            serial: earlier.serial().into(),
            is_behind: false.into(),
            is_held: false.into(),
            without_room: 0.into(),
            is_closed: false.into(),
        }
    }

    /// Returns a lock to hold while an executor is registered and recorded, so that the files have
    /// the order in which it happened. Another one holds it for as long as it waits for disks that
    /// hang, so a caller waits for longer than that, however many pushes wait for these disks. If
    /// that is in vain, it goes on without: an executor that cannot register ends.
    pub(crate) fn turn(&self) -> Option<TimedGuard<'_, ()>> {
        LockWaits::default().lock(&self.turn).ok()
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
    /// the registration, and the disk was the reason, not at once: each executor would write all of
    /// them to a disk that is gone.
    /// Fails if no disk has it. The caller has the turn.
    pub(crate) fn add(
        &self,
        environment: &Environment,
        news: Option<&Registration>,
        known: Known<'_>,
    ) -> io::Result<()> {
        self.pass_on_delay();
        let clock = environment.clock.as_ref();
        let now_ms = clock.now_ms();
        let logs = self.logs.iter();
        let (resting, others): (Vec<_>, Vec<_>) = logs.partition(|log| log.rests(now_ms));
        let mut lines = NextLines::new(news, known)?;
        let first = match resting.is_empty() {
            true => WAIT,
            false => WAIT - LAST_WAIT,
        };
        let deadline = Deadline::after(clock, first);
        let written = write(&others, &mut lines, environment, &deadline);
        if written.is_ok() || resting.is_empty() {
            return written;
        }
        let deadline = Deadline::after(clock, LAST_WAIT);
        write(&resting, &mut lines, environment, &deadline)
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
            let begun = log.begin(None, |_| Ok(Some(Lines::First { apart, all })))?;
            if let Some(write) = begun {
                // The look at the disk writes what is lacking.
                let _ = write.run(fs);
            }
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
        let begun = log.begin(None, |_| {
            let known = known();
            // Nothing to write: also before the first registration.
            let lines = (!known.is_empty()).then(|| lines_of(&known).map(Arc::new));
            Ok(lines.transpose()?.map(Lines::All))
        });
        // Others may register while this disk hangs.
        drop(turn);
        if let Ok(Some(write)) = begun
            && let Err(code) = write.run(fs)
        {
            log.rest_after(code, now_ms);
        }
    }

    /// Writes what a log lacks, as far as the disks do it in time, and nothing any more from then
    /// on. Fails if no disk has all that is known. A second call writes nothing. Call it before the
    /// executors are forgotten, which would look as if there were none.
    pub(crate) fn close(&self, environment: &Environment, known: Known<'_>) -> io::Result<()> {
        let clock = environment.clock.as_ref();
        if self.is_closed.swap(true, SeqCst) {
            // If the first call still goes on, it must not write after the caller has forgotten.
            let deadline = Deadline::after(clock, Duration::ZERO);
            self.logs.iter().for_each(|log| log.close(&deadline));
            return Ok(());
        }
        let turn = self.turn();
        self.pass_on_delay();
        let logs: Vec<_> = self.logs.iter().collect();
        // The last moment: a disk that hung may just have gone on.
        logs.iter().for_each(|log| log.wait_again());
        let deadline = Deadline::after(clock, WAIT);
        let written = match turn {
            None => Err(io::Error::other("a registration does not end")),
            Some(_) if known().is_empty() => Ok(()),
            Some(_) => {
                let lines = NextLines::new(None, known);
                lines.and_then(|mut lines| write(&logs, &mut lines, environment, &deadline))
            }
        };
        logs.iter().for_each(|log| log.close(&deadline));
        written
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

/// Writes to these disks at the same time, because each may be slow, and waits for all of them
/// together. Fails if none has the lines.
fn write(
    logs: &[&Arc<DiskLog>],
    lines: &mut NextLines<'_>,
    environment: &Environment,
    deadline: &Deadline<'_>,
) -> io::Result<()> {
    // Before the first wait, each disk that is free has begun.
    let logs = logs.iter().copied();
    let (busy, free): (Vec<&Arc<DiskLog>>, Vec<_>) = logs.partition(|log| log.is_busy());
    let mut begun = Vec::new();
    for log in free.into_iter().chain(busy) {
        let write = log.begin(Some(deadline), |file| lines.of(file));
        let thread = write.and_then(|write| {
            let thread = write.map(|write| write.spawn(environment));
            thread.transpose()
        });
        begun.push((log, thread));
    }
    let mut outcome = Err(io::Error::other("there is no disk for it"));
    let mut is_kept = false;
    for (log, thread) in begun {
        let written = thread.and_then(|thread| match thread {
            Some(()) => log.written(deadline),
            None => Ok(()),
        });
        match written {
            Ok(()) => is_kept = true,
            Err(error) => {
                log.rest_after(code_of(&error), environment.clock.now_ms());
                outcome = Err(error);
            }
        }
    }
    if is_kept { Ok(()) } else { outcome }
}

/// What is to be written, on several disks.
struct NextLines<'a> {
    /// The line of the registration, if it is one.
    next: Option<Arc<Vec<u8>>>,
    known: Known<'a>,
    /// The lines of all that is known, once a disk needs them.
    all: Option<Arc<Vec<u8>>>,
}

impl<'a> NextLines<'a> {
    fn new(news: Option<&Registration>, known: Known<'a>) -> io::Result<Self> {
        let next = news.map(|one| lines_of(std::slice::from_ref(one)));
        Ok(Self {
            next: next.transpose()?.map(Arc::new),
            known,
            all: None,
        })
    }

    /// Returns what belongs into this file, if anything.
    fn of(&mut self, file: &LogFile) -> io::Result<Option<Lines>> {
        if !file.needs_all() {
            return Ok(self.next.clone().map(Lines::Next));
        }
        let all = match &self.all {
            Some(all) => Arc::clone(all),
            None => Arc::new(lines_of(&(self.known)())?),
        };
        self.all = Some(Arc::clone(&all));
        Ok(Some(Lines::All(all)))
    }
}

#[cfg(test)]
mod tests;
