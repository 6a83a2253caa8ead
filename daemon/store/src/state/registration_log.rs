// SPDX-License-Identifier: Apache-2.0
//! The log of registrations on one disk: see `registrations.rs`. The disk may hang, so a thread
//! that may not wait for it lets another one write.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use lodestone_model::Code;

use super::deadline::Deadline;
use super::registration_files::{Registration, content, registrations_in};
use crate::fs::{Fs, Open, write_all_at};
use crate::resource::Environment;
use crate::resource::disk::{RETRY_MS, code_of};
use crate::resource::incarnation::{registration_file_name, registration_files};
use crate::resource::locked;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Size up to which the file grows before it is checked.
const REWRITE_BYTES: u64 = 1024 * 1024;

/// The log on one disk.
#[derive(Debug)]
pub(crate) struct DiskLog {
    root: PathBuf,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    /// Nothing while a thread writes it.
    file: Option<LogFile>,
    /// A caller waited for this thread in vain: no other one waits until it has ended.
    is_stuck: bool,
    /// There was news meanwhile, which the thread does not write.
    is_behind: bool,
    /// Why the last write failed, until the caller takes it.
    error: Option<io::Error>,
    /// Nothing is written any more: what is known now is not all that the next daemon needs.
    is_closed: bool,
    /// When all that is known may be written again, after a failure.
    retry_at_ms: u64,
}

/// What is to be written.
#[derive(Clone, Debug)]
pub(crate) enum Lines {
    /// The next line.
    Next(Arc<Vec<u8>>),
    /// All that is known, to a new file.
    All(Arc<Vec<u8>>),
    /// What has no room, to a file of its own, and then all that is known.
    First {
        apart: Arc<Vec<u8>>,
        all: Arc<Vec<u8>>,
    },
}

/// A write that a thread has begun. Its end makes the log free.
#[derive(Debug)]
pub(crate) struct LogWrite {
    log: Arc<DiskLog>,
    /// Nothing only when it is dropped.
    file: Option<LogFile>,
    lines: Lines,
}

/// The file and what is in it.
#[derive(Debug)]
pub(crate) struct LogFile {
    root: PathBuf,
    /// The number of the file that is written, or was last. Files have numbers from 1 on.
    number: u64,
    /// Files of earlier daemons were not read: those that are here stay.
    keeps_earlier: bool,
    /// The files up to this number stay: no newer one has all of their registrations.
    kept_to: u64,
    /// The file of the executors without room.
    apart: Option<u64>,
    /// False if there is nothing yet, or not all that is known.
    is_whole: bool,
    bytes: u64,
    rewrite_at: u64,
    /// The last failure was logged.
    is_known_to_fail: bool,
}

impl DiskLog {
    /// `number` is that of the newest file of earlier daemons. If not all of these could be read,
    /// the ones in this directory stay.
    pub(crate) fn new(root: &Path, number: u64, were_all_read: bool) -> Self {
        let file = LogFile {
            root: root.into(),
            number,
            keeps_earlier: !were_all_read,
            kept_to: 0,
            apart: None,
            is_whole: false,
            bytes: 0,
            rewrite_at: 0,
            is_known_to_fail: false,
        };
        Self {
            root: root.into(),
            state: Mutex::new(State {
                file: Some(file),
                is_stuck: false,
                is_behind: false,
                error: None,
                is_closed: false,
                retry_at_ms: 0,
            }),
            ended: Condvar::new(),
        }
    }

    /// Begins a write of the lines that `choose` returns, if there are any. If another thread
    /// writes, it waits `within` this time; without one it fails. Call it for one change after
    /// another.
    pub(crate) fn begin(
        self: &Arc<Self>,
        within: Option<&Deadline<'_>>,
        choose: impl FnOnce(&LogFile) -> io::Result<Option<Lines>>,
    ) -> io::Result<Option<LogWrite>> {
        let mut state = locked(&self.state);
        if let Some(deadline) = within
            && !state.is_closed
        {
            state = self.when_free(state, deadline);
        }
        if state.is_closed {
            return Err(io::Error::other("the daemon ends"));
        }
        let Some(file) = &mut state.file else {
            state.is_behind = true;
            return Err(io::Error::other("an earlier write there hangs"));
        };
        // Under the lock: after `close` the store forgets what it knows.
        let Some(lines) = choose(file)? else {
            return Ok(None);
        };
        // Until it is written, also if there is no thread.
        file.is_whole = false;
        Ok(Some(LogWrite {
            log: Arc::clone(self),
            file: state.file.take(),
            lines,
        }))
    }

    /// Waits for the write that has begun, and returns its outcome.
    pub(crate) fn written(&self, deadline: &Deadline<'_>) -> io::Result<()> {
        let mut state = self.when_free(locked(&self.state), deadline);
        match state.file.as_ref().map(|file| file.is_whole) {
            Some(true) => Ok(()),
            Some(false) => Err(state.error.take().unwrap_or(ErrorKind::Other.into())),
            None => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// Lets callers wait again, also for a write that others waited for in vain.
    pub(crate) fn wait_again(&self) {
        locked(&self.state).is_stuck = false;
    }

    /// Lets nothing begin any more, and waits for a write that has begun.
    pub(crate) fn close(&self, deadline: &Deadline<'_>) {
        let mut state = locked(&self.state);
        state.is_closed = true;
        drop(self.when_free(state, deadline));
    }

    /// Waits until no thread writes, or until the deadline. After one wait in vain, no caller waits
    /// until the thread has ended.
    fn when_free<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: &Deadline<'_>,
    ) -> MutexGuard<'a, State> {
        while state.file.is_none() && !state.is_stuck {
            let left = deadline.left();
            if left.is_zero() {
                let dir = self.root.display();
                tracing::warn!(%dir, "the disk hangs: executors are written down there later");
                state.is_stuck = true;
                break;
            }
            let waited = self.ended.wait_timeout(state, left);
            let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if result.timed_out() {
                deadline.end();
            }
        }
        state
    }

    /// Returns true if another thread writes.
    pub(crate) fn is_busy(&self) -> bool {
        locked(&self.state).file.is_none()
    }

    /// All is to be written the next time.
    pub(crate) fn fall_behind(&self) {
        let mut state = locked(&self.state);
        match &mut state.file {
            Some(file) => file.is_whole = false,
            None => state.is_behind = true,
        }
    }

    /// Returns true if it has all that is known.
    pub(crate) fn is_whole(&self) -> bool {
        let state = locked(&self.state);
        state.file.as_ref().is_some_and(|file| file.is_whole)
    }

    /// Returns true if a write may begin, and must write all that is known.
    pub(crate) fn is_lacking(&self) -> bool {
        let state = locked(&self.state);
        state.file.as_ref().is_some_and(|file| !file.is_whole)
    }

    /// Returns true if a write failed, and it is too early for another one.
    pub(crate) fn rests(&self, now_ms: u64) -> bool {
        self.is_lacking() && now_ms < locked(&self.state).retry_at_ms
    }

    /// A write failed: others should wait, if the disk is the reason.
    pub(crate) fn rest_after(&self, code: Code, now_ms: u64) {
        if code != Code::Overloaded {
            locked(&self.state).retry_at_ms = now_ms.saturating_add(RETRY_MS);
        }
    }

    /// Reads the executors for which there is no room; nothing if this log does not have them.
    pub(crate) fn without_room(&self, fs: &dyn Fs) -> Option<io::Result<Vec<Registration>>> {
        let path = {
            let state = locked(&self.state);
            let file = state.file.as_ref()?;
            file.path(file.apart?)
        };
        Some(content(fs, &path).map(|content| registrations_in(&content).collect()))
    }
}

impl LogWrite {
    /// Writes on a thread of its own.
    pub(crate) fn spawn(self, environment: &Environment) -> io::Result<()> {
        let fs = Arc::clone(&environment.fs);
        let run = move || {
            // The caller waits for the error itself.
            let _ = self.run(fs.as_ref());
        };
        let name = "registrations".to_owned();
        environment.threads.start(name, Box::new(run))
    }

    /// Writes on this thread, which waits as long as the disk hangs. Fails with the code of the
    /// error, which is kept for the caller that waits.
    pub(crate) fn run(mut self, fs: &dyn Fs) -> Result<(), Code> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let written = match &self.lines {
            Lines::Next(line) => file.append(fs, line),
            Lines::All(all) => file.rewrite(fs, all),
            Lines::First { apart, all } => file
                .keep_apart(fs, apart)
                .and_then(|()| file.rewrite(fs, all)),
        };
        file.is_whole = written.is_ok();
        file.log(&written);
        let outcome = written.as_ref().copied().map_err(code_of);
        locked(&self.log.state).error = written.err();
        outcome
    }
}

impl Drop for LogWrite {
    fn drop(&mut self) {
        let mut state = locked(&self.log.state);
        state.is_stuck = false;
        let is_behind = std::mem::take(&mut state.is_behind);
        if let Some(file) = &mut self.file {
            file.is_whole &= !is_behind;
        }
        state.file = self.file.take();
        self.log.ended.notify_all();
    }
}

impl LogFile {
    /// Returns true if all that is known belongs into a new file.
    pub(crate) fn needs_all(&self) -> bool {
        !self.is_whole || self.bytes >= self.rewrite_at
    }

    fn append(&mut self, fs: &dyn Fs, line: &[u8]) -> io::Result<()> {
        let file = fs.open(&self.path(self.number), Open::Write)?;
        write_all_at(file.as_ref(), &[line], self.bytes)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Starts the next file, and removes those before it. Only those: a file with a higher number
    /// is not of this log.
    fn rewrite(&mut self, fs: &dyn Fs, all: &[u8]) -> io::Result<()> {
        let before = self.write_next(fs, all)?;
        self.bytes = all.len() as u64;
        for (number, name) in before {
            let stays = number <= self.kept_to || self.apart == Some(number);
            if number < self.number && !stays {
                // If it cannot be removed, it changes nothing: its lines are older.
                let _ = fs.remove_file(&self.root.join(name));
            }
        }
        self.rewrite_at = REWRITE_BYTES.max(2 * self.bytes);
        Ok(())
    }

    /// Writes these into a file of their own, for a daemon with more memory: this one has no room
    /// for them. The file needs none of it.
    fn keep_apart(&mut self, fs: &dyn Fs, without_room: &[u8]) -> io::Result<()> {
        if without_room.is_empty() {
            return Ok(());
        }
        let written = self.write_next(fs, without_room);
        match &written {
            Ok(_) => self.apart = Some(self.number),
            // Only the older ones have them.
            Err(_) => self.kept_to = self.number,
        }
        written.map(|_| ())
    }

    /// Writes a file with a number above all others, and returns these.
    fn write_next(&mut self, fs: &dyn Fs, lines: &[u8]) -> io::Result<Vec<(u64, String)>> {
        let before = registration_files(fs, &self.root)?;
        let newest = before.last().map_or(0, |(number, _)| *number);
        if std::mem::take(&mut self.keeps_earlier) {
            self.kept_to = newest;
        }
        self.number = self.number.max(newest) + 1;
        let path = self.path(self.number);
        let file = fs.open(&path, Open::Create)?;
        let written = write_all_at(file.as_ref(), &[lines], 0);
        drop(file);
        if written.is_err() {
            // Each try makes another one, and they would fill the disk.
            let _ = fs.remove_file(&path);
        }
        written.map(|()| before)
    }

    /// Logs the first failure, and the end of failures.
    fn log(&mut self, written: &io::Result<()>) {
        let was_known = std::mem::replace(&mut self.is_known_to_fail, written.is_err());
        let dir = self.root.display();
        match written {
            Err(error) if !was_known => {
                tracing::warn!(%dir, %error, "executors cannot be written down here");
            }
            Ok(()) if was_known => {
                tracing::info!(%dir, "executors are written down here again");
            }
            _ => {}
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.root.join(registration_file_name(number))
    }
}
