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

use super::finding::Finding;
use super::settings::Settings;

/// Checks the settings of an application.
pub(super) fn all(settings: &Settings) -> Vec<Finding> {
    let areas = [
        obstacles::all,
        keys::all,
        services::all,
        engines::all,
        cluster::all,
        jars::all,
    ];
    areas.iter().flat_map(|check| check(settings)).collect()
}
