// SPDX-License-Identifier: Apache-2.0
//! Which reports make way, and which stay.

use super::*;

fn report(app: &str, text: &str) -> ReportApplication {
    ReportApplication {
        app: AppId::new(app).unwrap(),
        app_attempt: AppAttempt::NONE,
        ended: false,
        report: text.to_owned(),
    }
}

fn nobody(_: &AppId) -> bool {
    false
}

#[test]
fn the_last_report_counts_and_its_age_is_shown() {
    let reports = Reports::new(1 << 20);
    reports.keep(report("a", "first"), 1000, nobody).unwrap();
    reports.keep(report("a", "second"), 3000, nobody).unwrap();
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
        reports.keep(report(app, app), 0, nobody).unwrap();
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
        reports
            .keep(report(app, &"x".repeat(4000)), 0, nobody)
            .unwrap();
    }
    reports
        .keep(report("a", &"y".repeat(4000)), 1, nobody)
        .unwrap();
    for app in ["d", "e"] {
        reports
            .keep(report(app, &"x".repeat(4000)), 2, nobody)
            .unwrap();
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
    reports.keep(report("a", "small"), 0, nobody).unwrap();
    let refused = reports
        .keep(report("b", &"x".repeat(5000)), 0, nobody)
        .unwrap_err();
    assert_eq!(refused.code, Code::TooLarge);
    assert_eq!(reports.list(0).len(), 1);
}

#[test]
fn short_reports_are_bounded_in_number() {
    let reports = Reports::new(1 << 30);
    for app in 0..APPLICATIONS_MAX + 10 {
        reports
            .keep(report(&format!("app-{app:05}"), ""), 0, nobody)
            .unwrap();
    }
    assert_eq!(reports.list(0).len(), APPLICATIONS_MAX);
    assert_eq!(reports.list(0)[0].app.as_str(), "app-00010");
}

#[test]
fn reports_that_anybody_makes_up_leave_those_of_registered_applications() {
    let reports = Reports::new(1 << 30);
    let known = |app: &AppId| app.as_str().starts_with("known");
    let keep = |app: &str| reports.keep(report(app, ""), 0, known);
    keep("ended").unwrap();
    reports.keep(report("ended", ""), 0, |_| true).unwrap();
    for app in 0..APPLICATIONS_MAX - 1 {
        keep(&format!("known-{app:04}")).unwrap();
    }
    assert_eq!(keep("made-up").unwrap_err().code, Code::Overloaded);
    assert_eq!(reports.of("ended", 0).len(), 1);
    keep("known-more").unwrap();
    assert_eq!(reports.of("ended", 0).len(), 0);
    assert_eq!(reports.of("known-0000", 0).len(), 1);
}

#[test]
fn an_application_with_many_attempts_keeps_only_its_own_last_ones() {
    let reports = Reports::new(100_000);
    reports.keep(report("other", "text"), 0, nobody).unwrap();
    let attempt = |attempt, text: &str| ReportApplication {
        app_attempt: AppAttempt(attempt),
        ..report("app", text)
    };
    for number in 0..1_000 {
        reports.keep(attempt(number, ""), 0, nobody).unwrap();
    }
    assert_eq!(reports.of("app", 0).len(), PER_APPLICATION_MAX);
    reports
        .keep(attempt(0, &"x".repeat(20_000)), 0, nobody)
        .unwrap();
    assert!(reports.used_bytes() < 30_000);
    assert_eq!(reports.of("app", 0)[0].report.len(), 20_000);
    assert_eq!(reports.of("other", 0).len(), 1);
}
