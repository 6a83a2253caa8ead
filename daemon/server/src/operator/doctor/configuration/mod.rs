// SPDX-License-Identifier: Apache-2.0
//! Checks of Spark's settings: what they do to shuffles, before a job or after it.

pub(super) mod checks;
mod cluster;
mod engines;
mod jars;
mod keys;
mod obstacles;
pub(super) mod services;
#[cfg(test)]
mod tests;
mod tls;

use self::checks::{MASTER, REFERENCE};
use super::finding::Finding;
use super::settings::Settings;

/// Checks the settings of an application.
pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let mut found = obstacles::all(settings);
    found.extend(keys::all(settings));
    found.extend(settings.known(tls::all));
    let areas = [services::all, engines::all];
    found.extend(areas.iter().flat_map(|check| settings.known(check)));
    found.extend(cluster::all(settings));
    found.extend(settings.known(jars::all));
    found.extend(unknown(settings));
    found
}

/// What the settings do not say.
fn unknown(settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    if settings.master().is_empty() && !settings.has_references(&["spark.master"]) {
        let text = "spark.master is not known: the checks of cluster managers are left out";
        found.push(MASTER.note(text));
    }
    let keys: Vec<String> = settings.met_references().into_iter().collect();
    if !keys.is_empty() {
        let text = format!("values have references: {}", keys.join(", "));
        found.push(REFERENCE.note(text));
    }
    found
}
