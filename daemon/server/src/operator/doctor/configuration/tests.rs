// SPDX-License-Identifier: Apache-2.0
//! Settings with one fault each, and what a user reads about it.

mod clusters;
mod tied;

use std::fs;

use super::*;
use crate::operator::doctor::finding::exit_code;

/// Settings with which everything is merged.
const WELL: [(&str, &str); 6] = [
    ("spark.master", "spark://host0:7077"),
    (
        "spark.shuffle.manager",
        "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager",
    ),
    (
        "spark.serializer",
        "org.apache.spark.serializer.KryoSerializer",
    ),
    ("spark.driver.extraClassPath", "lodestone-spark-4_2.13.jar"),
    (
        "spark.executor.extraClassPath",
        "lodestone-spark-4_2.13.jar",
    ),
    ("spark.lodestone.services", "host1:7337,host2:7337"),
];

/// The settings above with these changes, on this Spark.
fn with(changes: &[&str], spark: Option<&str>) -> Vec<Finding> {
    let given = WELL.map(|(key, value)| format!("{key}={value}"));
    let changes = changes.iter().map(|one| (*one).to_owned());
    let mut settings =
        Settings::named(&given.into_iter().chain(changes).collect::<Vec<_>>()).unwrap();
    settings.spark = spark.map(str::to_owned);
    all(&settings)
}

fn bad(findings: &[Finding]) -> Vec<(&'static str, &'static str, String)> {
    let shown = findings.iter().map(Finding::shown);
    shown.filter(|(_, level, _)| *level != "ok").collect()
}

/// Expects one finding, which has these words.
fn expect(changes: &[&str], spark: Option<&str>, expected: (&str, &str, &str)) {
    let found = bad(&with(changes, spark));
    let [(check, level, line)] = found.as_slice() else {
        panic!("{changes:?} gave {found:#?}");
    };
    assert_eq!((*check, *level), (expected.0, expected.1), "{line}");
    assert!(line.contains(expected.2), "{changes:?} gave {line}");
    assert!(line.contains(" -> "), "{line}");
}

#[test]
fn settings_with_which_everything_is_merged_are_as_they_should_be() {
    let found = with(&[], Some("4.1.4"));
    assert_eq!(bad(&found), []);
    assert_eq!(exit_code(&found), 0);
}

#[test]
fn each_setting_that_leaves_all_shuffles_to_spark_is_an_error_with_its_reason() {
    let of_io = "spark.shuffle.sort.io.plugin.class=org.example.Io";
    for (changes, check, words) in [
        (
            &["spark.shuffle.manager=sort"][..],
            "shuffle-manager",
            "is sort: no shuffle is merged",
        ),
        (
            &["spark.shuffle.manager=org.apache.spark.shuffle.celeborn.SparkShuffleManager"],
            "shuffle-manager",
            "of Celeborn, and an application has one manager",
        ),
        (
            &["spark.shuffle.manager=org.apache.spark.shuffle.RssShuffleManager"],
            "shuffle-manager",
            "of Uniffle",
        ),
        (
            &["spark.shuffle.push.enabled=true"],
            "spark-push",
            "Turn spark.shuffle.push.enabled off",
        ),
        (&[of_io], "custom-shuffle-io", "is org.example.Io"),
        (
            &["spark.shuffle.useOldFetchProtocol=true"],
            "old-fetch-protocol",
            "(OLD_FETCH_PROTOCOL)",
        ),
    ] {
        expect(changes, Some("4.1.4"), (check, "error", words));
    }
}

#[test]
fn each_setting_of_security_that_services_do_not_have_is_an_error_with_its_reason() {
    for (changes, check, words) in [
        (
            &[
                "spark.authenticate=true",
                "spark.authenticate.enableSaslEncryption=true",
            ][..],
            "cipher-unknown",
            "Set spark.network.crypto.enabled=true",
        ),
        (
            &[
                "spark.authenticate=true",
                "spark.network.crypto.enabled=true",
                "spark.network.crypto.cipher=AES/CBC/PKCS5Padding",
            ],
            "cipher-unknown",
            "is AES/CBC/PKCS5Padding",
        ),
        (
            &["spark.authenticate=true", "spark.master=yarn"],
            "secret-not-shared",
            "with spark.master=yarn Spark makes a secret",
        ),
        (
            &[
                "spark.authenticate=true",
                "spark.master=k8s://https://host:6443",
                // Names of hosts have a note of their own there.
                "spark.lodestone.services=10.0.0.1:7337",
            ],
            "secret-not-shared",
            "spark.authenticate.secret.file",
        ),
        (
            &[
                "spark.ssl.rpc.enabled=true",
                "spark.ssl.rpc.keyStore=/k.p12",
                "spark.lodestone.services=",
            ],
            "rpc-encryption",
            "spark.ssl.rpc.certChain",
        ),
    ] {
        expect(changes, Some("4.1.4"), (check, "error", words));
    }
}

#[test]
fn tls_without_the_keys_that_spark_looks_for_stops_it_at_its_start() {
    let pair = [
        "spark.ssl.rpc.enabled=true",
        "spark.ssl.rpc.certChain=/tls/tls.crt",
        "spark.ssl.rpc.privateKey=/tls/tls.key",
    ];
    let words = "Set spark.ssl.rpc.openSslEnabled=true: without it";
    expect(&pair, Some("4.1.4"), ("tls-keys", "error", words));
    for changes in [&pair[..1], &pair[..2]] {
        let words = "Set spark.ssl.rpc.keyStore";
        expect(changes, Some("4.1.4"), ("tls-keys", "error", words));
    }
    let half = [pair[0], pair[1], "spark.ssl.rpc.openSslEnabled=true"];
    let words = "without both certChain and privateKey";
    expect(&half, Some("4.1.4"), ("tls-keys", "error", words));
}

#[test]
fn a_secret_that_services_have_and_a_cipher_that_they_know_are_no_faults() {
    let galois = [
        "spark.authenticate=true",
        "spark.network.crypto.enabled=true",
        "spark.network.crypto.cipher=AES/GCM/NoPadding",
    ];
    assert_eq!(bad(&with(&galois, Some("4.1.4"))), []);
    let is_unknown = |(check, ..): &(&str, &str, String)| *check == "cipher-unknown";
    assert!(bad(&with(&galois, Some("3.5.9"))).iter().any(is_unknown));
    let of_node_managers = [
        "spark.authenticate=true",
        "spark.master=yarn",
        "spark.shuffle.service.enabled=true",
    ];
    assert_eq!(bad(&with(&of_node_managers, None)), []);
    let other_port = [&of_node_managers[..], &["spark.shuffle.service.port=7447"]].concat();
    expect(
        &other_port,
        None,
        ("secret-not-shared", "error", "SECRET_NOT_SHARED"),
    );
    // YARN's configuration may have the port.
    let on_other_port = [
        &of_node_managers[..],
        &["spark.lodestone.services=host1:7447"],
    ]
    .concat();
    expect(
        &on_other_port,
        None,
        ("secret-not-shared", "note", "yarn-site.xml"),
    );
    let in_pem = [
        "spark.ssl.rpc.enabled=true",
        "spark.lodestone.services=",
        "spark.ssl.rpc.certChain=/tls/tls.crt",
        "spark.ssl.rpc.privateKey=/tls/tls.key",
        "spark.ssl.rpc.openSslEnabled=true",
    ];
    assert_eq!(bad(&with(&in_pem, None)), []);
}

#[test]
fn a_serializer_and_a_codec_that_leave_shuffles_to_spark_are_warnings_except_in_mode_remote() {
    let java = "spark.serializer=org.apache.spark.serializer.JavaSerializer";
    let words = "Set spark.serializer to Kryo";
    expect(
        &[java],
        None,
        ("serializer-not-relocatable", "warning", words),
    );
    let other = ("serializer-not-relocatable", "note", "is org.example.Mine");
    expect(&["spark.serializer=org.example.Mine"], None, other);
    let codec = "spark.io.compression.codec=org.example.Codec";
    expect(
        &[codec],
        None,
        ("codec-not-concatenable", "warning", "Use lz4, zstd"),
    );
    assert_eq!(
        bad(&with(&[codec, "spark.shuffle.compress=false"], None)),
        []
    );
    let remote = ["spark.lodestone.mode=remote", java, codec];
    assert_eq!(bad(&with(&remote, None)), []);
}

#[test]
fn keys_that_stop_an_application_at_its_start_name_the_right_key_or_value() {
    for (change, check, words) in [
        (
            "spark.lodestone.mod=merge",
            "key",
            "Write spark.lodestone.mode",
        ),
        (
            "spark.lodestone.push.timeOut=3s",
            "key",
            "Write spark.lodestone.push.timeout",
        ),
        (
            "spark.lodestone.mode=merged",
            "value",
            "to auto or merge or remote",
        ),
        ("spark.lodestone.replicas=3", "value", "to 1 or 2"),
        (
            "spark.lodestone.push.batchSize=4",
            "value",
            "between 64k and 64m",
        ),
        (
            "spark.lodestone.push.timeout=11min",
            "value",
            "between 0ms and 10min",
        ),
        (
            "spark.lodestone.lease.ttl=9s",
            "value",
            "between 10s and 1h",
        ),
        (
            "spark.lodestone.embedded.memory=8m",
            "value",
            "at least 16m",
        ),
        (
            "spark.lodestone.services=host1",
            "value",
            "host:port,host:port",
        ),
        ("spark.lodestone.nearReads=yes", "value", "true or false"),
        (
            "spark.lodestone.replicas=2",
            "limits",
            "Set spark.lodestone.mode=remote",
        ),
        (
            "spark.lodestone.push.maxBlockSize=8m",
            "limits",
            "a block is never cut",
        ),
        (
            "spark.lodestone.push.memory=1m",
            "limits",
            "at least the size of a request",
        ),
    ] {
        expect(&[change], None, (check, "error", words));
    }
    let valid = [
        "spark.lodestone.push.timeout=0MS",
        "spark.lodestone.mode=Merge",
        "spark.lodestone.embedded.memory=AUTO",
    ];
    assert_eq!(bad(&with(&valid, None)), []);
}

#[test]
fn a_key_that_the_plugin_of_another_release_took_is_a_note_after_the_application() {
    for key in ["spark.lodestone.later", "spark.lodestone.mode"] {
        let values = [(key.to_owned(), "later".to_owned())].into();
        let found = keys::all(&Settings::of(values, None));
        let [one] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(one.shown().1, "note", "{found:?}");
    }
}

#[test]
fn a_value_with_which_spark_does_not_start_is_an_error() {
    let words = "Set spark.authenticate to true or false";
    expect(&["spark.authenticate=yes"], None, ("value", "error", words));
}

#[test]
fn a_value_with_a_reference_is_a_note_and_no_check_takes_its_text_for_the_value() {
    for change in [
        "spark.shuffle.manager=${env:MANAGER}",
        "spark.serializer=${spark.mine}",
        "spark.lodestone.services=${env:SERVICES}",
        "spark.lodestone.lease.ttl=${env:TTL}",
        "spark.authenticate=${env:SAFE}",
        "spark.driver.extraClassPath=${env:JARS}/x.jar",
        "spark.master=${env:MASTER}",
    ] {
        let key = change.split('=').next().unwrap();
        expect(&[change], None, ("reference", "note", key));
    }
}

#[test]
fn a_reference_that_no_check_meets_is_no_finding() {
    let of_yarn = "spark.yarn.historyServer.address=${hadoopconf-yarn.host}:18080";
    assert_eq!(bad(&with(&[of_yarn], None)), []);
}

#[test]
fn settings_without_a_master_say_which_checks_are_left_out() {
    let all = with(&["spark.master="], None);
    let found = bad(&all);
    assert_eq!((found[0].0, found[0].1), ("master", "note"), "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_serializer_that_is_not_set_is_a_note() {
    let manager = WELL[1];
    let given = [format!("{}={}", manager.0, manager.1)];
    let found = bad(&obstacles::all(&Settings::named(&given).unwrap()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].0, found[0].1),
        ("serializer-not-relocatable", "note")
    );
}

#[test]
fn an_engine_without_its_manager_names_the_manager() {
    let managers = "org.apache.spark.shuffle.lodestone.";
    for (change, words) in [
        (
            "spark.plugins=a.B,org.apache.spark.CometPlugin",
            "comet.LodestoneCometShuffleManager",
        ),
        (
            "spark.plugins=org.apache.gluten.GlutenPlugin",
            "gluten.LodestoneGlutenShuffleManager",
        ),
        (
            "spark.sql.extensions=org.apache.spark.sql.auron.AuronSparkSessionExtension",
            "auron.LodestoneAuronShuffleManager",
        ),
    ] {
        expect(
            &[change],
            None,
            ("engine", "warning", &format!("{managers}{words}")),
        );
    }
    let rapids = "spark.plugins=com.nvidia.spark.SQLPlugin";
    expect(
        &[rapids],
        None,
        ("engine", "warning", "RAPIDS was not tried"),
    );
    for (change, name) in [
        ("spark.celeborn.master.endpoints=a:1", "Celeborn"),
        ("spark.rss.a=1", "Uniffle"),
    ] {
        expect(&[change], None, ("other-service", "note", name));
    }
    let off = [
        "spark.plugins=org.apache.gluten.GlutenPlugin",
        "spark.gluten.enabled=false",
    ];
    assert_eq!(bad(&with(&off, None)), []);
}

#[test]
fn an_engine_with_its_manager_still_needs_mode_remote_and_does_not_encrypt() {
    let gluten = [
        "spark.plugins=org.apache.gluten.GlutenPlugin",
        &format!("spark.shuffle.manager={}", obstacles::MANAGERS[2]),
    ];
    expect(
        &gluten,
        None,
        (
            "engine-shuffle",
            "warning",
            "Set spark.lodestone.mode=remote",
        ),
    );
    let remote = [&gluten[..], &["spark.lodestone.mode=remote"]].concat();
    assert_eq!(bad(&with(&remote, None)), []);
    let writer = [&remote[..], &["spark.gluten.sql.columnar.cudf=true"]].concat();
    let left = (
        "engine-shuffle",
        "warning",
        "spark.gluten.sql.columnar.cudf=false",
    );
    expect(&writer, None, left);
    // Mode remote turns the engine's shuffles off, unless the user turns them on.
    let encrypted = [&remote[..], &["spark.io.encryption.enabled=true"]].concat();
    assert_eq!(bad(&with(&encrypted, None)), []);
    let on = [&encrypted[..], &["spark.gluten.sql.columnar.shuffle=true"]].concat();
    let warned = ("engine-not-encrypted", "warning", "ENGINE_NOT_ENCRYPTED");
    expect(&on, None, warned);
    let comet = [
        "spark.plugins=org.apache.spark.CometPlugin",
        &format!("spark.shuffle.manager={}", obstacles::MANAGERS[1]),
        "spark.comet.shuffle.mode=jvm",
    ];
    let left = (
        "engine-shuffle",
        "warning",
        "Set spark.comet.shuffle.mode=native",
    );
    expect(&comet, None, left);
    let plain = [&comet[..2], &["spark.io.encryption.enabled=true"]].concat();
    expect(&plain, None, warned);
}

#[test]
fn a_jar_of_another_spark_or_one_that_is_not_here_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("lodestone-spark-4_2.13.jar");
    fs::write(&there, "").unwrap();
    let there = there.display();
    let both =
        |jar: &str| ["driver", "executor"].map(|side| format!("spark.{side}.extraClassPath={jar}"));
    let jars = both(&there.to_string());
    assert_eq!(bad(&with(&[&jars[0], &jars[1]], Some("4.1.4"))), []);
    let found = bad(&with(&[&jars[0], &jars[1]], Some("3.5.9")));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|(check, level, line)| {
        (*check, *level) == ("jar", "error") && line.contains("Use lodestone-spark-3.5_2.13.jar")
    }));
    let old = both("lodestone-spark-3.5_2.12.jar");
    let found = bad(&with(&[&old[0], &old[1]], Some("4.1.4")));
    assert!(
        found[0].2.contains("Use lodestone-spark-4_2.13.jar"),
        "{found:?}"
    );
    let gone = "spark.driver.extraClassPath=/does/not/exist/lodestone-spark-4_2.13.jar";
    expect(
        &[gone],
        None,
        ("jar", "warning", "which is not on this host"),
    );
    expect(&[&old[0]], None, ("jar", "error", "both need the same jar"));
    let none = [
        "spark.driver.extraClassPath=",
        "spark.executor.extraClassPath=",
    ];
    expect(
        &none,
        None,
        ("jar", "note", "no jar of the plugin is on the class path"),
    );
    let fetched = [&none[..], &["spark.jars=/a/lodestone-spark-3.5_2.12.jar"]].concat();
    expect(
        &fetched,
        Some("3.5.9"),
        ("jar", "warning", "ClassNotFoundException"),
    );
    let fetched = [
        &none[..],
        &["spark.jars.packages=io.lodestone:lodestone-spark-4_2.13:0.1.0"],
    ]
    .concat();
    assert_eq!(bad(&with(&fetched, Some("4.1.4"))), []);
}

#[test]
fn a_jar_of_the_right_line_names_spark_and_one_that_cannot_be_judged_says_so() {
    let line = |spark: Option<&str>| {
        let shown: Vec<_> = with(&[], spark).iter().map(Finding::shown).collect();
        let of_jar = shown.into_iter().find(|(check, ..)| *check == "jar");
        let (_, level, line) = of_jar.unwrap();
        assert_eq!(level, "ok");
        line
    };
    assert!(line(Some("4.1.4")).contains("the jar for Spark 4.1.4"));
    assert!(line(None).contains("the release of Spark is not known (SPARK_HOME)"));
    let unsupported = "no jar of Lodestone is for Spark 3.3.0";
    expect(&[], Some("3.3.0"), ("jar", "error", unsupported));
}
