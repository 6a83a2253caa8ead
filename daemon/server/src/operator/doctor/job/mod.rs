// SPDX-License-Identifier: Apache-2.0
//! What an application lost by its shuffles, from its event log: the most expensive first.

pub(super) mod checks;
mod cost;
mod logged;
mod reasons;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;

use self::checks::{REPORT, SERVICE_AT_END, SUMS};
use self::logged::LoggedSettings;
use self::reasons::Reasons;
use super::configuration;
use super::finding::Finding;
use super::settings::Settings;
use crate::cli::address::LogAddress;
use crate::operator::event_log;
use crate::operator::explain::logged::{Logged, LoggedError, Merged};
use crate::operator::figures::number;
use crate::operator::report::Report;

/// Findings about single shuffles, at most. The sums have all of them.
const MAX_LISTED: usize = 20;

/// Checks the application of a log: its settings, and its shuffles.
pub(super) fn all(log: &LogAddress) -> Result<Vec<Finding>, LoggedError> {
    let mut said = (Merged::default(), LoggedSettings::default());
    let outcome = event_log::read(log, &mut said)?;
    let (reports, logged) = said;
    let settings = Settings::of(logged.values, logged.spark);
    let has_settings = settings.below("spark.").next().is_some();
    let mut found = match reports.of(log, outcome) {
        Ok(logged) => of_report(logged, settings.is_embedded()),
        Err(error) if has_settings || matches!(error, LoggedError::NoReport { .. }) => {
            vec![REPORT.warning(error.to_string())]
        }
        Err(error) => return Err(error),
    };
    if has_settings {
        found.extend(configuration::all(&settings));
    } else {
        found.push(REPORT.note("the event log has no settings of the application"));
    }
    Ok(found)
}

fn of_report(logged: Logged, is_embedded: bool) -> Vec<Finding> {
    let notes = logged.notes.into_iter();
    let mut found: Vec<Finding> = notes.map(|note| REPORT.note(note)).collect();
    match Report::deserialize(logged.report) {
        Ok(record) => {
            found.extend(of_shuffles(&record));
            // The daemon of a container ends with it.
            if !is_embedded {
                found.extend(of_services(&record));
            }
        }
        Err(error) => found.push(REPORT.warning(format!("the report: {error}"))),
    }
    found
}

fn of_services(record: &Report) -> impl Iterator<Item = Finding> {
    let lost = record.services.iter().filter(|one| one.is_out_of_use());
    lost.map(|service| {
        let text = format!("{} was {} for the driver", service.host_port, service.state);
        SERVICE_AT_END.warning(text)
    })
}

fn of_shuffles(record: &Report) -> Vec<Finding> {
    let reasons = Reasons(record);
    let mut costs: Vec<_> = record
        .shuffles
        .iter()
        .flat_map(|shuffle| cost::of(shuffle, &reasons))
        .collect();
    costs.sort_by(|one, other| other.cost.total_cmp(&one.cost));
    let mut found = vec![sums(record, costs.is_empty(), &reasons)];
    let listed = costs.len().min(MAX_LISTED);
    let left = costs.len() - listed;
    found.extend(costs.into_iter().take(listed).map(|one| one.finding));
    if left > 0 {
        let text = format!("{left} findings about shuffles that lost less are left out");
        found.push(
            SUMS.note(text)
                .instead("Read all with lodestone explain --event-log FILE."),
        );
    }
    found
}

fn sums(record: &Report, is_well: bool, reasons: &Reasons<'_>) -> Finding {
    let totals = &record.totals;
    let text = format!(
        "{} shuffles: {} merged, {} remote, {} left to plain Spark; {} blocks from services, {} \
         originals, {} ms waited",
        number(totals.shuffles),
        number(totals.merged),
        number(totals.remote),
        number(totals.plain),
        number(totals.counts.merged_blocks_read),
        number(totals.counts.originals_read),
        number(totals.readers_waited_millis)
    );
    let is_used = totals.merged + totals.remote > 0;
    match remedy(record, reasons) {
        Some(remedy) if !is_used && totals.shuffles > 0 => SUMS.warning(text).instead(remedy),
        _ if is_well => SUMS.ok(format!(
            "{text}. No shuffle lost time that a key would save"
        )),
        _ => SUMS.ok(text),
    }
}

/// Returns what to do about the reason that left most shuffles to Spark, of those that can be
/// changed. Only without one the totals count: they add up blocks, services and shuffles, and a few
/// blocks of one shuffle would outweigh all shuffles.
fn remedy(record: &Report, reasons: &Reasons<'_>) -> Option<String> {
    let mut decisions = BTreeMap::new();
    let left = record.shuffles.iter().filter(|one| one.state == "plain");
    for code in left.filter_map(|one| one.decision.as_ref()) {
        *decisions.entry(code.clone()).or_insert(0) += 1;
    }
    let counts = [&decisions, &record.totals.counts.reasons];
    counts.into_iter().find_map(|counted| {
        let changeable = counted.iter().filter(|(code, _)| reasons.can_change(code));
        cost::most(changeable).map(|(code, _)| reasons.remedy(code))
    })
}
