// SPDX-License-Identifier: Apache-2.0
//! `lodestone plan`: what Lodestone would have done with the shuffles of an application that ran on
//! plain Spark, from its event log.

mod application;
mod cost;
mod events;
mod exchanges;
mod outcome;
mod page;
mod range;
mod rule;
mod shuffles;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use super::event_log::{self, EventLogError};
use crate::cli::PlanArgs;
use crate::cli::address::printable;
use application::Application;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The log cannot be read.
    #[error(transparent)]
    EventLog(#[from] EventLogError),
    /// It is no log, or has only its beginning.
    #[error(
        "{0} has no stage: name the event log of an application that ran a job (spark.eventLog.dir)"
    )]
    NoStage(String),
    /// Blocks and their sizes are not plain Spark's.
    #[error("{from} is of an application with {manager}, and not of plain Spark{hint}")]
    OtherManager {
        /// The log.
        from: String,
        /// The value of `spark.shuffle.manager`.
        manager: String,
        /// What to do.
        hint: &'static str,
    },
    /// The plan as JSON.
    #[error("writing JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Stdout is closed.
    #[error("writing to stdout: {0}")]
    Output(#[from] io::Error),
}

/// Spark's own manager, by its names.
const SORT: [&str; 3] = [
    "sort",
    "tungsten-sort",
    "org.apache.spark.shuffle.sort.SortShuffleManager",
];

/// Prints the plan of the log that the arguments name.
pub fn run(args: &PlanArgs) -> Result<(), PlanError> {
    let mut application = Application::default();
    let outcome = event_log::read(&args.event_log, &mut application)?;
    let from = args.event_log.to_string();
    let mut notes = outcome.notes;
    if application.stages.is_empty() {
        return Err(match outcome.failure {
            Some(failure) => failure.into(),
            None => PlanError::NoStage(from),
        });
    }
    if let Some(manager) = application.settings.get("spark.shuffle.manager")
        && !SORT.iter().any(|name| name.eq_ignore_ascii_case(manager))
    {
        let hint = if manager.to_ascii_lowercase().contains("lodestone") {
            ". `lodestone explain --event-log` shows what Lodestone did"
        } else {
            ": run it once with Spark's own shuffle manager"
        };
        let manager = manager.clone();
        return Err(PlanError::OtherManager {
            from,
            manager,
            hint,
        });
    }
    if application.damaged > 0 {
        notes.push(format!("{} events were damaged.", application.damaged));
    }
    if application.exchanges.left_out > 0 {
        notes.push("Exchanges are too many: some are left out.".to_owned());
    }
    if application.left_out > 0 {
        let count = application.left_out;
        notes.push(format!(
            "{count} stages or tasks are too many, and left out."
        ));
    }
    let plan = outcome::of(&application, args);
    for note in notes {
        writeln!(io::stderr().lock(), "{}", printable(&note))?;
    }
    let text = if args.json {
        serde_json::to_string(&plan)? + "\n"
    } else {
        printable(&page::text(&plan, &from))
    };
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}
