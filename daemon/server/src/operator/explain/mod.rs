// SPDX-License-Identifier: Apache-2.0
//! `lodestone explain`: shows the reports of drivers to a person. Daemons and event logs contain
//! them.

mod comparison;
pub(super) mod logged;
mod page;

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use lodestone_model::{AppId, spark_id};
use lodestone_wire::extension::explain::{ExplainApplication, Explanation, ReportKept};
use serde::Deserialize;

use crate::cli::ExplainArgs;
use crate::cli::address::{LogAddress, printable};
use crate::operator::ask::{AskError, Asking};
use crate::operator::report::Report;
use crate::service::secrets::Secrets;

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// No service answered.
    #[error(
        "no service answered:{0}\nName the services of the application with --service, as in the log \
         of its driver"
    )]
    NoAnswer(String),
    /// Services answered, and none knows it.
    #[error(
        "no report of application {app} at {services}. A driver reports to the first {keepers} \
         services that it uses: every 5 seconds if its report has changed, and when it ends. \
         `lodestone explain` without an application lists those that a service knows"
    )]
    Unknown {
        /// The application asked for.
        app: String,
        /// The services that were asked.
        services: String,
        /// To how many services a driver reports.
        keepers: usize,
    },
    /// The report is of another kind than this program reads.
    #[error(
        "this version cannot read the report of {app} ({source}); --json shows the report as it is"
    )]
    Report {
        /// The application.
        app: String,
        /// The error.
        source: serde_json::Error,
    },
    /// An event log has no report.
    #[error(transparent)]
    EventLog(#[from] logged::LoggedError),
    /// More than can be compared.
    #[error("{0} event logs: name one, or two to compare")]
    TooManyLogs(usize),
    /// Stdout is closed.
    #[error("writing to stdout: {0}")]
    Output(#[from] io::Error),
}

/// To how many services a driver reports: `ReportSender.scala`.
const KEEPERS: usize = 3;

/// A daemon answers from memory.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// One kept report, and the service that keeps it.
struct Found {
    service: String,
    kept: ReportKept,
}

/// Shows the reports that the arguments name.
pub fn run(args: &ExplainArgs) -> Result<(), ExplainError> {
    let text = match args.event_logs.as_slice() {
        [] => asked(args)?,
        logs => logged(logs, args.json)?,
    };
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// Reads event logs. Two of them are compared.
fn logged(logs: &[LogAddress], as_json: bool) -> Result<String, ExplainError> {
    if logs.len() > 2 {
        return Err(ExplainError::TooManyLogs(logs.len()));
    }
    let (mut text, mut pages) = (String::new(), Vec::new());
    for log in logs {
        let logged = logged::read(log)?;
        for note in logged.notes {
            writeln!(io::stderr().lock(), "{}", printable(&note))?;
        }
        if as_json {
            text.push_str(&logged.report.to_string());
            text.push('\n');
        } else {
            let page =
                Report::deserialize(logged.report).map_err(|source| ExplainError::Report {
                    app: log.to_string(),
                    source,
                })?;
            let heading = format!("{}: from {log}", page.application());
            text.push_str(&page.text(&heading));
            text.push('\n');
            pages.push(page);
        }
    }
    if let [first, second] = pages.as_slice() {
        text.push_str(&comparison::text(first, second));
    }
    // A log may come from anywhere. A terminal obeys control characters.
    Ok(text.replace(|c: char| c.is_control() && c != '\n', " "))
}

/// Asks each service, and returns the newest report of each attempt.
fn asked(args: &ExplainArgs) -> Result<String, ExplainError> {
    let app = args.app.as_deref().unwrap_or_default();
    let found = newest(found(args, app)?);
    let text = match &args.app {
        None => page::list(&found),
        Some(app) if found.is_empty() => {
            return Err(ExplainError::Unknown {
                app: app.clone(),
                services: args.services.join(", "),
                keepers: KEEPERS,
            });
        }
        Some(_) if args.json => found
            .iter()
            .map(|one| format!("{}\n", one.kept.report))
            .collect(),
        Some(_) => explained(&found)?,
    };
    Ok(text)
}

fn found(args: &ExplainArgs, app: &str) -> Result<Vec<Found>, ExplainError> {
    let services = &args.services;
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for service in services {
        match ask(service, app, args.secrets.as_deref()) {
            Ok(answer) => found.extend(answer.applications.into_iter().map(|kept| Found {
                service: service.clone(),
                kept,
            })),
            Err(failure) => failures.push((service, failure)),
        }
    }
    if failures.len() == services.len() {
        let line = |(service, failure): &(&String, AskError)| format!("\n  {service}: {failure}");
        return Err(ExplainError::NoAnswer(failures.iter().map(line).collect()));
    }
    Ok(found)
}

fn ask(service: &str, app: &str, secrets: Option<&Path>) -> Result<Explanation, AskError> {
    let mut asking = Asking::connect(service, ANSWER_TIMEOUT)?;
    if let Some(path) = secrets {
        let id = AppId::new(spark_id(app)).map_err(|bad| AskError::Refused(bad.to_string()))?;
        let secret = Secrets::at(path)?.of(&id)?;
        asking.authenticate(&id, &secret.ok_or(AskError::NoSecret)?)?;
    }
    let app = app.to_owned();
    asking.ask(&ExplainApplication { app })
}

/// The last report of each attempt, else the youngest, in the order of ids.
fn newest(mut found: Vec<Found>) -> Vec<Found> {
    let key = |one: &Found| (one.kept.app.clone(), one.kept.app_attempt);
    found.sort_by_key(|one| (key(one), !one.kept.ended, one.kept.age_ms));
    found.dedup_by_key(|one| key(one));
    found
}

fn explained(found: &[Found]) -> Result<String, ExplainError> {
    let pages = found.iter().map(|one| {
        let page = Report::read(&one.kept.report).map_err(|source| ExplainError::Report {
            app: one.kept.app.to_string(),
            source,
        })?;
        Ok(page.text(&page::heading(one)))
    });
    Ok(pages
        .collect::<Result<Vec<_>, ExplainError>>()?
        .join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lodestone_model::AppAttempt;

    fn found(app: &str, ended: bool, age_ms: i64) -> Found {
        Found {
            service: format!("{age_ms}"),
            kept: ReportKept {
                app: AppId::new(app).unwrap(),
                app_attempt: AppAttempt::NONE,
                ended,
                age_ms,
                report: String::new(),
            },
        }
    }

    #[test]
    fn the_report_of_the_end_counts_and_before_it_the_youngest() {
        let all = vec![
            found("b", false, 5),
            found("a", false, 9),
            found("b", true, 7),
            found("a", false, 3),
        ];
        let left = newest(all)
            .into_iter()
            .map(|one| (one.kept.app.to_string(), one.kept.age_ms));
        let expected = [("a".to_owned(), 3), ("b".to_owned(), 7)];
        assert_eq!(left.collect::<Vec<_>>(), expected);
    }
}
