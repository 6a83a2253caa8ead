// SPDX-License-Identifier: Apache-2.0
//! Settings of the cluster: YARN, Kubernetes, dynamic allocation.

use super::checks::{
    DYNAMIC_ALLOCATION, HOST_NAME_CACHE, LOCAL_DIRS_TMPFS, MEMORY_OVERHEAD, REMOTE_DEFAULTS,
    REMOTE_EMBEDDED,
};
use super::obstacles::{LOCAL_DISK_IO, OUR_IO, are_remote};
use super::services::{addresses, host_and_port};
use crate::operator::doctor::finding::{Finding, Level};
use crate::operator::doctor::settings::Settings;
use crate::operator::doctor::sizing::beside;
use crate::process::memory::LEAST_BYTES;

const MIB: u64 = 1 << 20;

/// Spark's least overhead (Spark 4 has a key for it), its part of the heap, and its heap.
const OVERHEAD_MIB: u64 = 384;
const OVERHEAD_FACTOR: f64 = 0.1;
const HEAP_MIB: u64 = 1024;

/// What mode remote sets if the user does not, and the value that Spark needs without it:
/// `RemoteDefaults.scala`.
pub(super) const DEFAULTS: [(&str, &str, &str); 3] = [
    (
        "spark.shuffle.sort.io.plugin.class",
        "org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO",
        "Spark runs maps again when their executor is lost, though services have the outputs",
    ),
    (
        "spark.dynamicAllocation.shuffleTracking.enabled",
        "true",
        "Spark keeps idle executors for map outputs that they do not have",
    ),
    (
        "spark.sql.adaptive.localShuffleReader.enabled",
        "true",
        "a join that becomes a broadcast sends a small request for each partition",
    ),
];

pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let mut found = settings.known(remote_defaults);
    let checks = [
        dynamic_allocation,
        remote_embedded,
        memory_overhead,
        local_dirs_tmpfs,
        host_name_cache,
    ];
    found.extend(checks.iter().filter_map(|check| settings.known(check)));
    found
}

fn remote_defaults(settings: &Settings) -> Vec<Finding> {
    let finding = |(key, value, effect): &(&str, &str, &str)| {
        let is_set = settings
            .get(key)
            .is_some_and(|given| given.eq_ignore_ascii_case(value));
        let text = format!("{key} is set to {value} in mode remote: {effect}");
        is_set.then(|| REMOTE_DEFAULTS.warning(text))
    };
    match settings.is_remote_mode() {
        true => DEFAULTS.iter().filter_map(finding).collect(),
        false => Vec::new(),
    }
}

/// What Spark checks at its start (`ExecutorAllocationManager.validateSettings`).
fn dynamic_allocation(settings: &Settings) -> Option<Finding> {
    let is_on = settings.is_true("spark.dynamicAllocation.enabled", false);
    if !is_on || settings.has_no_executors() {
        return None;
    }
    let io = settings.get("spark.shuffle.sort.io.plugin.class");
    let are_remote = are_remote(settings);
    let is_protected = (are_remote && io.is_none_or(|io| io == OUR_IO))
        // Mode remote turns it off.
        || settings.is_true("spark.dynamicAllocation.shuffleTracking.enabled", !are_remote)
        || settings.is_true("spark.shuffle.service.enabled", false)
        || (settings.is_true("spark.decommission.enabled", false)
            && settings.is_true("spark.storage.decommission.shuffleBlocks.enabled", true));
    // Other plugins may say that map outputs outlive executors.
    let level = match io {
        Some(io) if ![LOCAL_DISK_IO, OUR_IO].contains(&io) => Level::Warning,
        _ => Level::Error,
    };
    let why = match settings.is_remote_mode() {
        true => "mode remote has no effect here (see the other findings)",
        false => "the mode is not remote",
    };
    (!is_protected).then(|| {
        let text = "spark.dynamicAllocation.enabled is true, shuffleTracking is off, no shuffle \
                    service is enabled, and";
        DYNAMIC_ALLOCATION.at(level, format!("{text} {why}: Spark refuses to start"))
    })
}

/// Whether executors, and the daemons that they start, are in containers that end with them.
fn has_contained_daemons(settings: &Settings) -> bool {
    settings.is_embedded() && (settings.is_yarn() || settings.is_kubernetes())
}

fn remote_embedded(settings: &Settings) -> Option<Finding> {
    let is_remote = settings.is_remote_mode() && has_contained_daemons(settings);
    let master = settings.master();
    is_remote.then(|| {
        REMOTE_EMBEDDED.warning(format!(
            "spark.lodestone.mode is remote, no services are named, and with spark.master={master} \
             the daemons end with their executors: all maps of a shuffle run again"
        ))
    })
}

fn memory_overhead(settings: &Settings) -> Option<Finding> {
    if !has_contained_daemons(settings) {
        return None;
    }
    let mebibytes = |key: &str| settings.bytes(key).map(|bytes| bytes / MIB);
    let of_executors = "spark.executor.memoryOverheadFactor";
    let of_pods = "spark.kubernetes.memoryOverheadFactor";
    let number = |key: &str| settings.get(key)?.parse::<f64>().ok();
    let factor = number(of_executors)
        .or_else(|| number(of_pods).filter(|_| settings.is_kubernetes()))
        .unwrap_or(OVERHEAD_FACTOR);
    let heap = mebibytes("spark.executor.memory").unwrap_or(HEAP_MIB);
    let floor = mebibytes("spark.executor.minMemoryOverhead").filter(|_| !settings.is_spark_3());
    let of_heap = |factor: f64| {
        floor
            .unwrap_or(OVERHEAD_MIB)
            .max((heap as f64 * factor) as u64)
    };
    let budget = settings.bytes("spark.lodestone.embedded.memory");
    let budget = budget.unwrap_or(LEAST_BYTES);
    let daemon = budget.saturating_add(beside(budget)) / MIB;
    let given = mebibytes("spark.executor.memoryOverhead").unwrap_or_else(|| of_heap(factor));
    let least = of_heap(OVERHEAD_FACTOR) + daemon;
    if given >= least {
        let text = format!("executors have {given} MiB beside their heap, {daemon} for the daemon");
        return Some(MEMORY_OVERHEAD.ok(text));
    }
    let text = format!(
        "executors have {given} MiB beside their heap of {heap} MiB; Spark's own share is {} MiB, \
         and the daemon in the container needs {daemon} MiB",
        least - daemon
    );
    let remedy = format!("Set spark.executor.memoryOverhead={least}m.");
    Some(MEMORY_OVERHEAD.warning(text).instead(remedy))
}

fn local_dirs_tmpfs(settings: &Settings) -> Option<Finding> {
    let key = "spark.kubernetes.local.dirs.tmpfs";
    let is_there =
        has_contained_daemons(settings) && settings.is_kubernetes() && settings.is_true(key, false);
    is_there.then(|| {
        LOCAL_DIRS_TMPFS.warning(format!(
            "{key} is true: map outputs, and what the daemon in the pod writes, take the memory of \
             the pod"
        ))
    })
}

/// An address does not change, and a name with `dns:` is looked up once.
fn host_name_cache(settings: &Settings) -> Option<Finding> {
    let value = settings.get_or("spark.lodestone.services", "");
    if !settings.is_kubernetes() || value.is_empty() || value.starts_with("dns:") {
        return None;
    }
    let is_name = |one: &String| {
        host_and_port(one).is_some_and(|(host, _)| {
            host.parse::<std::net::IpAddr>().is_err() && !host.starts_with('[')
        })
    };
    let named = addresses(value).ok()?.into_iter().find(is_name)?;
    let options = ["driver", "executor"].map(|of| format!("spark.{of}.extraJavaOptions"));
    let is_set = options
        .iter()
        .all(|key| settings.get_or(key, "").contains("-Dsun.net.inetaddr.ttl="));
    (!is_set).then(|| {
        HOST_NAME_CACHE.note(format!(
            "spark.lodestone.services has the name {named}, which JVMs keep for 30 s, as long as \
             clients wait for a pod that comes back with another address"
        ))
    })
}
