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
use labels::{BuildLabels, CodeLabel};

/// The first word of each name, so that names of other programs differ.
const PREFIX: &str = "lodestone";

/// From a push that only touches memory to the longest time that clients wait: their time-outs are
/// seconds.
const LATENCY_BUCKETS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

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
    merge_rejected_total: Counter = Counter::default(),
        "Segments and blocks not merged: late, stale, damaged, or no disk.";
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
    fetch_failures_total: Counter = Counter::default(),
        "Chunks and original blocks that could not be sent.";
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
    build_info: Family<BuildLabels, Gauge> = labels::build(),
        "Always 1. The labels are the version, and the commit of a release.";
}

/// What a store says of itself when it is asked.
#[derive(Debug)]
pub struct Seen {
    /// How busy it is.
    pub load: Load,
    /// Applications that it knows.
    pub applications: usize,
    /// For each data directory, the reason why it takes no data.
    pub disk_refusals: Vec<Option<Code>>,
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
        let label = CodeLabel { code: code.name() };
        self.requests_refused_total.get_or_create(&label).inc();
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
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let load = &seen.load;
        self.merge_memory_bytes.set(signed(load.memory_used));
        self.merge_memory_limit_bytes.set(signed(load.memory_limit));
        self.merge_shuffles.set(load.shuffles.into());
        self.merge_applications
            .set(signed(seen.applications as u64));
        self.connections_open.set(load.connections.into());
        self.serving.set((load.state == State::Serving).into());
        self.draining.set((load.state == State::Draining).into());
        self.fs.show(&seen.disk_refusals);
    }
}

#[cfg(test)]
mod tests;
