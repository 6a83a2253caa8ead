// SPDX-License-Identifier: Apache-2.0
//! The report of an application from an event log of Spark, which outlives driver and services.
//! The driver posts what has changed (`ReportEvents.scala`): the last word on each shuffle counts.

mod frames;
mod settings;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use frames::Frames;
pub(in crate::operator) use settings::settings;

/// Why an event log has no report.
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
    /// A device or a pipe.
    #[error("{} is neither a file nor a directory", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// The application did not use the plugin.
    #[error(
        "{} has no report: the application ran without Lodestone, or had no shuffle", path.display()
    )]
    NoReport {
        /// The log.
        path: PathBuf,
    },
}

/// Each line of a log is an event, and begins with its class.
const MARK: &[u8] =
    br#"{"Event":"org.apache.spark.shuffle.lodestone.driver.ui.SparkListenerLodestoneReport""#;

/// The driver's events have some hundred KB. A longer line is not one of them.
const MAX_EVENT_BYTES: u64 = 16 << 20;

/// Those with the highest ids.
const MAX_SHUFFLES: usize = 1000;

/// One event.
#[derive(Deserialize)]
struct Event {
    report: Value,
}

/// What a log says.
#[derive(Debug, PartialEq)]
pub(in crate::operator) struct Logged {
    /// The report, as the driver would make it.
    pub(in crate::operator) report: Value,
    /// What a person must know about it, because the log is not whole.
    pub(in crate::operator) notes: Vec<String>,
}

/// What the events so far have said.
#[derive(Default)]
struct Merged {
    shuffles: BTreeMap<i64, Value>,
    last: Option<Value>,
    damaged: u64,
}

/// Reads a log. Of one that is not whole, what is there counts.
pub(in crate::operator) fn read(path: &Path) -> Result<Logged, EventLogError> {
    let (mut merged, mut notes, mut failure) = (Merged::default(), Vec::new(), None);
    for file in files(path)? {
        if let Err(error) = read_file(&file, &[MARK], &mut |line| merged.add(line)) {
            notes.push(format!("What follows the damage is left out. {error}"));
            failure = Some(error);
        }
    }
    if merged.damaged > 0 {
        notes.push(format!("{} events were damaged.", merged.damaged));
    }
    match (merged.report(), failure) {
        (Some(report), _) => Ok(Logged { report, notes }),
        (None, Some(failure)) => Err(failure),
        (None, None) => Err(EventLogError::NoReport {
            path: path.to_owned(),
        }),
    }
}

/// The files of a log, in order. A rolling log is a directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, EventLogError> {
    let unreadable = |source| unreadable(path, source);
    let found = fs::metadata(path).map_err(unreadable)?;
    let owned = path.to_owned();
    if found.is_file() {
        return Ok(vec![owned]);
    }
    if !found.is_dir() {
        return Err(EventLogError::NoFile { path: owned });
    }
    let mut parts = BTreeMap::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name
            .strip_prefix("events_")
            .and_then(|rest| rest.split('_').next()?.parse::<u64>().ok());
        // A compacted file has the number of the last file in it, and stands in its place. Spark
        // has not finished one that is in progress.
        if let Some(number) = number.filter(|_| !name.ends_with(".inprogress")) {
            let part = parts.entry(number).or_insert_with(|| entry.path());
            if name.ends_with(".compact") {
                *part = entry.path();
            }
        }
    }
    if parts.is_empty() {
        return Err(EventLogError::NoEvents { path: owned });
    }
    Ok(parts.into_values().collect())
}

fn unreadable(path: &Path, source: io::Error) -> EventLogError {
    let path = path.to_owned();
    EventLogError::Unreadable { path, source }
}

/// Gives each line that begins with one of the marks to `take`.
fn read_file(
    path: &Path,
    marks: &[&[u8]],
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), EventLogError> {
    let unreadable = |source| unreadable(path, source);
    let mut opened = BufReader::new(File::open(path).map_err(unreadable)?);
    let begin = opened.fill_buf().map_err(unreadable)?;
    if begin.starts_with(&frames::MAGIC) {
        events(BufReader::new(Frames::new(opened)), marks, take).map_err(unreadable)
    } else if begin.is_empty() || begin.starts_with(b"{") {
        events(opened, marks, take).map_err(unreadable)
    } else {
        let path = path.to_owned();
        Err(EventLogError::Content { path })
    }
}

fn events(mut lines: impl BufRead, marks: &[&[u8]], take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let begin = marks.iter().map(|mark| mark.len()).max().unwrap_or(0) as u64;
    let is_marked = |line: &[u8]| marks.iter().any(|mark| line.starts_with(mark));
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.by_ref().take(begin).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if is_marked(&line) && !line.ends_with(b"\n") {
            let mut rest = lines.by_ref().take(MAX_EVENT_BYTES);
            rest.read_until(b'\n', &mut line)?;
        }
        if !line.ends_with(b"\n") {
            lines.skip_until(b'\n')?;
        } else if is_marked(&line) {
            take(&line);
        }
    }
}

impl Merged {
    fn add(&mut self, line: &[u8]) {
        let event = serde_json::from_slice::<Event>(line);
        let Some(mut report) = event.ok().map(|one| one.report).filter(Value::is_object) else {
            self.damaged += 1;
            return;
        };
        if let Some(Value::Array(shuffles)) = report.get_mut("shuffles").map(Value::take) {
            for shuffle in shuffles {
                if let Some(id) = shuffle.get("shuffleId").and_then(Value::as_i64) {
                    self.shuffles.insert(id, shuffle);
                }
            }
        }
        while self.shuffles.len() > MAX_SHUFFLES {
            self.shuffles.pop_first();
        }
        self.last = Some(report);
    }

    fn report(self) -> Option<Value> {
        let mut report = self.last?;
        let shuffles = self.shuffles.into_values().collect();
        report
            .as_object_mut()?
            .insert("shuffles".to_owned(), Value::Array(shuffles));
        Some(report)
    }
}

#[cfg(test)]
mod tests;
