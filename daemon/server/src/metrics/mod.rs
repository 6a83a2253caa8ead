// SPDX-License-Identifier: Apache-2.0
//! Metrics, in the words of the life table. Names are declared once, here and in [`disks`];
//! `docs/operations.md` lists them, and a test compares the two.

pub mod disks;
pub mod labels;
mod plain;
pub mod stopwatch;

use std::fmt;
use std::sync::Arc;

use lodestone_model::{Code, Load, State};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use disks::{MeasuredFs, SeenDisk};
use labels::{BuildLabels, CodeLabel, PartLabel};

/// The first word of each name, so that names of other programs differ.
const PREFIX: &str = "lodestone";

/// From a push that only touches memory to the longest time that clients wait: their time-outs are
/// seconds.
const LATENCY_BUCKETS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn latency() -> Histogram {
    Histogram::new(LATENCY_BUCKETS)
}

macro_rules! metrics {
    ($($name:ident: $kind:ty = $new:expr, $help:literal;)*) => {
        /// Every metric of the daemon.
        #[derive(Debug)]
        pub struct Metrics {
            $(#[doc = $help] pub $name: $kind,)*
            fs: Arc<MeasuredFs>,
            registry: Registry,
        }

        impl Metrics {
            /// Makes all metrics, at 0. `fs` has those of the data directories.
            pub fn beside(fs: Arc<MeasuredFs>) -> Self {
                let mut registry = Registry::with_prefix(PREFIX);
                $(
                    let $name: $kind = $new;
                    // The client library adds the ending of a counter's name, and the full stop.
                    let name = stringify!($name).trim_end_matches("_total");
                    let help = $help.trim_end_matches('.');
                    registry.register(name, help, $name.clone());
                )*
                Self { $($name,)* fs, registry }
            }
        }
    };
}

metrics! {
    register_shuffles_total: Counter = Counter::default(),
        "Shuffles registered by the plugin, repetitions included.";
    register_executors_total: Counter = Counter::default(),
        "Executors registered by Spark, repetitions included.";
    push_requests_total: Counter = Counter::default(),
        "Push requests accepted: batches, and single blocks of Spark's own push.";
    push_bytes_total: Counter = Counter::default(),
        "Bytes of accepted push requests.";
    push_refused_total: Counter = Counter::default(),
        "Push requests refused as a whole.";
    push_seconds: Histogram = latency(),
        "Time of a push request, from its first bytes to its answer: reading, waiting, storing.";
    merge_segments_total: Counter = Counter::default(),
        "Segments and blocks merged.";
    merge_duplicates_total: Counter = Counter::default(),
        "Segments and blocks that the service had already.";
    merge_rejected_total: Family<CodeLabel, Counter> = labels::all_codes(),
        "Segments and blocks not merged, by status code: late, stale, damaged, or no room.";
    commit_maps_total: Counter = Counter::default(),
        "Map attempts committed, repetitions included.";
    commit_refused_total: Counter = Counter::default(),
        "Map attempts not committed: their ledger is not that of the service.";
    commit_aborts_total: Counter = Counter::default(),
        "Map attempts aborted.";
    finalize_requests_total: Counter = Counter::default(),
        "Shuffles of Spark's own push finalized, repetitions included.";
    fetch_layouts_total: Counter = Counter::default(),
        "Segment layouts sent.";
    fetch_streams_total: Counter = Counter::default(),
        "Streams opened.";
    fetch_chunks_total: Counter = Counter::default(),
        "Chunks and original blocks sent.";
    fetch_bytes_total: Counter = Counter::default(),
        "Bytes of chunks and original blocks sent.";
    fetch_failures_total: Family<CodeLabel, Counter> = labels::all_codes(),
        "Chunks and original blocks that were not sent, or not to their end, by status code.";
    fetch_seconds: Histogram = latency(),
        "Time of a chunk or original block, from its request to its last byte in the socket.";
    remove_shuffles_total: Counter = Counter::default(),
        "Shuffles removed on request.";
    remove_applications_total: Counter = Counter::default(),
        "Applications ended by their driver.";
    remove_expired_total: Counter = Counter::default(),
        "Applications forgotten because their lease ran out.";
    connections_total: Counter = Counter::default(),
        "Connections accepted.";
    connections_refused_total: Counter = Counter::default(),
        "Connections closed because there were too many, and none ended within 2 s.";
    requests_refused_total: Family<CodeLabel, Counter> = labels::all_codes(),
        "Requests answered with a refusal or failure, by status code.";
    authentication_failures_total: Counter = Counter::default(),
        "Connections closed because the client did not authenticate.";
    merge_memory_bytes: Gauge = Gauge::default(),
        "Memory in use, of the whole budget.";
    merge_memory_limit_bytes: Gauge = Gauge::default(),
        "The memory budget.";
    memory_part_bytes: Family<PartLabel, Gauge> = labels::all_parts(),
        "Memory in use, of the part for the store or for pushes.";
    memory_part_limit_bytes: Family<PartLabel, Gauge> = labels::all_parts(),
        "The memory of this part.";
    merge_shuffles: Gauge = Gauge::default(),
        "Shuffles kept.";
    merge_applications: Gauge = Gauge::default(),
        "Applications that the service knows.";
    connections_open: Gauge = Gauge::default(),
        "Open connections.";
    serving: Gauge = Gauge::default(),
        "1 while new work is taken, 0 while draining or without a usable disk.";
    draining: Gauge = Gauge::default(),
        "1 while the service is drained.";
    start_time_seconds: Gauge = Gauge::default(),
        "When the daemon started, in seconds since 1970.";
    build_info: Family<BuildLabels, Gauge> = labels::build(),
        "Always 1. The labels are the version, and the commit of a release.";
}

/// What a store says of itself when it is asked.
#[derive(Debug)]
pub struct Seen {
    /// How busy it is.
    pub load: Load,
    /// The parts of the memory that fill when work comes faster than disks and clients take it.
    pub parts: [MemoryPart; 2],
    /// Applications that it knows.
    pub applications: usize,
    /// For each data directory, the reason why it takes no data.
    pub disk_refusals: Vec<Option<Code>>,
    /// For each data directory, the bytes that stay free on its disk.
    pub disk_reserves: Vec<u64>,
}

/// A part of the memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPart {
    /// What it is for.
    pub name: &'static str,
    /// Bytes in use.
    pub used: u64,
    /// Its size.
    pub limit: u64,
}

/// The two forms of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics.
    Open,
    /// The older text of Prometheus, for clients that do not ask for OpenMetrics.
    Plain,
}

impl Metrics {
    /// Counts a request that is refused with this code.
    pub fn count_refusal(&self, code: Code) {
        labels::count(&self.requests_refused_total, code);
    }

    /// Counts a segment or block that is not merged.
    pub fn count_rejected(&self, code: Code) {
        labels::count(&self.merge_rejected_total, code);
    }

    /// Counts a chunk or original block that is not sent, or not to its end.
    pub fn count_fetch_failure(&self, code: Code) {
        labels::count(&self.fetch_failures_total, code);
    }

    /// Says when the daemon started.
    pub(crate) fn started_at(&self, unix_ms: u64) {
        self.start_time_seconds.set(signed(unix_ms / 1000));
    }

    /// Returns what was last seen of each data directory.
    pub fn disks(&self, seen: &Seen) -> Vec<SeenDisk> {
        self.fs.seen(&seen.disk_refusals)
    }

    /// Returns the text, with gauges of what was seen.
    pub fn text(&self, form: Form, seen: &Seen) -> Result<String, fmt::Error> {
        self.show(seen);
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, self.fs.registry())?;
        match form {
            Form::Open => encode_eof(&mut text)?,
            Form::Plain => text = plain::of(&text),
        }
        Ok(text)
    }

    fn show(&self, seen: &Seen) {
        let load = &seen.load;
        self.merge_memory_bytes.set(signed(load.memory_used));
        self.merge_memory_limit_bytes.set(signed(load.memory_limit));
        for part in &seen.parts {
            let label = PartLabel { part: part.name };
            let used = self.memory_part_bytes.get_or_create_owned(&label);
            used.set(signed(part.used));
            let limit = self.memory_part_limit_bytes.get_or_create_owned(&label);
            limit.set(signed(part.limit));
        }
        self.merge_shuffles.set(load.shuffles.into());
        self.merge_applications
            .set(signed(seen.applications as u64));
        self.connections_open.set(load.connections.into());
        self.serving.set((load.state == State::Serving).into());
        self.draining.set((load.state == State::Draining).into());
        self.fs.show(&seen.disk_refusals, &seen.disk_reserves);
    }
}

#[cfg(test)]
mod tests;
