// SPDX-License-Identifier: Apache-2.0
//! What a user is given for each Spark, and what each mistake is answered with.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use tempfile::TempDir;

use super::jar::Jars;
use super::printed;
use crate::cli::{Command, ConfArgs, Verb};

const JARS: [&str; 3] = [
    "lodestone-spark-3.5_2.12.jar",
    "lodestone-spark-3.5_2.13.jar",
    "lodestone-spark-4_2.13.jar",
];

fn args(line: &str) -> ConfArgs {
    let words = ["lodestone", "conf"]
        .into_iter()
        .chain(line.split_whitespace());
    match Command::try_parse_from(words).unwrap().verb {
        Verb::Conf(args) => args,
        other => panic!("{other:?}"),
    }
}

/// A folder with the program and the jars, as the Python package has them.
fn installed() -> (TempDir, Jars) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("jars")).unwrap();
    for jar in JARS {
        fs::write(folder.path().join("jars").join(jar), "").unwrap();
    }
    let jars = Jars::of_program(Some(&folder.path().join("bin/lodestone")));
    (folder, jars)
}

fn said(line: &str) -> Result<String, String> {
    let (folder, jars) = installed();
    let outcome = printed(&args(line), None, &jars);
    let (_, text) = outcome.map_err(|error| error.to_string())?;
    Ok(text.replace(folder.path().to_str().unwrap(), "HERE"))
}

fn note(line: &str) -> Option<String> {
    let (_folder, jars) = installed();
    printed(&args(line), None, &jars).unwrap().0.unwrap().note()
}

fn home(jar: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("jars")).unwrap();
    fs::write(home.path().join("jars").join(jar), "").unwrap();
    home
}

#[test]
fn the_options_of_spark_submit_name_the_jar_of_this_spark() {
    let text = said("--spark 4.1.4 --mode remote").unwrap();
    assert_eq!(
        text,
        "--conf spark.shuffle.manager=org.apache.spark.shuffle.lodestone.LodestoneShuffleManager\n\
         --conf spark.serializer=org.apache.spark.serializer.KryoSerializer\n\
         --conf spark.driver.extraClassPath=HERE/jars/lodestone-spark-4_2.13.jar\n\
         --conf spark.executor.extraClassPath=HERE/jars/lodestone-spark-4_2.13.jar\n\
         --conf spark.lodestone.mode=remote\n"
    );
}

#[test]
fn each_spark_and_scala_has_its_jar() {
    for (line, jar) in [
        ("--spark 3.5.9", JARS[0]),
        ("--spark 3.5.9 --scala 2.13", JARS[1]),
        ("--spark 4.0", JARS[2]),
        ("--spark 4.3.0 --scala 2.13", JARS[2]),
    ] {
        assert!(
            said(line).unwrap().contains(&format!("HERE/jars/{jar}\n")),
            "{line}"
        );
    }
}

#[test]
fn the_properties_and_the_json_have_the_same_keys_and_values() {
    let properties = said("--spark 3.5.9 --mode auto --format properties").unwrap();
    let of_lines: serde_json::Map<String, serde_json::Value> = properties
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let json = said("--spark 3.5.9 --mode auto --format json").unwrap();
    assert_eq!(of_lines.len(), 5);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&json).unwrap(),
        serde_json::Value::Object(of_lines)
    );
}

#[test]
fn a_backslash_of_a_path_stays_one_when_spark_reads_its_defaults() {
    let text = said(r"--jar /opt/a\b.jar --format properties").unwrap();
    assert!(
        text.contains("spark.driver.extraClassPath /opt/a\\\\b.jar\n"),
        "{text}"
    );
}

#[test]
fn a_release_that_no_jar_is_for_is_refused_with_those_that_have_one() {
    for version in ["3.4.1", "4.4.0", "2.4", "5.0.0"] {
        let error = said(&format!("--spark {version}")).unwrap_err();
        assert!(
            error.starts_with(&format!("Spark {version} is not supported")),
            "{error}"
        );
        assert!(error.contains("4.3"), "{error}");
    }
    for version in ["four", "4", "v4.1.4", "4.x"] {
        let error = said(&format!("--spark {version}")).unwrap_err();
        assert!(error.contains("is no version of Spark"), "{error}");
    }
}

#[test]
fn a_release_that_no_test_runs_on_is_said_to_be_so() {
    assert_eq!(note("--spark 4.1.4"), None);
    assert_eq!(note("--spark 4.1"), None);
    let expected = "Spark 4.1.2 has not been tested with Lodestone; of its line, 4.1.4 has";
    assert_eq!(note("--spark 4.1.2").as_deref(), Some(expected));
    assert!(note("--spark 3.5.9-vendor-2").is_some());
}

#[test]
fn spark_4_has_no_jar_for_the_older_scala() {
    let error = said("--spark 4.1.4 --scala 2.12").unwrap_err();
    assert!(error.contains("Scala 2.13 only"), "{error}");
}

#[test]
fn the_spark_of_this_machine_is_found_with_its_scala() {
    let (_folder, jars) = installed();
    let home = home("spark-core_2.13-3.5.9.jar");
    let (_, text) = printed(&args(""), Some(home.path()), &jars).unwrap();
    assert!(text.contains(JARS[1]), "{text}");
}

#[test]
fn without_a_version_and_a_spark_the_error_names_the_flag() {
    let (_folder, jars) = installed();
    let empty = home("hadoop-client.jar");
    for home in [None, Some(empty.path()), Some(Path::new("/nonexistent"))] {
        let error = printed(&args(""), home, &jars).unwrap_err();
        assert!(
            error.to_string().starts_with("--spark is missing"),
            "{error}"
        );
    }
}

#[test]
fn a_jar_of_any_path_needs_no_version_but_may_not_be_for_another_spark() {
    let text = said("--jar lodestone-spark-4_2.13.jar").unwrap();
    assert!(
        text.contains("spark.driver.extraClassPath=lodestone-spark-4_2.13.jar\n"),
        "{text}"
    );
    assert!(said("--jar /m/lodestone-spark-4_2.13-0.1.0.jar --spark 4.2.1").is_ok());
    assert!(said("--jar /opt/ours.jar --spark 3.5.9").is_ok());
    let error = said("--jar /opt/lodestone-spark-4_2.13.jar --spark 3.5.9").unwrap_err();
    assert!(
        error.ends_with("use lodestone-spark-3.5_2.12.jar"),
        "{error}"
    );
}

#[test]
fn a_program_without_jars_says_where_it_looked() {
    let jars = Jars(vec![
        PathBuf::from("/opt/a/jars"),
        PathBuf::from("/opt/jars"),
    ]);
    let error = printed(&args("--spark 4.1.4"), None, &jars).unwrap_err();
    let expected = "lodestone-spark-4_2.13.jar is not in /opt/a/jars or /opt/jars";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn a_path_that_a_class_path_or_a_shell_would_cut_is_refused() {
    assert!(said("--jar /opt/a:b.jar").unwrap_err().contains("colons"));
    let mut args = args("--jar X");
    args.jar = Some("/opt/my jars/x.jar".to_owned());
    let (_folder, jars) = installed();
    let error = printed(&args, None, &jars).unwrap_err();
    assert!(error.to_string().contains("at blanks"), "{error}");
}

#[test]
fn a_named_version_has_the_scala_of_the_same_line_in_spark_home() {
    let (folder, jars) = installed();
    let home = home("spark-core_2.13-3.5.7.jar");
    let jar_of = |line: &str| {
        let (_, text) = printed(&args(line), Some(home.path()), &jars).unwrap();
        text.replace(folder.path().to_str().unwrap(), "HERE")
    };
    assert!(jar_of("--spark 3.5.9").contains("HERE/jars/lodestone-spark-3.5_2.13.jar"));
    assert!(jar_of("--spark 4.1.4").contains("HERE/jars/lodestone-spark-4_2.13.jar"));
    assert!(jar_of("--spark 3.5.9 --scala 2.12").contains("lodestone-spark-3.5_2.12.jar"));
}

#[test]
fn settings_that_the_options_replace_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = "# spark.serializer Mine\n\
                spark.serializer=org.apache.spark.serializer.KryoSerializer\n\
                spark.executor.extraClassPath  /opt/a.jar:\\\n/l/lodestone-spark-4_2.13.jar\n\
                spark.driver.extraClassPath /l/lodestone-spark-4_2.13.jar\nspark.master local\n\
                spark.shuffle.manager sort\n";
    fs::write(folder.path().join("spark-defaults.conf"), text).unwrap();
    let notes = super::defaults::replaced(Some(folder.path().to_owned()));
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("sets spark.executor.extraClassPath to /opt/a.jar:/l/"));
    assert_eq!(super::defaults::replaced(None), Vec::<String>::new());
}
