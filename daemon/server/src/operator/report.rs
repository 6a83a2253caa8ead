// SPDX-License-Identifier: Apache-2.0
//! The driver's report. Its fields are those of `ReportJson.scala`. A missing field counts as
//! empty, and an unknown one is left out.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The report of the driver.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) version: String,
    pub(super) totals: Totals,
    pub(super) shuffles: Vec<Shuffle>,
    pub(super) services: Vec<Service>,
    /// Empty in reports of older drivers.
    pub(super) application: String,
    /// The meaning of each code.
    pub(super) sentences: BTreeMap<String, String>,
    /// What to do about each code. Empty in reports of older drivers.
    pub(super) remedies: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Totals {
    pub(super) shuffles: u64,
    pub(super) merged: u64,
    pub(super) plain: u64,
    pub(super) remote: u64,
    pub(super) readers_waited_millis: u64,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) blocks_pushed: u64,
    pub(super) bytes_pushed: u64,
    pub(super) push_requests: u64,
    pub(super) chunks_read: u64,
    pub(super) chunk_bytes: u64,
    pub(super) local_chunk_bytes: u64,
    pub(super) merged_blocks_read: u64,
    pub(super) originals_read: u64,
    pub(super) row_bytes: u64,
    pub(super) encoded_bytes: u64,
    pub(super) compressed_bytes: u64,
    pub(super) reasons: BTreeMap<String, u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Shuffle {
    pub(super) shuffle_id: i64,
    pub(super) generation: i64,
    pub(super) maps: u64,
    pub(super) partitions: u64,
    pub(super) state: String,
    /// Why it was left to Spark.
    pub(super) decision: Option<String>,
    /// Empty in reports of older drivers.
    pub(super) format: String,
    pub(super) readers_waited_millis: u64,
    pub(super) sample: Option<Sample>,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

/// The sample that decided whether to merge.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Sample {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
    /// Below zero, if it is not known.
    pub(super) disk_read_micros: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Service {
    pub(super) host_port: String,
    pub(super) state: String,
}
