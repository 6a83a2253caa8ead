// SPDX-License-Identifier: Apache-2.0
//! What all checks have in common: the table of the documentation, the output, the exit code.

mod planted;

use std::fs;

use clap::Parser;

use super::finding::{Check, Level, exit_code, json, text};
use super::*;
use crate::cli::{Command, Verb};

const PAGE: &str = include_str!("../../../../../docs/doctor.md");

const HEADER: &str = "| check | at worst | when | what to do |";

/// The tables of the page, one after the other.
fn tables(page: &str) -> Vec<Vec<&str>> {
    let begins = page.match_indices(HEADER).map(|(at, _)| at);
    begins
        .map(|at| {
            let rows = page[at..].lines().skip(2);
            rows.take_while(|row| row.starts_with('|')).collect()
        })
        .collect()
}

fn row(check: &Check) -> String {
    let Check {
        name,
        worst,
        when,
        remedy,
    } = check;
    format!("| `{name}` | {} | {when} | {remedy} |", worst.name())
}

#[test]
fn the_tables_of_the_documentation_are_the_checks() {
    let areas = [
        configuration::checks::ALL,
        services::checks::ALL,
        host::checks::ALL,
        job::checks::ALL,
    ];
    let expected = areas.map(|checks| checks.iter().map(|one| row(one)).collect::<Vec<_>>());
    for (table, expected) in tables(PAGE).iter().zip(&expected) {
        assert_eq!(table.join("\n"), expected.join("\n"));
    }
    assert_eq!(tables(PAGE), expected);
}

static CHECK: Check = Check {
    name: "this",
    worst: Level::Warning,
    when: "always",
    remedy: "Do it.",
};

#[test]
fn the_output_has_a_line_for_each_finding_and_says_what_to_do() {
    let findings = [
        CHECK.ok("well"),
        CHECK.note("so\x1b[31m"),
        CHECK.error("bad").instead("Set a=b."),
    ];
    let expected = "ok       this: well\n\
                    note     this: so [31m -> Do it.\n\
                    warning  this: bad -> Set a=b.\n\
                    0 errors, 1 warning, 1 note, 1 ok\n";
    assert_eq!(text(&findings), expected);
    let parsed: serde_json::Value = serde_json::from_str(&json(&findings)).unwrap();
    assert_eq!(parsed["warnings"], 1);
    assert_eq!(parsed["findings"][0]["remedy"], serde_json::Value::Null);
    assert_eq!(parsed["findings"][2]["remedy"], "Set a=b.");
}

#[test]
fn the_exit_code_says_how_bad_the_worst_finding_is() {
    static WORSE: Check = Check {
        name: "that",
        worst: Level::Error,
        when: "always",
        remedy: "Do it.",
    };
    assert_eq!(exit_code(&[CHECK.ok(""), CHECK.note("")]), 0);
    assert_eq!(exit_code(&[CHECK.ok(""), CHECK.warning("")]), 1);
    assert_eq!(exit_code(&[WORSE.error(""), CHECK.warning("")]), 2);
}

fn args(arguments: &[&str]) -> DoctorArgs {
    let command = Command::try_parse_from([&["lodestone", "doctor"], arguments].concat());
    match command.unwrap().verb {
        Verb::Doctor(args) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_anything_to_check_it_says_what_can_be_named() {
    let error = checked(&args(&["--json"]), &Host::default()).unwrap_err();
    assert!(error.to_string().contains("--conf FILE"), "{error}");
    assert_eq!(error.code(), 2);
}

#[test]
fn flags_of_serve_that_serve_refuses_are_a_finding() {
    let found = checked(
        &args(&["--dir", "/tmp", "--encrypted-only"]),
        &Host::default(),
    )
    .unwrap();
    let (check, level, line) = found[0].shown();
    assert_eq!((check, level), ("flags", "error"));
    assert!(line.contains("encrypted-only"), "{line}");
}

#[test]
fn flags_of_a_daemon_without_its_directory_say_that_it_is_missing() {
    for with in [
        &["--memory", "1g"][..],
        &["--memory", "1g", "--conf", "spark.a=1"],
    ] {
        let found = checked(&args(with), &Host::default()).unwrap();
        let (check, level, line) = found.last().unwrap().shown();
        assert_eq!((check, level), ("flags", "error"));
        assert!(
            line.contains("--memory is there, and --dir is missing"),
            "{line}"
        );
    }
    let secret = checked(
        &args(&["--secrets", "/x", "--conf", "spark.a=1"]),
        &Host::default(),
    );
    let is_of_flags = |one: &Finding| one.shown().0 == "flags";
    assert!(!secret.unwrap().iter().any(is_of_flags));
}

/// A folder of Spark, with the jar that says its release.
fn home_with(core: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let jars = home.path().join("jars");
    fs::create_dir(&jars).unwrap();
    fs::write(jars.join(core), "").unwrap();
    home
}

#[test]
fn a_jar_of_another_line_or_scala_than_the_spark_of_this_host_is_an_error() {
    for (core, wrong, words) in [
        (
            "spark-core_2.13-4.1.4.jar",
            "lodestone-spark-3.5_2.12.jar",
            "which is not for Spark 4.1.4 with Scala 2.13 (the Spark in HOME) -> Use \
             lodestone-spark-4_2.13.jar",
        ),
        (
            "spark-core_2.12-3.5.9.jar",
            "lodestone-spark-3.5_2.13.jar",
            "which is not for Spark 3.5.9 with Scala 2.12 (the Spark in HOME) -> Use \
             lodestone-spark-3.5_2.12.jar",
        ),
        (
            "spark-core_2.12-3.5.9.jar",
            "lodestone-spark-4_2.13.jar",
            "which is not for Spark 3.5.9 with Scala 2.12 (the Spark in HOME) -> Use \
             lodestone-spark-3.5_2.12.jar",
        ),
    ] {
        let home = home_with(core);
        let host = Host::with_spark(home.path());
        let jar = format!("spark.driver.extraClassPath={wrong}");
        let found = checked(&args(&["--conf", &jar]), &host).unwrap();
        let shown: Vec<_> = found.iter().map(Finding::shown).collect();
        let words = words.replace("HOME", home.path().to_str().unwrap());
        let is_it = |(check, level, line): &(&str, &str, String)| {
            (*check, *level) == ("jar", "error") && line.contains(&words)
        };
        assert!(shown.iter().any(is_it), "{shown:#?}");
    }
}

#[test]
fn a_spark_without_a_jar_is_named_with_its_folder() {
    let home = home_with("spark-core_2.12-3.3.0.jar");
    let jar = "spark.driver.extraClassPath=lodestone-spark-4_2.13.jar";
    let found = checked(&args(&["--conf", jar]), &Host::with_spark(home.path())).unwrap();
    let lines: String = found.iter().map(|one| one.shown().2).collect();
    let words = format!(
        "no jar of Lodestone is for Spark 3.3.0 (the Spark in {})",
        home.path().display()
    );
    assert!(lines.contains(&words), "{lines}");
}

#[test]
fn the_spark_of_an_event_log_counts_and_not_the_one_of_this_host() {
    let home = home_with("spark-core_2.12-3.5.9.jar");
    let path = home.path().join("app-1");
    let start = "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4.1.4\"}\n";
    let settings = "{\"Event\":\"SparkListenerEnvironmentUpdate\",\"Spark Properties\":{\
                    \"spark.driver.extraClassPath\":\"lodestone-spark-4_2.13.jar\",\
                    \"spark.executor.extraClassPath\":\"lodestone-spark-4_2.13.jar\"}}\n";
    for (start, words) in [
        (start, "both class paths have the jar for Spark 4.1.4\n"),
        (
            "",
            "because the event log does not have the release of Spark\n",
        ),
    ] {
        fs::write(&path, format!("{start}{settings}")).unwrap();
        let given = args(&["--event-log", path.to_str().unwrap()]);
        let found = checked(&given, &Host::with_spark(home.path())).unwrap();
        let of_jar = found.iter().map(Finding::shown).find(|one| one.0 == "jar");
        let (_, level, line) = of_jar.unwrap();
        assert_eq!(level, "ok", "{line}");
        assert!(line.ends_with(words), "{line}");
    }
}
