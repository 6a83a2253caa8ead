// SPDX-License-Identifier: Apache-2.0
//! Event logs of applications that lost time, each for one reason.

use std::fs;
use std::path::{Path, PathBuf};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use super::*;
use crate::operator::doctor::finding::exit_code;

const CLASS: &str = "org.apache.spark.shuffle.lodestone.driver.ui.SparkListenerLodestoneReport";

const MANAGER: &str = "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager";

/// A log with these lines.
fn log(lines: &[String]) -> Result<Vec<Finding>, LoggedError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app-1");
    fs::write(&path, lines.concat()).unwrap();
    all(&LogAddress::Path(path))
}

fn environment(settings: &Value) -> String {
    let start = "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4.1.4\"}\n";
    let rest = json!({"JVM Information": {}, "Spark Properties": settings}).to_string();
    format!(
        "{start}{{\"Event\":\"SparkListenerEnvironmentUpdate\",{}\n",
        &rest[1..]
    )
}

/// Settings without a fault.
fn well() -> String {
    let jar = "lodestone-spark-4_2.13.jar";
    environment(&json!({
        "spark.master": "local-cluster[2,1,1024]",
        "spark.shuffle.manager": MANAGER,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
    }))
}

fn reported(report: &Value) -> String {
    format!(
        "{{\"Event\":\"{CLASS}\",{}\n",
        &json!({"report": report}).to_string()[1..]
    )
}

fn report(totals: &Value, shuffles: &Value) -> String {
    reported(&json!({
        "totals": totals,
        "shuffles": shuffles,
        "services": [{"hostPort": "10.0.0.1:7337", "state": "serving"}],
        "sentences": {"OUTPUT_LOST": "outputs were not found", "FETCH_TIMED_OUT": "no answer"},
        "remedies": {
            "OUTPUT_LOST": "Set spark.lodestone.replicas=2.",
            "FETCH_TIMED_OUT": "Check whether the daemon hangs.",
            "LOCAL_MAP_READ": "Nothing: adaptive execution reads map outputs in place.",
            "SINGLE_MAP": "Nothing.",
            "SERIALIZER_NOT_RELOCATABLE": "Set spark.serializer to Kryo.",
        },
    }))
}

/// The findings about shuffles, from the worst on.
fn of(totals: &Value, shuffles: &Value) -> Vec<(&'static str, &'static str, String)> {
    let found = log(&[well(), report(totals, shuffles)]).unwrap();
    let shown: Vec<_> = found.iter().map(Finding::shown).collect();
    let settings = ["shuffle-manager", "serializer-not-relocatable", "jar"];
    let is_job = |(check, level, line): &(&str, &str, String)| {
        let is_of_settings = settings.contains(check);
        assert!(!is_of_settings || *level == "ok", "{line}");
        !is_of_settings
    };
    shown.into_iter().filter(is_job).collect()
}

#[test]
fn an_application_that_lost_nothing_is_well() {
    let totals = json!({"shuffles": 3, "merged": 2, "plain": 1, "reasons": {"SINGLE_MAP": 1}});
    let shuffles = json!([
        {"shuffleId": 0, "state": "merged", "mergedBlocksRead": 100, "originalsRead": 7,
         "reasons": {"LOCAL_MAP_READ": 7}},
        {"shuffleId": 1, "state": "plain", "decision": "SINGLE_MAP", "reasons": {"SINGLE_MAP": 1}},
    ]);
    let found = of(&totals, &shuffles);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].1), ("sums", "ok"));
    assert!(
        found[0]
            .2
            .contains("3 shuffles: 2 merged, 0 remote, 1 left"),
        "{}",
        found[0].2
    );
    assert!(
        found[0].2.contains("No shuffle lost time"),
        "{}",
        found[0].2
    );
}

#[test]
fn what_cost_most_comes_first_with_its_remedy() {
    let totals = json!({"shuffles": 4, "merged": 2, "remote": 1, "plain": 1});
    let shuffles = json!([
        {"shuffleId": 0, "state": "merged", "maps": 10, "partitions": 10, "mergedBlocksRead": 60,
         "originalsRead": 40, "sample": {"diskReadMicros": 5000},
         "reasons": {"FETCH_TIMED_OUT": 40, "SERVICE_LEFT_OUT": 1}},
        {"shuffleId": 1, "state": "remote", "maps": 100, "reasons": {"OUTPUT_LOST": 2}},
        {"shuffleId": 2, "state": "plain", "maps": 2, "partitions": 3,
         "decision": "SERIALIZER_NOT_RELOCATABLE", "reasons": {"SERIALIZER_NOT_RELOCATABLE": 1}},
        {"shuffleId": 3, "state": "merged", "readersWaitedMillis": 2500, "reasons": {}},
        {"shuffleId": 4, "state": "merged", "readersWaitedMillis": 50, "reasons": {}},
    ]);
    let found = of(&totals, &shuffles);
    let checks: Vec<_> = found
        .iter()
        .map(|(check, level, _)| (*check, *level))
        .collect();
    let expected = [
        ("sums", "ok"),
        ("rerun", "warning"),
        ("waited", "warning"),
        ("originals", "warning"),
        ("waited", "note"),
        ("left-to-spark", "warning"),
    ];
    assert_eq!(checks, expected, "{found:#?}");
    assert!(found[1].2.contains(
        "of shuffle 1 (100 maps, 0 partitions) ran again: outputs were not found (OUTPUT_LOST 2)"
    ));
    assert!(found[1].2.contains("-> Set spark.lodestone.replicas=2."));
    assert!(
        found[3]
            .2
            .contains("about 200 ms in small reads: no answer (FETCH_TIMED_OUT 40)")
    );
    assert!(found[3].2.contains("-> Check whether the daemon hangs."));
    assert!(found[5].2.contains("-> Set spark.serializer to Kryo."));
}

#[test]
fn a_service_that_is_avoided_is_no_cause_beside_the_failure_before() {
    let totals = json!({"shuffles": 1, "merged": 1});
    let reasons = json!({"FETCH_SERVICE_SUSPECT": 30, "FETCH_TIMED_OUT": 6});
    let shuffles = json!([{
        "shuffleId": 0, "state": "merged", "originalsRead": 36, "reasons": reasons,
        "sample": {"diskReadMicros": 1000},
    }]);
    let found = of(&totals, &shuffles);
    assert!(
        found[1]
            .2
            .contains("about 36 ms in small reads: no answer (FETCH_TIMED_OUT 6)")
    );
    assert!(found[1].2.contains("-> Check whether the daemon hangs."));
}

#[test]
fn a_reason_beside_these_is_named_and_an_unknown_one_leads_to_its_page() {
    let totals = json!({"shuffles": 1, "merged": 1});
    let shuffles = json!([{"shuffleId": 0, "state": "merged", "reasons": {"NEW_CODE": 3}}]);
    let found = of(&totals, &shuffles);
    assert_eq!((found[1].0, found[1].1), ("trouble", "warning"));
    assert!(
        found[1].2.contains("-> See NEW_CODE in docs/reasons.md."),
        "{}",
        found[1].2
    );
}

#[test]
fn an_application_in_which_nothing_was_merged_gets_the_remedy_with_the_sums() {
    let totals = json!({"shuffles": 2, "plain": 2, "reasons": {"SERIALIZER_NOT_RELOCATABLE": 2}});
    let found = of(&totals, &json!([]));
    assert_eq!((found[0].0, found[0].1), ("sums", "warning"));
    assert!(
        found[0].2.contains("-> Set spark.serializer to Kryo."),
        "{}",
        found[0].2
    );
}

#[test]
fn of_several_reasons_the_sums_have_the_remedy_of_the_one_that_counts_most() {
    let with = |reasons: Value| {
        let totals = json!({"shuffles": 9, "plain": 9, "reasons": reasons});
        of(&totals, &json!([])).remove(0)
    };
    let kryo = "-> Set spark.serializer to Kryo.";
    let hangs = "-> Check whether the daemon hangs.";
    for (reasons, remedy) in [
        (
            json!({"FETCH_TIMED_OUT": 1, "SERIALIZER_NOT_RELOCATABLE": 7}),
            kryo,
        ),
        (
            json!({"FETCH_TIMED_OUT": 2, "SERIALIZER_NOT_RELOCATABLE": 1}),
            hangs,
        ),
        // What cannot be changed, and what follows from another failure, count less.
        (json!({"FETCH_TIMED_OUT": 1, "SINGLE_MAP": 9}), hangs),
        (
            json!({"FETCH_SERVICE_SUSPECT": 9, "FETCH_TIMED_OUT": 1}),
            hangs,
        ),
    ] {
        let (check, level, line) = with(reasons);
        assert_eq!((check, level), ("sums", "warning"));
        assert!(line.contains(remedy), "{line}");
    }
}

#[test]
fn the_sums_have_the_remedy_of_what_left_most_shuffles_to_spark_whatever_counts_more_blocks() {
    let left = |code: &str, ids: std::ops::Range<u64>| -> Vec<Value> {
        let one = |id: u64| {
            json!({"shuffleId": id, "state": "plain", "maps": 4, "partitions": 5,
                   "decision": code, "reasons": {code: 1}})
        };
        ids.map(one).collect()
    };
    let with = |reasons: Value, shuffles: Vec<Value>| {
        let totals = json!({"shuffles": 9, "plain": 9, "reasons": reasons});
        of(&totals, &json!(shuffles)).remove(0).2
    };
    let serializer = "SERIALIZER_NOT_RELOCATABLE";
    let kryo = "-> Set spark.serializer to Kryo.";
    // Blocks that were read from their originals, of a shuffle that was remote before.
    let reasons = json!({"FETCH_TIMED_OUT": 20, serializer: 9});
    let line = with(reasons, left(serializer, 0..9));
    assert!(line.contains(kryo), "{line}");
    // One shuffle that was decided after its registration, with each of its blocks.
    let reasons = json!({"NO_SERVICE": 21, serializer: 8});
    let line = with(
        reasons,
        [left("NO_SERVICE", 0..1), left(serializer, 1..9)].concat(),
    );
    assert!(line.contains(kryo), "{line}");
    // A person cannot change the reason of the shuffles, but that of the blocks.
    let reasons = json!({"FETCH_TIMED_OUT": 2, "SINGLE_MAP": 9});
    let line = with(reasons, left("SINGLE_MAP", 0..9));
    assert!(
        line.contains("-> Check whether the daemon hangs."),
        "{line}"
    );
}

#[test]
fn of_many_shuffles_the_cheap_ones_are_left_out_with_their_number() {
    let shuffle = |id| json!({"shuffleId": id, "state": "merged", "reasons": {"NEW_CODE": id + 1}});
    let shuffles: Vec<Value> = (0..50).map(shuffle).collect();
    let found = of(&json!({"shuffles": 50, "merged": 50}), &json!(shuffles));
    assert_eq!(found.len(), 1 + MAX_LISTED + 1);
    assert!(found[1].2.contains("shuffle 49 "), "{}", found[1].2);
    assert!(
        found[MAX_LISTED + 1].2.contains("30 findings"),
        "{:?}",
        found.last()
    );
}

#[test]
fn a_service_that_the_driver_gave_up_is_a_warning() {
    let services = json!([{"hostPort": "10.0.0.9:7337", "state": "suspect"}]);
    let said = reported(&json!({"totals": {}, "services": services}));
    let named = environment(&json!({"spark.lodestone.services": "10.0.0.9:7337"}));
    let lines = [named, said.clone()];
    let found: Vec<_> = log(&lines).unwrap().iter().map(Finding::shown).collect();
    assert_eq!((found[1].0, found[1].1), ("service-at-end", "warning"));
    assert!(
        found[1].2.contains("10.0.0.9:7337 was suspect"),
        "{}",
        found[1].2
    );
    // The daemon of a container ends with it.
    let found = log(&[well(), said]).unwrap();
    let is_of_service = |one: &Finding| one.shown().0 == "service-at-end";
    assert!(!found.iter().any(is_of_service), "{found:?}");
}

#[test]
fn only_reasons_that_say_nothing_and_no_more_are_harmless() {
    let code = include_str!(concat!(
        "../../../../../../client/spark/src/main/scala/org/apache/spark/shuffle/lodestone/",
        "plan/Reason.scala"
    ));
    let is_code = |text: &&str| {
        let mut bytes = text.bytes();
        !text.is_empty() && bytes.all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let mut seen = Vec::new();
    for definition in code.split("reason(\n").skip(1) {
        let mut texts = definition.split('"').skip(1).step_by(2);
        let code = texts.next().filter(is_code).unwrap();
        let begins = |begin: &str| definition.contains(&format!("\"{begin}"));
        if begins("Nothing.") || begins("Nothing:") {
            seen.push(code);
        } else if ["FEW_BLOCKS", "LARGE_BLOCKS"].contains(&code) {
            assert!(
                begins("Nothing, or set spark.lodestone.mode=merge"),
                "{code}"
            );
            seen.push(code);
        }
    }
    assert_eq!(seen, reasons::HARMLESS);
}

#[test]
fn a_remedy_that_goes_on_after_nothing_is_printed_unless_its_reason_is_rare() {
    let nothing_but = "Nothing, if there are few. Otherwise look for services that are slow.";
    let (io, late) = (
        "Nothing, or remove the shuffle IO plugin.",
        json!({"PUSH_TOO_LATE": 20}),
    );
    let with = |reasons: &Value| {
        let said = reported(&json!({
            "totals": {"shuffles": 2, "merged": 1, "plain": 1},
            "remedies": {"PUSH_TOO_LATE": nothing_but, "CUSTOM_SHUFFLE_IO": io},
            "shuffles": [
                {"shuffleId": 0, "state": "merged", "originalsRead": 20, "mergedBlocksRead": 80,
                 "maps": 10, "partitions": 10, "reasons": reasons},
                {"shuffleId": 1, "state": "plain", "decision": "CUSTOM_SHUFFLE_IO"},
            ],
        }));
        let found = log(&[well(), said]).unwrap();
        let lines = found.iter().map(|one| one.shown().2);
        lines.collect::<String>()
    };
    let all = with(&late);
    assert!(all.contains(nothing_but) && all.contains(io), "{all}");
    let rare = with(&json!({"PUSH_TOO_LATE": 10}));
    assert!(!rare.contains(nothing_but) && rare.contains(io), "{rare}");
}

#[test]
fn the_report_of_another_release_without_remedies_has_no_warnings_for_harmless_codes() {
    let said = reported(&json!({
        "totals": {"shuffles": 1, "merged": 1, "reasons": {"LOCAL_MAP_READ": 7}},
        "shuffles": [{"shuffleId": 0, "state": "merged", "originalsRead": 7,
                      "mergedBlocksRead": 9, "reasons": {"LOCAL_MAP_READ": 7}}],
    }));
    let found = log(&[well(), said]).unwrap();
    assert_eq!(exit_code(&found), 0, "{found:#?}");
}

/// Two events of the driver, with 1 and with 2 merged shuffles.
fn two_reports() -> [String; 2] {
    [1, 2].map(|count| {
        reported(&json!({
            "totals": {"shuffles": count, "merged": count},
            "shuffles": [{"shuffleId": count, "state": "merged",
                          "reasons": {"FETCH_TIMED_OUT": 3}}],
        }))
    })
}

fn packed(text: &str) -> Vec<u8> {
    compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
}

#[test]
fn a_log_that_is_cut_in_the_middle_of_a_frame_gives_what_is_before_it_and_says_so() {
    let [first, second] = two_reports();
    let whole = packed(&format!("{}{first}", well()));
    let cut = packed(&second);
    let content = [&whole[..], &cut[..cut.len() / 2]].concat();
    expect_cut(|folder| {
        let path = folder.join("app-1.zstd");
        fs::write(&path, &content).unwrap();
        path
    });
    expect_cut(|folder| {
        let path = folder.join("eventlog_v2_app-1");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("events_1_app-1.zstd"), &whole).unwrap();
        fs::write(path.join("events_2_app-1.zstd"), &cut[..cut.len() / 2]).unwrap();
        path
    });
}

fn expect_cut(write: impl Fn(&Path) -> PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let found = all(&LogAddress::Path(write(folder.path()))).unwrap();
    let shown: Vec<_> = found.iter().map(Finding::shown).collect();
    assert_eq!((shown[0].0, shown[0].1), ("report", "note"), "{shown:#?}");
    assert!(shown[0].2.contains("What follows the damage is left out"));
    assert!(
        shown[1].2.contains("1 shuffles: 1 merged"),
        "{}",
        shown[1].2
    );
    assert_eq!(
        (shown[2].0, shown[2].1),
        ("trouble", "warning"),
        "{shown:#?}"
    );
    let manager = ("shuffle-manager", "ok");
    assert!(
        shown.iter().any(|one| (one.0, one.1) == manager),
        "{shown:#?}"
    );
}

#[test]
fn a_log_that_is_cut_before_the_first_report_still_has_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app-1");
    let cut = packed(&two_reports()[0]);
    let content = [&packed(&well())[..], &cut[..cut.len() / 2]].concat();
    fs::write(&path, content).unwrap();
    let found = all(&LogAddress::Path(path)).unwrap();
    let shown: Vec<_> = found.iter().map(Finding::shown).collect();
    assert_eq!(
        (shown[0].0, shown[0].1),
        ("report", "warning"),
        "{shown:#?}"
    );
    assert_eq!(
        (shown[1].0, shown[1].1),
        ("shuffle-manager", "ok"),
        "{shown:#?}"
    );
}

#[test]
fn the_settings_of_the_application_are_checked_even_without_a_report() {
    let lines = [environment(&json!({"spark.shuffle.manager": "sort"}))];
    let found = log(&lines).unwrap();
    let shown: Vec<_> = found.iter().map(Finding::shown).collect();
    assert_eq!((shown[0].0, shown[0].1), ("report", "warning"));
    assert_eq!((shown[1].0, shown[1].1), ("shuffle-manager", "error"));
    assert_eq!(exit_code(&found), 2);
    let bare: Vec<_> = log(&["{}\n".to_owned()])
        .unwrap()
        .iter()
        .map(Finding::shown)
        .collect();
    assert!(bare[1].2.contains("has no settings"), "{bare:?}");
}

#[test]
fn a_log_that_cannot_be_read_is_an_error_that_says_why() {
    let error = all(&LogAddress::Path("/does/not/exist".into())).unwrap_err();
    assert!(
        error.to_string().contains("cannot read /does/not/exist"),
        "{error}"
    );
}
