// SPDX-License-Identifier: Apache-2.0
//! Logs as Spark writes them: a file or a directory, whole or cut off, compressed or not.

use super::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The beginning of an event of the driver.
fn mark() -> String {
    format!(r#"{{"Event":"{}""#, str::from_utf8(CLASS).unwrap())
}

fn event(time: u64, report: &Value) -> String {
    let rest = json!({"time": time, "report": report}).to_string();
    format!("{},{}\n", mark(), &rest[1..])
}

fn said(shuffles: &[(i64, &str)], total: u64) -> Value {
    let shuffles: Vec<Value> = shuffles
        .iter()
        .map(|(id, state)| json!({"shuffleId": id, "state": state}))
        .collect();
    json!({"application": "app-1", "totals": {"shuffles": total}, "shuffles": shuffles})
}

const OTHER: &str = "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4.1.4\"}\n{}\n\n";

fn log(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The report of a log that is whole.
fn report(path: &Path) -> Value {
    let logged = read(&LogAddress::Path(path.to_owned())).unwrap();
    assert_eq!(logged.notes, Vec::<String>::new());
    logged.report
}

fn packed(text: &str) -> Vec<u8> {
    compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
}

#[test]
fn the_last_event_of_each_shuffle_counts() {
    let folder = tempfile::tempdir().unwrap();
    let first = event(1, &said(&[(0, "registered"), (1, "plain")], 2));
    let second = event(2, &said(&[(0, "merged")], 2));
    let path = log(
        folder.path(),
        "app-1",
        format!("{OTHER}{first}{OTHER}{second}"),
    );
    let expected = said(&[(0, "merged"), (1, "plain")], 2);
    assert_eq!(report(&path), expected);
}

#[test]
fn an_event_that_is_older_than_the_last_one_adds_only_what_that_does_not_say() {
    let folder = tempfile::tempdir().unwrap();
    let last = event(9, &said(&[(0, "merged")], 2));
    let older = event(8, &said(&[(0, "registered"), (1, "plain")], 1));
    let path = log(folder.path(), "app-1", format!("{last}{older}"));
    assert_eq!(report(&path), said(&[(0, "merged"), (1, "plain")], 2));
}

#[test]
fn an_event_that_spark_had_not_written_whole_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let first = event(1, &said(&[(0, "registered")], 1));
    let half = event(2, &said(&[(0, "merged")], 1));
    let text = format!("{first}{}", &half[..half.len() - 20]);
    for name in ["app-1", "app-2.inprogress"] {
        let path = log(folder.path(), name, &text);
        assert_eq!(report(&path), said(&[(0, "registered")], 1));
    }
}

#[test]
fn a_rolling_log_is_read_in_the_order_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    log(folder.path(), "appstatus_app-1", "");
    for number in [2_u32, 10] {
        let text = event(1, &said(&[(0, &number.to_string())], 1));
        log(folder.path(), &format!("events_{number}_app-1"), &text);
    }
    assert_eq!(report(folder.path()), said(&[(0, "10")], 1));
    let compact = event(1, &said(&[(7, "plain")], 1));
    log(folder.path(), "events_2_app-1.compact", &compact);
    // Spark was killed while it compacted.
    log(
        folder.path(),
        "events_10_app-1.compact.inprogress",
        &compact,
    );
    let both = said(&[(0, "10"), (7, "plain")], 1);
    let logged = read(&LogAddress::Path(folder.path().to_owned())).unwrap();
    assert_eq!(logged.report, both);
    assert!(logged.notes[0].contains("compacted"), "{:?}", logged.notes);
}

#[test]
fn an_application_with_very_many_shuffles_keeps_the_last_ones() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(i64, &str)> = (0..1100).map(|id| (id, "merged")).collect();
    let path = log(folder.path(), "app-1", event(1, &said(&all, 1100)));
    assert_eq!(report(&path), said(&all[100..], 1100));
}

#[test]
fn a_compressed_log_is_read_as_far_as_spark_had_written_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = packed(&format!(
        "{OTHER}{}",
        event(1, &said(&[(0, "registered")], 1))
    ));
    let second = packed(&event(2, &said(&[(0, "merged")], 1)));
    let whole = [first.clone(), second.clone()].concat();
    // A name says nothing about the content.
    let path = log(folder.path(), "app-1", &whole);
    assert_eq!(report(&path), said(&[(0, "merged")], 1));
    log(folder.path(), "appstatus_app-1.inprogress", "");
    let cut = &whole[..whole.len() - second.len() / 2];
    log(folder.path(), "events_1_app-1.zstd", cut);
    let logged = read(&LogAddress::Path(folder.path().to_owned())).unwrap();
    assert_eq!(logged.report, said(&[(0, "registered")], 1));
    assert_eq!(logged.notes.len(), 1);
    assert!(logged.notes[0].contains("events_1_app-1.zstd"));
}

#[test]
fn a_damaged_event_costs_itself_only() {
    let folder = tempfile::tempdir().unwrap();
    let (mark, rest) = (mark(), event(3, &said(&[(0, "merged")], 1)));
    let text = format!("{mark},\"report\":nul\n{mark},\"report\":null}}\n{rest}");
    let logged = read(&LogAddress::Path(log(folder.path(), "app-1", text))).unwrap();
    assert_eq!(logged.report, said(&[(0, "merged")], 1));
    assert_eq!(logged.notes, ["2 events were damaged."]);
}

#[test]
fn what_is_no_log_of_lodestone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let text = |path: &Path| {
        read(&LogAddress::Path(path.to_owned()))
            .unwrap_err()
            .to_string()
    };
    assert!(text(&folder.path().join("missing")).contains("cannot read"));
    assert!(text(folder.path()).contains("eventlog_v2_"));
    assert!(text(Path::new("/dev/zero")).contains("neither a file nor a directory"));
    let plain = log(folder.path(), "app-1", OTHER);
    assert!(text(&plain).contains("ran without Lodestone"));
    let other = log(folder.path(), "app-1.lz4", "LZ4Block");
    assert!(text(&other).contains("spark.eventLog.compression.codec=zstd"));
    let cut = log(folder.path(), "app-1.zstd", &packed(OTHER)[..9]);
    assert!(text(&cut).contains("cannot read"));
}
