// SPDX-License-Identifier: Apache-2.0
//! Event logs of Spark, which outlive driver and services, from files or from a History Server. A
//! reader hands on one event after the other, so that a log of many gigabytes needs the memory of
//! one event.

mod archive;
mod files;
mod frames;
mod history;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::cli::address::LogAddress;
use frames::Frames;
use history::HistoryError;

/// Why an event log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EventLogError {
    /// A file or a directory.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// What cannot be read.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Spark can compress its logs in ways that this program does not know.
    #[error(
        "{} begins neither with an event nor as zstd. It may be compressed in another way: let Spark \
         write logs with spark.eventLog.compression.codec=zstd, or decompress it", path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// A directory without a rolling log.
    #[error(
        "{} has no file events_N_...: name the file of an application, or the directory of its \
         rolling log (eventlog_v2_...)", path.display()
    )]
    NoEvents {
        /// The directory.
        path: PathBuf,
    },
    /// A History Server does not give the log.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A device or a pipe.
    #[error("{} is neither a file nor a directory", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
}

/// Takes the events of a log, in their order.
pub(super) trait Events {
    /// Returns true if the events of this class are of use. Spark's own listener events have a name
    /// without a package.
    fn wants(&self, class: &[u8]) -> bool;

    /// Takes one event of this class: a line of JSON, which may be damaged.
    fn take(&mut self, class: &[u8], line: &[u8]);
}

/// Both take the events that they want, in one pass.
impl<A: Events, B: Events> Events for (A, B) {
    fn wants(&self, class: &[u8]) -> bool {
        self.0.wants(class) || self.1.wants(class)
    }

    fn take(&mut self, class: &[u8], line: &[u8]) {
        if self.0.wants(class) {
            self.0.take(class, line);
        }
        if self.1.wants(class) {
            self.1.take(class, line);
        }
    }
}

/// What happened while a log was read.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What a person must know about the log, because it is not whole.
    pub(super) notes: Vec<String>,
    /// The last failure. What was read before it counts.
    pub(super) failure: Option<EventLogError>,
}

/// Each line begins with this, and the class.
const BEGIN: &[u8] = br#"{"Event":""#;

/// Enough for the beginning of a line and the name of a class.
const HEAD_BYTES: u64 = 256;

/// A stage of very many RDDs has some MB, an event of Lodestone's driver some hundred KB.
const MAX_EVENT_BYTES: u64 = 64 << 20;

/// Reads a log.
pub(super) fn read(log: &LogAddress, events: &mut impl Events) -> Result<Outcome, EventLogError> {
    let mut reading = Reading {
        events,
        outcome: Outcome::default(),
        too_long: 0,
    };
    match log {
        LogAddress::Path(path) => {
            let files = files::of(path)?;
            if files::are_compacted(files.iter().filter_map(|file| file.to_str())) {
                reading.outcome.notes.push(files::COMPACTED.to_owned());
            }
            for file in files {
                reading.part(&file, open(&file));
            }
        }
        LogAddress::History(application) => history::read(application, &mut reading)?,
    }
    Ok(reading.ended())
}

fn unreadable(path: &Path, source: io::Error) -> EventLogError {
    let path = path.to_owned();
    EventLogError::Unreadable { path, source }
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(BufReader::new)
}

/// A log that is being read, one file after the other.
struct Reading<'a, E> {
    events: &'a mut E,
    outcome: Outcome,
    too_long: u64,
}

impl<E: Events> Reading<'_, E> {
    /// Reads one file of the log. What follows a failure in it is left out.
    fn part(&mut self, path: &Path, opened: io::Result<impl BufRead>) {
        let read = opened
            .map_err(|source| unreadable(path, source))
            .and_then(|opened| self.content(path, opened));
        if let Err(error) = read {
            let note = format!("What follows the damage is left out. {error}");
            self.outcome.notes.push(note);
            self.outcome.failure = Some(error);
        }
    }

    fn content(&mut self, path: &Path, mut opened: impl BufRead) -> Result<(), EventLogError> {
        let unreadable = |source| unreadable(path, source);
        let begin = opened.fill_buf().map_err(unreadable)?;
        if begin.starts_with(&frames::MAGIC) {
            let opened = BufReader::new(Frames::new(opened));
            hand_on(opened, self.events, &mut self.too_long).map_err(unreadable)
        } else if begin.is_empty() || begin.starts_with(b"{") {
            hand_on(opened, self.events, &mut self.too_long).map_err(unreadable)
        } else {
            let path = path.to_owned();
            Err(EventLogError::Content { path })
        }
    }

    fn ended(mut self) -> Outcome {
        if self.too_long > 0 {
            let (count, limit) = (self.too_long, MAX_EVENT_BYTES >> 20);
            self.outcome.notes.push(format!(
                "{count} events left out, each of more than {limit} MiB."
            ));
        }
        self.outcome
    }
}

fn hand_on(
    mut lines: impl BufRead,
    events: &mut impl Events,
    too_long: &mut u64,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines
            .by_ref()
            .take(HEAD_BYTES)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(());
        }
        let is_wanted = class(&line).is_some_and(|class| events.wants(class));
        if is_wanted && !line.ends_with(b"\n") {
            let mut rest = lines.by_ref().take(MAX_EVENT_BYTES);
            rest.read_until(b'\n', &mut line)?;
        }
        if !line.ends_with(b"\n") {
            let is_cut_off = lines.skip_until(b'\n')? == 0;
            *too_long += u64::from(is_wanted && !is_cut_off);
        } else if let Some(class) = class(&line).filter(|_| is_wanted) {
            events.take(class, &line);
        }
    }
}

/// Returns the class that the beginning of a line names.
fn class(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(BEGIN)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    rest.get(..end)
}

#[cfg(test)]
mod tests;
