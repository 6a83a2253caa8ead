// SPDX-License-Identifier: Apache-2.0
//! Which events a reader hands on.

use super::*;
use std::fs;

/// Keeps the events of one class.
#[derive(Default)]
struct Kept(Vec<String>);

impl Events for Kept {
    fn wants(&self, class: &[u8]) -> bool {
        class == b"SparkListenerTaskEnd"
    }

    fn take(&mut self, _: &[u8], line: &[u8]) {
        self.0.push(String::from_utf8_lossy(line).trim().to_owned());
    }
}

fn event(class: &str, length: usize) -> String {
    format!(
        "{{\"Event\":\"{class}\",\"rest\":\"{}\"}}\n",
        "x".repeat(length)
    )
}

fn read_text(text: &str) -> (Kept, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app-1");
    fs::write(&path, text).unwrap();
    let mut kept = Kept::default();
    let outcome = read(&LogAddress::Path(path), &mut kept).unwrap();
    (kept, outcome)
}

#[test]
fn events_of_other_classes_and_lines_that_are_no_events_are_skipped() {
    let wanted: Vec<String> = [0, 10, 300, 100_000]
        .map(|length| event("SparkListenerTaskEnd", length))
        .to_vec();
    let other = event("SparkListenerTaskEndOfAnother", 100_000);
    let text = format!(
        "{}{other}\n{{}}\nno event\n{}",
        wanted[..2].concat(),
        wanted[2..].concat()
    );
    let (kept, outcome) = read_text(&text);
    let expected: Vec<&str> = wanted.iter().map(|line| line.trim()).collect();
    assert_eq!(kept.0, expected);
    assert!(outcome.notes.is_empty() && outcome.failure.is_none());
}

#[test]
fn an_event_that_is_too_long_is_counted_and_one_that_spark_had_not_written_whole_is_not() {
    let long = event("SparkListenerTaskEnd", MAX_EVENT_BYTES as usize + 1000);
    let whole = event("SparkListenerTaskEnd", 5);
    let half = &whole[..whole.len() - 4];
    let (kept, outcome) = read_text(&format!("{long}{whole}{half}"));
    assert_eq!(kept.0, [whole.trim()]);
    assert_eq!(outcome.notes.len(), 1);
    assert!(
        outcome.notes[0].starts_with("1 events"),
        "{:?}",
        outcome.notes
    );
}
