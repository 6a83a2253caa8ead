// SPDX-License-Identifier: Apache-2.0
//! Counters, in the words of the life table. Names are declared once, here; `docs/operations.md` lists
//! them, and a test compares the two.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($name:ident: $help:literal,)*) => {
        /// Every counter of the daemon.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $(#[doc = $help] pub $name: Counter,)*
        }

        impl Metrics {
            /// Name, value and meaning of each counter.
            pub fn counters(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![$((stringify!($name), self.$name.get(), $help),)*]
            }
        }
    };
}

counters! {
    register_shuffles_total: "Shuffles registered by the plugin, repetitions included.",
    register_executors_total: "Executors registered by Spark, repetitions included.",
    push_requests_total: "Push requests accepted: batches, and single blocks of Spark's own push.",
    push_bytes_total: "Bytes of accepted push requests.",
    push_refused_total: "Push requests refused as a whole.",
    merge_segments_total: "Segments and blocks merged.",
    merge_duplicates_total: "Segments and blocks that the service had already.",
    merge_rejected_total: "Segments and blocks not merged: late, stale, damaged, or no disk.",
    commit_maps_total: "Map attempts of remote shuffles committed, repetitions included.",
    commit_refused_total: "Map attempts not committed: their ledger is not that of the service.",
    commit_aborts_total: "Map attempts of remote shuffles aborted.",
    finalize_requests_total: "Shuffles finalized, repetitions included.",
    fetch_layouts_total: "Segment layouts sent.",
    fetch_streams_total: "Streams opened.",
    fetch_chunks_total: "Chunks and original blocks sent.",
    fetch_bytes_total: "Bytes of chunks and original blocks sent.",
    fetch_failures_total: "Chunks and original blocks that could not be sent.",
    remove_shuffles_total: "Shuffles removed on request.",
    remove_applications_total: "Applications ended by their driver.",
    remove_expired_total: "Applications forgotten because their lease ran out.",
    connections_total: "Connections accepted.",
    connections_refused_total: "Connections closed at once because there were too many.",
    requests_refused_total: "Requests answered with a refusal or failure.",
}

/// Numbers that go up and down: name and meaning.
pub const GAUGES: [(&str, &str); 7] = [
    ("merge_memory_bytes", "Memory in use, of the whole budget."),
    ("merge_memory_limit_bytes", "The memory budget."),
    ("merge_disk_free_bytes", "Bytes free on the data disks."),
    ("merge_disk_size_bytes", "Size of the data disks."),
    ("merge_shuffles", "Shuffles kept."),
    ("connections_open", "Open connections."),
    (
        "serving",
        "1 while new work is taken, 0 while draining or without a usable disk.",
    ),
];

/// Stands before each name, so that they do not collide with those of other programs.
pub const PREFIX: &str = "lodestone_";

/// Prometheus' text format. The gauges' values are in the order of [`GAUGES`].
pub fn render(metrics: &Metrics, gauges: [i64; GAUGES.len()]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, kind: &str, help: &str, value: String| {
        let name = format!("{PREFIX}{name}");
        let written = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
        debug_assert!(written.is_ok(), "a string takes every write");
    };
    for (name, value, help) in metrics.counters() {
        line(name, "counter", help, value.to_string());
    }
    for ((name, help), value) in GAUGES.into_iter().zip(gauges) {
        line(name, "gauge", help, value.to_string());
    }
    text
}
