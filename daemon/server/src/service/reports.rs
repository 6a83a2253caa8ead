// SPDX-License-Identifier: Apache-2.0
//! The reports of drivers about their shuffles: the last report of each application, kept after its
//! end for people who ask for reasons. In memory, with a limit; the oldest goes first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lodestone_model::{AppAttempt, AppId, Code, Refusal};
use lodestone_wire::extension::explain::{ReportApplication, ReportKept};

/// Applications that are remembered, however short their reports.
const APPLICATIONS_MAX: usize = 1024;

/// `docs/protocol.md`, section 1: the sign between an application's id and its driver's number.
const DRIVER_SIGN: char = '~';

/// Digits of a driver's number, in hexadecimal.
const DRIVER_DIGITS: usize = 16;

/// Memory that an entry needs beside its text.
const ENTRY_BYTES: usize = 512;

/// The last report of each application.
#[derive(Debug)]
pub struct Reports {
    limit_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    reports: BTreeMap<(AppId, AppAttempt), Report>,
    bytes: usize,
    count: u64,
}

#[derive(Debug)]
struct Report {
    ended: bool,
    text: String,
    kept_ms: u64,
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

    /// Replaces the earlier report of the application attempt. The oldest of the others make room.
    pub fn keep(&self, message: ReportApplication, now_ms: u64) -> Result<(), Refusal> {
        let (length, limit) = (message.report.len(), self.limit_bytes / 4);
        if length + ENTRY_BYTES > limit {
            let detail = format!("a report of {length} bytes; a quarter of the room is {limit}");
            return Err(Code::TooLarge.because(detail));
        }
        let mut kept = self.kept();
        let turn = kept.count;
        kept.count += 1;
        kept.remove(&(message.app.clone(), message.app_attempt));
        let report = Report {
            ended: message.ended,
            text: message.report,
            kept_ms: now_ms,
            turn,
        };
        kept.bytes += report.bytes();
        kept.reports
            .insert((message.app, message.app_attempt), report);
        while kept.bytes > self.limit_bytes || kept.reports.len() > APPLICATIONS_MAX {
            kept.remove_oldest();
        }
        Ok(())
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
    fn of(&self, app: &str) -> impl Iterator<Item = (&(AppId, AppAttempt), &Report)> {
        self.reports
            .iter()
            .filter(move |((id, _), _)| id.as_str() == app || without_driver(id.as_str()) == app)
    }

    fn remove(&mut self, key: &(AppId, AppAttempt)) {
        if let Some(report) = self.reports.remove(key) {
            self.bytes -= report.bytes();
        }
    }

    fn remove_oldest(&mut self) {
        let oldest = self.reports.iter().min_by_key(|(_, report)| report.turn);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.remove(&key);
        }
    }
}

/// Returns Spark's id, without the number of the driver that the client added to make it unique:
/// `app~0123456789abcdef`.
fn without_driver(id: &str) -> &str {
    match id.rsplit_once(DRIVER_SIGN) {
        Some((app, driver)) if driver.len() == DRIVER_DIGITS => app,
        _ => id,
    }
}

fn shown(
    (app, attempt): &(AppId, AppAttempt),
    report: &Report,
    text: String,
    now_ms: u64,
) -> ReportKept {
    ReportKept {
        app: app.clone(),
        app_attempt: *attempt,
        ended: report.ended,
        age_ms: i64::try_from(now_ms.saturating_sub(report.kept_ms)).unwrap_or(i64::MAX),
        report: text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(app: &str, text: &str) -> ReportApplication {
        ReportApplication {
            app: AppId::new(app).unwrap(),
            app_attempt: AppAttempt::NONE,
            ended: false,
            report: text.to_owned(),
        }
    }

    #[test]
    fn the_last_report_counts_and_its_age_is_shown() {
        let reports = Reports::new(1 << 20);
        reports.keep(report("a", "first"), 1000).unwrap();
        reports.keep(report("a", "second"), 3000).unwrap();
        let found = reports.of("a", 3500);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].report.as_str(), found[0].age_ms), ("second", 500));
        assert!(reports.of("b", 3500).is_empty());
    }

    #[test]
    fn drivers_that_gave_their_applications_the_same_id_are_all_found_by_it() {
        let reports = Reports::new(1 << 20);
        for app in [
            "a~0123456789abcdef",
            "a~fedcba9876543210",
            "a",
            "a~b",
            "ab~0123456789abcdef",
        ] {
            reports.keep(report(app, app), 0).unwrap();
        }
        let found: Vec<_> = reports
            .of("a", 0)
            .into_iter()
            .map(|kept| kept.report)
            .collect();
        assert_eq!(found, ["a", "a~0123456789abcdef", "a~fedcba9876543210"]);
        assert_eq!(reports.of("a~fedcba9876543210", 0).len(), 1);
        assert_eq!(reports.of("a~b", 0).len(), 1);
    }

    #[test]
    fn the_application_that_was_silent_for_longest_makes_room() {
        let reports = Reports::new(20_000);
        for app in ["a", "b", "c"] {
            reports.keep(report(app, &"x".repeat(4000)), 0).unwrap();
        }
        reports.keep(report("a", &"y".repeat(4000)), 1).unwrap();
        for app in ["d", "e"] {
            reports.keep(report(app, &"x".repeat(4000)), 2).unwrap();
        }
        let left: Vec<_> = reports
            .list(2)
            .into_iter()
            .map(|kept| kept.app.to_string())
            .collect();
        assert_eq!(left, ["a", "c", "d", "e"].map(str::to_owned));
        assert!(reports.list(2).iter().all(|kept| kept.report.is_empty()));
    }

    #[test]
    fn a_report_that_would_drive_out_most_others_is_refused() {
        let reports = Reports::new(20_000);
        reports.keep(report("a", "small"), 0).unwrap();
        let refused = reports.keep(report("b", &"x".repeat(5000)), 0).unwrap_err();
        assert_eq!(refused.code, Code::TooLarge);
        assert_eq!(reports.list(0).len(), 1);
    }

    #[test]
    fn short_reports_are_bounded_in_number() {
        let reports = Reports::new(1 << 30);
        for app in 0..APPLICATIONS_MAX + 10 {
            reports
                .keep(report(&format!("app-{app:05}"), ""), 0)
                .unwrap();
        }
        assert_eq!(reports.list(0).len(), APPLICATIONS_MAX);
        assert_eq!(reports.list(0)[0].app.as_str(), "app-00010");
    }
}
