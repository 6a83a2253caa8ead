// SPDX-License-Identifier: Apache-2.0
//! Labels whose values are known when the daemon starts: each series exists from then on, so that
//! an alert on its growth does not miss the first event.

use lodestone_model::Code;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// The status code of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CodeLabel {
    /// Its name in the protocol.
    pub code: &'static str,
}

/// Returns a counter for each code that a refusal may have.
pub(super) fn all_codes() -> Family<CodeLabel, Counter> {
    let family = Family::default();
    for code in Code::ALL.iter().filter(|code| **code != Code::Ok) {
        drop(family.get_or_create(&CodeLabel { code: code.name() }));
    }
    family
}

/// Counts one with this code.
pub(super) fn count(family: &Family<CodeLabel, Counter>, code: Code) {
    family.get_or_create(&CodeLabel { code: code.name() }).inc();
}

/// Returns how many there are with any code.
pub fn sum(family: &Family<CodeLabel, Counter>) -> u64 {
    let label = |code: &Code| CodeLabel { code: code.name() };
    let counted = |code| family.get_or_create(&label(code)).get();
    Code::ALL.iter().map(counted).sum()
}

/// A part of the memory budget.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PartLabel {
    /// What it is for.
    pub part: &'static str,
}

/// The memory of the store: tails of partitions, and indexes of segments.
pub const STORE: &str = "store";

/// The memory of large pushes on their way to the store.
pub const PUSHES: &str = "pushes";

/// Returns a gauge for each part.
pub(super) fn all_parts() -> Family<PartLabel, Gauge> {
    let family: Family<PartLabel, Gauge> = Family::default();
    for part in [STORE, PUSHES] {
        drop(family.get_or_create(&PartLabel { part }));
    }
    family
}

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BuildLabels {
    version: &'static str,
    commit: &'static str,
}

/// The commit of a build that is not a release.
const NO_COMMIT: &str = "unknown";

/// Returns the commit in the text of a release, `0.1.0 (commit 0123456789ab)`.
fn commit_of(release: Option<&'static str>) -> &'static str {
    let after = release.and_then(|text| text.split_once("(commit "));
    after.map_or(NO_COMMIT, |(_, commit)| commit.trim_end_matches(')'))
}

/// Returns a gauge that is 1.
pub(super) fn build() -> Family<BuildLabels, Gauge> {
    let family = Family::default();
    let labels = BuildLabels {
        version: env!("CARGO_PKG_VERSION"),
        commit: commit_of(option_env!("LODESTONE_RELEASE")),
    };
    let gauge: Gauge = family.get_or_create_owned(&labels);
    gauge.set(1);
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_the_one_that_make_release_gives_and_else_unknown() {
        let release = commit_of(Some("0.1.0 (commit 0123456789ab)"));
        assert_eq!(release, "0123456789ab");
        assert_eq!(commit_of(None), "unknown");
    }
}
