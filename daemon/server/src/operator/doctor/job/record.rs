// SPDX-License-Identifier: Apache-2.0
//! The driver's report, as far as its figures say what was lost. Its fields are those of
//! `ReportJson.scala`; a missing one counts as empty.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The report.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) totals: Totals,
    pub(super) shuffles: Vec<Shuffle>,
    pub(super) services: Vec<Service>,
    sentences: BTreeMap<String, String>,
    remedies: BTreeMap<String, String>,
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
    pub(super) merged_blocks_read: u64,
    pub(super) originals_read: u64,
    pub(super) reasons: BTreeMap<String, u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Shuffle {
    pub(super) shuffle_id: i64,
    pub(super) maps: u64,
    pub(super) partitions: u64,
    pub(super) state: String,
    /// Why it was left to Spark.
    pub(super) decision: Option<String>,
    pub(super) readers_waited_millis: u64,
    pub(super) sample: Option<Sample>,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Sample {
    /// Below zero, if it is not known.
    pub(super) disk_read_micros: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Service {
    pub(super) host_port: String,
    pub(super) state: String,
}

/// States of a service that serves, or that the driver did not need (`ServiceDirectory.scala`).
const IN_USE: [&str; 3] = ["serving", "unknown", ""];

impl Service {
    pub(super) fn is_out_of_use(&self) -> bool {
        !IN_USE.contains(&self.state.as_str())
    }
}

impl Record {
    pub(super) fn reasons(&self) -> Reasons<'_> {
        Reasons(self)
    }
}

/// What a person can do about reasons, as the driver says it.
pub(super) struct Reasons<'a>(&'a Record);

/// Reasons for which nothing has to be done, whatever release has written the report, and two by
/// which mode auto saves time. A test compares them with `Reason.scala`.
pub(super) const HARMLESS: [&str; 14] = [
    "BARRIER_STAGE",
    "SINGLE_MAP",
    "NO_PARTITIONS",
    "FEW_BLOCKS",
    "LARGE_BLOCKS",
    "UNKNOWN_SHUFFLE",
    "BLOCK_TOO_LARGE",
    "PUSH_ABORTED",
    "PUSH_STALE",
    "PUSH_UNKNOWN_SHUFFLE",
    "PUSH_SERVICE_DRAINING",
    "LOCAL_MAP_READ",
    "ATTEMPT_NOT_ACCEPTED",
    "RECORDS_UNCHECKED",
];

/// How a remedy begins if nothing has to be done. "Nothing, if" goes on with what to do otherwise.
const NOTHING: [&str; 2] = ["Nothing.", "Nothing:"];

/// Reasons for which nothing has to be done if they are rare.
const IF_MANY: [&str; 2] = ["PUSH_TOO_LATE", "PUSH_NOT_AWAITED"];

/// Rare is up to this, or up to one of a hundred blocks.
const RARE: u64 = 10;

impl Reasons<'_> {
    /// Whether a setting or an operator can change it. An unknown code is worth a look.
    pub(super) fn can_change(&self, code: &str) -> bool {
        let remedy = self.0.remedies.get(code);
        let begins = |remedy: &String| NOTHING.iter().any(|begin| remedy.starts_with(begin));
        !HARMLESS.contains(&code) && !remedy.is_some_and(begins)
    }

    /// Whether it can be changed, and counts in this shuffle.
    pub(super) fn matters(&self, shuffle: &Shuffle, code: &str, count: u64) -> bool {
        let blocks = shuffle.maps.saturating_mul(shuffle.partitions);
        let is_rare = count <= RARE.max(blocks / 100);
        self.can_change(code) && !(is_rare && IF_MANY.contains(&code))
    }

    pub(super) fn sentence<'a>(&'a self, code: &'a str) -> &'a str {
        self.0.sentences.get(code).map_or(code, String::as_str)
    }

    pub(super) fn remedy(&self, code: &str) -> String {
        match self.0.remedies.get(code) {
            Some(remedy) => remedy.clone(),
            None => format!("See {code} in docs/reasons.md."),
        }
    }
}
