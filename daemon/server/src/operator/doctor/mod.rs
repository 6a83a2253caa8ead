// SPDX-License-Identifier: Apache-2.0
//! `lodestone doctor`: looks for what keeps shuffles from Lodestone, before a job or after it.

mod certificates;
mod configuration;
mod disk_time;
mod finding;
mod host;
mod job;
mod properties;
mod services;
mod settings;
mod sizing;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use crate::cli::DoctorArgs;
use crate::config::ConfigError;
use crate::operator::conf::release;
use crate::operator::explain::logged::LoggedError;
use finding::Finding;
use host::Host;
use services::Clients;
use settings::{Settings, SettingsError};

/// Why nothing was checked.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// Nothing is named.
    #[error(
        "nothing to check: name settings with --conf FILE, services with --services HOST:PORT, the \
         directories of a daemon with --dir DIR, or an application that has run with --event-log \
         FILE"
    )]
    Nothing,
    /// The settings cannot be read.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The event log cannot be read.
    #[error(transparent)]
    EventLog(#[from] LoggedError),
    /// Stdout is closed.
    #[error("writing to stdout: {0}")]
    Output(#[from] io::Error),
}

impl DoctorError {
    /// The exit code, which is that of errors.
    pub fn code(&self) -> u8 {
        2
    }
}

/// Checks what the arguments name, and prints what it finds. Returns the exit code.
pub fn run(args: &DoctorArgs) -> Result<u8, DoctorError> {
    let found = checked(args, &Host::default())?;
    let text = match args.json {
        true => finding::json(&found),
        false => finding::text(&found),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(finding::exit_code(&found))
}

fn checked(args: &DoctorArgs, host: &Host) -> Result<Vec<Finding>, DoctorError> {
    let config = args.daemon.config();
    let flag = args.daemon.flag_of_daemon();
    let has_daemon = flag.is_some() || !matches!(config, Err(ConfigError::NoDirectory));
    let mut found = Vec::new();
    if let Some(log) = &args.event_log {
        found.extend(job::all(log)?);
    } else if args.conf.is_empty() && args.services.is_none() && !has_daemon {
        return Err(DoctorError::Nothing);
    }
    let settings = settings(args, host)?;
    if let Some(settings) = &settings {
        found.extend(configuration::all(settings));
        found.extend(settings.known(|settings| host::of_plugin(host, settings)));
        found.extend(settings.known(host::certificate_of_spark));
    }
    found.extend(of_services(args, settings.as_ref()));
    found.extend(host::of_daemon(host, config, flag.as_deref()));
    Ok(found)
}

fn of_services(args: &DoctorArgs, settings: Option<&Settings>) -> Vec<Finding> {
    let of_settings = settings.and_then(|settings| settings.get("spark.lodestone.services"));
    let listed = args.services.as_deref().or(of_settings).unwrap_or_default();
    if listed.is_empty() {
        return Vec::new();
    }
    let clients = Clients {
        // How the application authenticates is not known then.
        settings: settings.filter(|settings| !settings.has_references(&services::READ)),
        secrets: args.daemon.secrets(),
        admin_port: args.admin_port,
    };
    services::all(listed, &clients)
}

/// Returns the settings of `--conf`, for the Spark of this host.
fn settings(args: &DoctorArgs, host: &Host) -> Result<Option<Settings>, SettingsError> {
    if args.conf.is_empty() {
        return Ok(None);
    }
    let mut settings = Settings::named(&args.conf)?;
    if let Ok(here) = release::in_home(host.spark_home.as_deref()) {
        settings.spark = Some(here.version);
        settings.scala = here.scala;
        settings.spark_home.clone_from(&host.spark_home);
    }
    Ok(Some(settings))
}
