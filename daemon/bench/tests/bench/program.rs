// SPDX-License-Identifier: Apache-2.0
//! `lodestone-bench` as a process: servers that it starts, kills and pauses; its table and its
//! JSON.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::example::daemon;

/// Runs it in a folder, with little work. Exit code, stdout and stderr.
fn bench(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let (dir, daemon) = (dir.to_str().unwrap(), daemon());
    let little = ["--dir", dir, "--connections", "5", "--total", "8m"];
    let started = ["--daemon", daemon.to_str().unwrap()];
    run(&[arguments, &little, &started].concat())
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodestone-bench"));
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, error) = (text(output.stdout), text(output.stderr));
    (output.status.code(), out, error)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_table_has_every_phase_of_every_server_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let report = out.path().join("r.json");
    let (code, stdout, stderr) = bench(
        dir.path(),
        &[
            "table",
            "--server",
            "lodestone",
            "--server",
            "lodestone-spark",
            "--server",
            "limit",
            "--block",
            "10k,mixed",
            "--rounds",
            "2",
            "--warmup",
            "0",
            "--cold",
            "--json",
            report.to_str().unwrap(),
        ],
    );
    assert_eq!(code, Some(0), "{stderr}");
    let lines = |phase: &str| stdout.lines().filter(|line| line.contains(phase)).count();
    assert_eq!(lines("  push "), 6, "{stdout}");
    assert_eq!(lines("  fetch merged "), 6, "{stdout}");
    assert_eq!(
        lines("  fetch originals "),
        4,
        "the bare loop has none: {stdout}"
    );

    let report = json(&report);
    let rounds = report["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2 * 16);
    for round in rounds {
        let (blocks, planned) = (&round["blocks"], &round["planned_blocks"]);
        let is_whole = blocks == planned || round["phase"] == "push";
        assert!(is_whole && round["server_usage"]["peak_rss_bytes"].as_u64() > Some(0));
    }
    assert_eq!(report["command"][1], "table");
    assert!(report["machine"]["cores"].as_u64() > Some(0));
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_server_that_is_killed_is_reported_with_the_loss() {
    let dir = tempfile::tempdir().unwrap();
    for verb in [&["push"][..], &["fetch", "--from", "merged"]] {
        let report = dir.path().join("killed.json");
        let kill = [
            "--kill",
            "--window",
            "50k",
            "--json",
            report.to_str().unwrap(),
        ];
        let (code, stdout, stderr) = bench(dir.path(), &[verb, &kill].concat());
        assert_eq!(code, Some(0), "{verb:?}: {stderr}");
        assert!(stdout.contains("killed after"), "{verb:?}: {stdout}");
        let report = json(&report);
        let round = &report["rounds"][0];
        assert!(round["blocks"].as_u64() < round["planned_blocks"].as_u64());
        let faults = round["aftermath"]["faults"].as_object().unwrap();
        let unharmed = round["aftermath"]["unharmed"].as_u64().unwrap();
        let broke: u64 = faults.values().filter_map(Value::as_u64).sum();
        assert_eq!(broke + unharmed, 5, "{faults:?}");
        assert!(broke > 0, "nobody noticed");
    }
}

#[test]
fn a_server_that_stands_still_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pause = [
        "push", "--pause", "1", "--window", "50k", "--rounds", "1", "--warmup", "0",
    ];
    let (code, stdout, stderr) = bench(dir.path(), &pause);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("stood still for 1."), "{stdout}");
}

#[test]
fn slow_connections_are_reported_below_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let (push, fetch) = (&["push"][..], &["fetch", "--from", "merged"][..]);
    for (verb, phase, did) in [(push, "push", "pushed"), (fetch, "fetch merged", "read")] {
        let slow = ["--slow", "2", "--rounds", "1", "--warmup", "0"];
        let (code, stdout, stderr) = bench(dir.path(), &[verb, &slow].concat());
        assert_eq!(code, Some(0), "{verb:?}: {stderr}");
        let line = format!("lodestone, {phase}: slow connections {did} ");
        assert!(stdout.contains(&line), "{verb:?}: {stdout}");
    }
}

#[test]
fn original_blocks_are_measured_without_a_push() {
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = bench(dir.path(), &["fetch", "--from", "originals"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stderr.contains("push "), "{stderr}");
    assert!(
        stdout.contains("fetch originals") && !stdout.contains("fetch merged"),
        "{stdout}"
    );
}

#[test]
fn impossible_measurements_are_refused_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], words: &str| {
        let (code, stdout, stderr) = bench(dir.path(), arguments);
        assert!(
            code == Some(1) || code == Some(2),
            "{arguments:?}: {stdout}"
        );
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
        assert!(
            code == Some(2) || stderr.trim().lines().count() <= 2,
            "{stderr}"
        );
    };
    refused(&["push", "--server", "127.0.0.1:1"], "cannot connect");
    refused(&["push", "--server", "nonsense"], "HOST:PORT");
    refused(
        &["push", "--server", "spark=/no/such/jars"],
        "no folder of jars",
    );
    refused(&["push", "--block", "3b"], "blocks have 16");
    refused(
        &["push", "--maps", "1000000", "--partitions", "1000000"],
        "are too many",
    );
    refused(&["push", "--pause", "70"], "--timeout");
    refused(&["push", "--kill", "--server", "127.0.0.1:1"], "--pid");
    refused(&["push", "--pid", "1"], "--pid needs");
    refused(
        &["fetch", "--server", "limit", "--server", "limit"],
        "twice",
    );
    let absent = dir.path().join("absent");
    let absent = absent.to_str().unwrap();
    let (code, _, stderr) = run(&["limit", "--dir", absent]);
    assert!(code == Some(1) && stderr.contains(absent), "{stderr}");
    let (code, _, stderr) = run(&["push", "--daemon", absent]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains(absent) && stderr.contains("name the daemon with --daemon"),
        "{stderr}"
    );
}
