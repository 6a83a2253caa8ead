// SPDX-License-Identifier: Apache-2.0
//! The reports of drivers about their shuffles: the last report of each application, kept after its
//! end for people who ask for reasons. In memory, with a limit. Anybody can send reports under any
//! name, so the reports of applications that nobody registered go first, and then the oldest.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lodestone_model::{AppAttempt, AppId, Code, Refusal, spark_id};
use lodestone_wire::extension::explain::{ReportApplication, ReportKept};

/// Applications that are remembered, however short their reports.
const APPLICATIONS_MAX: usize = 1024;

/// Reports of one application: its attempts. Spark tries an application a few times.
const PER_APPLICATION_MAX: usize = 16;

/// The part of the memory that the reports of one application may take.
const APPLICATION_PART: usize = 4;

/// Memory that an entry needs beside its text.
const ENTRY_BYTES: usize = 512;

/// The last report of each application.
#[derive(Debug)]
pub struct Reports {
    limit_bytes: usize,
    kept: Mutex<Kept>,
}

/// An application, and its attempt.
type Key = (AppId, AppAttempt);

#[derive(Debug, Default)]
struct Kept {
    reports: BTreeMap<Key, Report>,
    bytes: usize,
    count: u64,
}

#[derive(Debug)]
struct Report {
    ended: bool,
    text: String,
    kept_ms: u64,
    /// The application was registered when it sent this report or an earlier one.
    was_registered: bool,
    /// The number of reports that came before this one.
    turn: u64,
}

impl Report {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.text.len()
    }
}

impl Reports {
    /// Returns an empty list with room for this many bytes.
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes: usize::try_from(limit_bytes).unwrap_or(usize::MAX),
            kept: Mutex::default(),
        }
    }

    /// Replaces the earlier report of the application attempt. If the application has more than its
    /// share, its oldest reports go. If all reports together need more room, those of applications
    /// that nobody registered go first, then those of applications that ended, then the oldest.
    pub fn keep(
        &self,
        message: ReportApplication,
        now_ms: u64,
        is_registered: impl Fn(&AppId) -> bool,
    ) -> Result<(), Refusal> {
        let (length, limit) = (message.report.len(), self.limit_bytes / APPLICATION_PART);
        if length + ENTRY_BYTES > limit {
            let detail = format!("a report of {length} bytes; a quarter of the room is {limit}");
            return Err(Code::TooLarge.because(detail));
        }
        let mut kept = self.kept();
        let turn = kept.count;
        kept.count += 1;
        let key = (message.app, message.app_attempt);
        let earlier = kept.remove(&key);
        let report = Report {
            was_registered: is_registered(&key.0) || earlier.is_some_and(|one| one.was_registered),
            ended: message.ended,
            text: message.report,
            kept_ms: now_ms,
            turn,
        };
        kept.bytes += report.bytes();
        kept.reports.insert(key.clone(), report);
        while kept.has_more_than_its_share(&key.0, limit) {
            let of_others = |((app, _), report): (&Key, &Report)| (*app != key.0, report.turn);
            kept.remove_first(of_others);
        }
        kept.make_room(self.limit_bytes, is_registered);
        match kept.reports.contains_key(&key) {
            true => Ok(()),
            false => Err(Code::Overloaded.because("registered applications have all the room")),
        }
    }

    /// Bytes of the reports that [`Reports::of`] returns, or [`Reports::list`] if the id is empty.
    pub fn bytes_of(&self, app: &str) -> u64 {
        let kept = self.kept();
        let bytes: usize = match app {
            "" => kept.reports.len() * ENTRY_BYTES,
            app => kept.of(app).map(|(_, report)| report.bytes()).sum(),
        };
        bytes as u64
    }

    /// Returns the reports of all attempts of an application, and of all drivers that gave their
    /// application this id: people know the id as Spark shows it.
    pub fn of(&self, app: &str, now_ms: u64) -> Vec<ReportKept> {
        self.kept()
            .of(app)
            .map(|(key, report)| shown(key, report, report.text.clone(), now_ms))
            .collect()
    }

    /// Every application, without its report.
    pub fn list(&self, now_ms: u64) -> Vec<ReportKept> {
        let kept = self.kept();
        let all = kept.reports.iter();
        all.map(|(key, report)| shown(key, report, String::new(), now_ms))
            .collect()
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.kept().bytes as u64
    }

    /// Bytes that there are.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes as u64
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn of(&self, app: &str) -> impl Iterator<Item = (&Key, &Report)> {
        self.reports
            .iter()
            .filter(move |((id, _), _)| id.as_str() == app || spark_id(id.as_str()) == app)
    }

    fn has_more_than_its_share(&self, app: &AppId, limit_bytes: usize) -> bool {
        let of_app = || self.reports.iter().filter(|((one, _), _)| one == app);
        of_app().count() > PER_APPLICATION_MAX
            || of_app().map(|(_, report)| report.bytes()).sum::<usize>() > limit_bytes
    }

    fn remove(&mut self, key: &Key) -> Option<Report> {
        let report = self.reports.remove(key)?;
        self.bytes -= report.bytes();
        Some(report)
    }

    /// Removes reports of others. Looks at each application once: there may be a thousand.
    fn make_room(&mut self, limit_bytes: usize, is_registered: impl Fn(&AppId) -> bool) {
        let is_full =
            |kept: &Self| kept.bytes > limit_bytes || kept.reports.len() > APPLICATIONS_MAX;
        if !is_full(self) {
            return;
        }
        let rank = |(key, report): (&Key, &Report)| {
            let is_registered = is_registered(&key.0);
            (
                is_registered,
                report.was_registered,
                report.turn,
                key.clone(),
            )
        };
        let mut ranked: Vec<_> = self.reports.iter().map(rank).collect();
        ranked.sort_unstable_by_key(|&(registered, was, turn, _)| (registered, was, turn));
        for (.., key) in ranked {
            if !is_full(self) {
                break;
            }
            self.remove(&key);
        }
    }

    /// Removes the report with the lowest rank.
    fn remove_first<R: Ord>(&mut self, rank: impl Fn((&Key, &Report)) -> R) {
        let first = self
            .reports
            .iter()
            .min_by_key(|&(key, report)| rank((key, report)));
        if let Some(key) = first.map(|(key, _)| key.clone()) {
            self.remove(&key);
        }
    }
}

fn shown((app, attempt): &Key, report: &Report, text: String, now_ms: u64) -> ReportKept {
    ReportKept {
        app: app.clone(),
        app_attempt: *attempt,
        ended: report.ended,
        age_ms: i64::try_from(now_ms.saturating_sub(report.kept_ms)).unwrap_or(i64::MAX),
        report: text,
    }
}

#[cfg(test)]
mod tests;
