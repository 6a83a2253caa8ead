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

/// How a remedy begins if nothing has to be done.
const NOTHING: &str = "Nothing";

impl Reasons<'_> {
    /// Whether a setting or an operator can change it. An unknown code is worth a look.
    pub(super) fn can_change(&self, code: &str) -> bool {
        let remedy = self.0.remedies.get(code);
        remedy.is_none_or(|remedy| !remedy.starts_with(NOTHING))
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
