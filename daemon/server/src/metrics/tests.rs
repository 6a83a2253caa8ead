// SPDX-License-Identifier: Apache-2.0
//! The names that dashboards and alerts use.

use lodestone_store::fs::OsFs;

use super::*;

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// All metrics of a daemon with one data directory.
fn text() -> String {
    let fs = MeasuredFs::new(Arc::new(OsFs), &["/".into()]);
    let metrics = Metrics::beside(Arc::new(fs));
    metrics.text(Form::Open, &seen(State::Serving)).unwrap()
}

fn seen(state: State) -> Seen {
    let load = Load {
        state,
        memory_used: 3,
        memory_limit: 7,
        disk_free: 0,
        disk_total: 0,
        connections: 2,
        shuffles: 1,
    };
    let part = |name, used| MemoryPart {
        name,
        used,
        limit: 4,
    };
    Seen {
        load,
        parts: [part(labels::STORE, 3), part(labels::PUSHES, 1)],
        applications: 1,
        disk_reserves: vec![5, 6, 7],
        disk_refusals: vec![None, Some(Code::DiskFull), Some(Code::DiskFailed)],
    }
}

fn assert_has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(
            text.lines().any(|found| found == *line),
            "no {line} in {text}"
        );
    }
}

#[test]
fn the_table_of_metrics_in_the_documentation_is_that_of_the_code() {
    let text = text();
    let kind_of = |name: &str| {
        let declared = format!("# TYPE {name} ");
        text.lines().find_map(|line| line.strip_prefix(&declared))
    };
    let row = |line: &str| {
        let (name, help) = line.strip_prefix("# HELP ")?.split_once(' ')?;
        let kind = kind_of(name)?;
        // Samples of a counter have an ending that its declaration does not have.
        let ending = if kind == "counter" { "_total" } else { "" };
        Some(format!("| `{name}{ending}` | {kind} | {help} |"))
    };
    let expected: Vec<String> = text.lines().filter_map(row).collect();
    let rows = PAGE
        .lines()
        .skip_while(|line| *line != "| metric | kind | meaning |")
        .skip(2);
    let actual: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert_eq!(actual, expected);
}

#[test]
fn every_stage_of_the_life_of_a_shuffle_has_a_metric() {
    let text = text();
    for stage in ["register", "push", "merge", "commit", "fetch", "remove"] {
        let declared = format!("# TYPE lodestone_{stage}_");
        assert!(text.contains(&declared), "no metric of {stage}");
    }
}

#[test]
fn a_latency_below_a_millisecond_and_one_of_many_seconds_differ() {
    let fs = MeasuredFs::new(Arc::new(OsFs), &[]);
    let metrics = Metrics::beside(Arc::new(fs));
    metrics.push_seconds.observe(0.0007);
    metrics.push_seconds.observe(12.0);
    let text = metrics.text(Form::Open, &seen(State::Serving)).unwrap();
    assert_has(
        &text,
        &[
            "lodestone_push_seconds_bucket{le=\"0.0005\"} 0",
            "lodestone_push_seconds_bucket{le=\"0.001\"} 1",
            "lodestone_push_seconds_bucket{le=\"10.0\"} 1",
            "lodestone_push_seconds_bucket{le=\"30.0\"} 2",
            "lodestone_push_seconds_count 2",
        ],
    );
}

#[test]
fn an_alert_tells_a_full_disk_from_a_failed_one_and_a_drained_service_from_both() {
    let dirs = ["/a".into(), "/b".into(), "/c".into()];
    let metrics = Metrics::beside(Arc::new(MeasuredFs::new(Arc::new(OsFs), &dirs)));
    let text = metrics.text(Form::Open, &seen(State::Draining)).unwrap();
    assert_has(
        &text,
        &[
            "lodestone_serving 0",
            "lodestone_draining 1",
            "lodestone_merge_disk_reserve_bytes{dir=\"/b\"} 6",
            "lodestone_merge_disk_state{dir=\"/a\",state=\"works\"} 1",
            "lodestone_merge_disk_state{dir=\"/a\",state=\"failed\"} 0",
            "lodestone_merge_disk_state{dir=\"/b\",state=\"works\"} 0",
            "lodestone_merge_disk_state{dir=\"/b\",state=\"full\"} 1",
            "lodestone_merge_disk_state{dir=\"/c\",state=\"full\"} 0",
            "lodestone_merge_disk_state{dir=\"/c\",state=\"failed\"} 1",
        ],
    );
}

#[test]
fn refusals_are_counted_by_their_code_and_each_code_is_there_before_the_first() {
    let metrics = Metrics::beside(Arc::new(MeasuredFs::new(Arc::new(OsFs), &[])));
    metrics.count_refusal(Code::Quota);
    metrics.count_rejected(Code::DiskFull);
    metrics.count_fetch_failure(Code::DiskFailed);
    let text = metrics.text(Form::Open, &seen(State::Serving)).unwrap();
    assert_has(
        &text,
        &[
            "lodestone_requests_refused_total{code=\"QUOTA\"} 1",
            "lodestone_requests_refused_total{code=\"OVERLOADED\"} 0",
            "lodestone_merge_rejected_total{code=\"DISK_FULL\"} 1",
            "lodestone_merge_rejected_total{code=\"TOO_LATE\"} 0",
            "lodestone_fetch_failures_total{code=\"DISK_FAILED\"} 1",
            "lodestone_fetch_failures_total{code=\"UNKNOWN_SHUFFLE\"} 0",
        ],
    );
}

#[test]
fn a_program_that_does_not_ask_for_open_metrics_gets_the_older_text_with_whole_names() {
    let metrics = Metrics::beside(Arc::new(MeasuredFs::new(Arc::new(OsFs), &[])));
    let text = metrics.text(Form::Plain, &seen(State::Serving)).unwrap();
    assert_has(
        &text,
        &[
            "# HELP lodestone_push_bytes_total Bytes of accepted push requests.",
            "# TYPE lodestone_push_bytes_total counter",
            "lodestone_push_bytes_total 0",
            "# TYPE lodestone_push_seconds histogram",
            "# TYPE lodestone_serving gauge",
        ],
    );
    assert!(!text.contains("# EOF"), "{text}");
}
