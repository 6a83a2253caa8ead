// SPDX-License-Identifier: Apache-2.0
//! What the driver's report says of reasons and services, as far as a person can change it.

use crate::operator::report::{Report, Service, Shuffle};

/// States of a service that serves, or that the driver did not need (`ServiceDirectory.scala`).
const IN_USE: [&str; 3] = ["serving", "unknown", ""];

impl Service {
    pub(super) fn is_out_of_use(&self) -> bool {
        !IN_USE.contains(&self.state.as_str())
    }
}

/// What a person can do about reasons, as the driver says it.
pub(super) struct Reasons<'a>(pub(super) &'a Report);

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
