// SPDX-License-Identifier: Apache-2.0
//! Settings that do not fit their cluster: dynamic allocation, YARN, Kubernetes, addresses.

use super::{bad, expect, with};

#[test]
fn traps_of_dynamic_allocation_and_of_mode_remote_are_found() {
    let dynamic = [
        "spark.dynamicAllocation.enabled=true",
        "spark.dynamicAllocation.shuffleTracking.enabled=false",
    ];
    expect(
        &dynamic,
        None,
        ("dynamic-allocation", "error", "Spark refuses to start"),
    );
    let remote = [&dynamic[..], &["spark.lodestone.mode=remote"]].concat();
    assert_eq!(bad(&with(&remote, None)), []);
    assert_eq!(
        bad(&with(
            &[&dynamic[..], &["spark.master=local[4]"]].concat(),
            None
        )),
        []
    );
    for (change, level) in [
        ("spark.shuffle.push.enabled=true", "error"),
        ("spark.shuffle.useOldFetchProtocol=true", "error"),
        (
            "spark.shuffle.sort.io.plugin.class=org.example.Io",
            "warning",
        ),
    ] {
        let found = bad(&with(&[&remote[..], &[change]].concat(), None));
        let is_it = |one: &(&str, &str, String)| (one.0, one.1) == ("dynamic-allocation", level);
        assert!(found.iter().any(is_it), "{change}: {found:#?}");
    }
    for (key, value) in [
        ("spark.dynamicAllocation.shuffleTracking.enabled", "true"),
        ("spark.sql.adaptive.localShuffleReader.enabled", "true"),
        (
            "spark.shuffle.sort.io.plugin.class",
            "org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO",
        ),
    ] {
        let setting = format!("{key}={value}");
        let changes = ["spark.lodestone.mode=remote", &setting];
        expect(&changes, None, ("remote-defaults", "warning", key));
    }
}

#[test]
fn traps_of_yarn_and_kubernetes_are_found() {
    let yarn = ["spark.master=yarn", "spark.lodestone.services="];
    expect(
        &yarn,
        None,
        (
            "memory-overhead",
            "warning",
            "Set spark.executor.memoryOverhead=832m",
        ),
    );
    let large = [
        &yarn[..],
        &[
            "spark.executor.memory=20g",
            "spark.executor.memoryOverhead=2g",
        ],
    ]
    .concat();
    expect(
        &large,
        None,
        ("memory-overhead", "warning", "memoryOverhead=2496m"),
    );
    let raised = [&yarn[..], &["spark.executor.memoryOverhead=832"]].concat();
    assert_eq!(bad(&with(&raised, None)), []);
    // What a key of Kubernetes adds is not there on YARN, and Spark 4 has a key for the least.
    let of_pods = [&yarn[..], &["spark.kubernetes.memoryOverheadFactor=0.9"]].concat();
    expect(&of_pods, None, ("memory-overhead", "warning", "=832m"));
    let more = [&yarn[..], &["spark.executor.minMemoryOverhead=1g"]].concat();
    expect(
        &more,
        Some("4.1.4"),
        ("memory-overhead", "warning", "=1472m"),
    );
    let remote = [&raised[..], &["spark.lodestone.mode=remote"]].concat();
    expect(
        &remote,
        None,
        (
            "remote-embedded",
            "warning",
            "name them with spark.lodestone.services",
        ),
    );
    let pods = [
        "spark.master=k8s://https://host:6443",
        "spark.lodestone.services=",
        "spark.executor.memoryOverhead=1g",
        "spark.kubernetes.local.dirs.tmpfs=true",
    ];
    expect(
        &pods,
        None,
        ("local-dirs-tmpfs", "warning", "local.dirs.tmpfs=false"),
    );
    let named = ["spark.master=k8s://https://host:6443"];
    expect(
        &named,
        None,
        ("host-name-cache", "note", "-Dsun.net.inetaddr.ttl=5"),
    );
    let options = [
        named[0],
        "spark.driver.extraJavaOptions=-Dsun.net.inetaddr.ttl=5",
        "spark.executor.extraJavaOptions=-Xint -Dsun.net.inetaddr.ttl=5",
    ];
    assert_eq!(bad(&with(&options, None)), []);
}

#[test]
fn a_service_that_each_executor_would_look_for_on_its_own_host_is_found() {
    for service in [
        "localhost:7337",
        "127.0.0.1:7337",
        "[::1]:7337",
        "0.0.0.0:7337",
    ] {
        let services = format!("spark.lodestone.services={service}");
        let yarn = ["spark.master=yarn", &services];
        expect(&yarn, None, ("loopback", "error", service));
        expect(&[&services], None, ("loopback", "warning", service));
        assert_eq!(bad(&with(&[&services, "spark.master=local[2]"], None)), []);
    }
}
