// SPDX-License-Identifier: Apache-2.0
//! The report of an application from an event log. The driver posts what has changed
//! (`ReportEvents.scala`): the last word on each shuffle counts. An event that waited while the
//! driver wrote its last report stands behind it, and is older.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::cli::address::LogAddress;
use crate::operator::event_log::{self, EventLogError, Events, Outcome};

/// Why an event log has no report.
#[derive(Debug, thiserror::Error)]
pub enum LoggedError {
    /// The log cannot be read.
    #[error(transparent)]
    EventLog(#[from] EventLogError),
    /// The application did not use the plugin.
    #[error("{log} has no report: the application ran without Lodestone, or had no shuffle")]
    NoReport {
        /// The log.
        log: LogAddress,
    },
}

/// The class of the events with reports.
const CLASS: &[u8] = b"org.apache.spark.shuffle.lodestone.driver.ui.SparkListenerLodestoneReport";

/// Those with the highest ids.
const MAX_SHUFFLES: usize = 1000;

/// One event.
#[derive(Deserialize)]
struct Event {
    /// When the driver made it, in ms since the epoch. No two reports have the same.
    #[serde(default)]
    time: i64,
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
pub(in crate::operator) struct Merged {
    /// With the times of their events.
    shuffles: BTreeMap<i64, (i64, Value)>,
    last: Option<(i64, Value)>,
    damaged: u64,
}

/// Reads a log. Of one that is not whole, what is there counts.
pub(super) fn read(log: &LogAddress) -> Result<Logged, LoggedError> {
    let mut merged = Merged::default();
    let outcome = event_log::read(log, &mut merged)?;
    merged.of(log, outcome)
}

impl Events for Merged {
    fn wants(&self, class: &[u8]) -> bool {
        class == CLASS
    }

    fn take(&mut self, _: &[u8], line: &[u8]) {
        self.add(line);
    }
}

impl Merged {
    /// Returns what the whole log says.
    pub(in crate::operator) fn of(
        self,
        log: &LogAddress,
        outcome: Outcome,
    ) -> Result<Logged, LoggedError> {
        let mut notes = outcome.notes;
        if self.damaged > 0 {
            notes.push(format!("{} events were damaged.", self.damaged));
        }
        match (self.report(), outcome.failure) {
            (Some(report), _) => Ok(Logged { report, notes }),
            (None, Some(failure)) => Err(failure.into()),
            (None, None) => Err(LoggedError::NoReport { log: log.clone() }),
        }
    }

    fn add(&mut self, line: &[u8]) {
        let event = serde_json::from_slice::<Event>(line);
        let Some(Event { time, mut report }) = event.ok().filter(|one| one.report.is_object())
        else {
            self.damaged += 1;
            return;
        };
        if let Some(Value::Array(shuffles)) = report.get_mut("shuffles").map(Value::take) {
            for shuffle in shuffles {
                if let Some(id) = shuffle.get("shuffleId").and_then(Value::as_i64) {
                    self.keep(id, time, shuffle);
                }
            }
        }
        while self.shuffles.len() > MAX_SHUFFLES {
            self.shuffles.pop_first();
        }
        if self.last.as_ref().is_none_or(|(last, _)| *last <= time) {
            self.last = Some((time, report));
        }
    }

    fn keep(&mut self, id: i64, time: i64, shuffle: Value) {
        let known = self.shuffles.get(&id);
        if known.is_none_or(|(last, _)| *last <= time) {
            self.shuffles.insert(id, (time, shuffle));
        }
    }

    fn report(self) -> Option<Value> {
        let (_, mut report) = self.last?;
        let shuffles = self.shuffles.into_values().map(|(_, one)| one).collect();
        report
            .as_object_mut()?
            .insert("shuffles".to_owned(), Value::Array(shuffles));
        Some(report)
    }
}

#[cfg(test)]
mod tests;
