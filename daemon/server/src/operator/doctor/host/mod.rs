// SPDX-License-Identifier: Apache-2.0
//! Checks of this host: for a daemon with these flags of `lodestone serve`, or for one that the
//! plugin would start here. Nothing stays changed.

mod certificates;
pub(super) mod checks;
mod directories;
mod network;
mod speed;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use self::checks::{FILES, FLAGS, MEMORY};
use super::finding::Finding;
use super::settings::Settings;
use super::sizing::{Encrypted, beside, of_connections};
use crate::config::values::Memory;
use crate::config::{Config, ConfigError};
use crate::operator::figures::megabytes;
use crate::process::files;
use crate::process::memory::{Kernel, LEAST_BYTES};

/// Where the host says what it is.
pub(super) struct Host {
    kernel: Kernel,
    /// The program that knows whether the clock is right.
    clock: PathBuf,
    /// Where the plugin looks if no key names local directories.
    local_dirs: Option<String>,
    /// Where an executor of Spark's own cluster looks before that, with colons.
    executor_dirs: Option<String>,
    /// Where Spark is.
    pub(super) spark_home: Option<PathBuf>,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            kernel: Kernel::default(),
            clock: "timedatectl".into(),
            local_dirs: std::env::var("SPARK_LOCAL_DIRS").ok(),
            executor_dirs: std::env::var("SPARK_EXECUTOR_DIRS").ok(),
            spark_home: std::env::var_os("SPARK_HOME").map(PathBuf::from),
        }
    }
}

#[cfg(test)]
impl Host {
    /// Returns this host, with Spark in a folder.
    pub(super) fn with_spark(home: &std::path::Path) -> Self {
        let spark_home = Some(home.to_owned());
        Self {
            spark_home,
            ..Self::default()
        }
    }
}

/// Checks this host for a daemon with these flags, of which one is named. Nothing, if they name no
/// daemon.
pub(super) fn of_daemon(
    host: &Host,
    config: Result<Config, ConfigError>,
    flag: Option<&str>,
) -> Vec<Finding> {
    let config = match (config, flag) {
        (Ok(config), _) => config,
        (Err(ConfigError::NoDirectory), None) => return Vec::new(),
        (Err(ConfigError::NoDirectory), Some(flag)) => {
            let text = format!("--{flag} is there, and --dir is missing: this host is not checked");
            let remedy = "Name the data directories of the daemon with --dir.";
            return vec![FLAGS.error(text).instead(remedy)];
        }
        (Err(error), _) => return vec![FLAGS.error(error.to_string())],
    };
    let mut found = directories::all(&config);
    found.push(memory(host, &config));
    found.push(open_files(config.max_connections.0, files::hard_limit()));
    found.extend(certificates::of_daemon(&config));
    found.extend(network::ports(&config));
    found.push(network::clock(host));
    found
}

/// Checks the certificate of Spark, if it is on this host.
pub(super) fn certificate_of_spark(settings: &Settings) -> Vec<Finding> {
    certificates::of_spark(settings)
}

/// Checks where the plugin would start its daemon on this host, if executors run here.
pub(super) fn of_plugin(host: &Host, settings: &Settings) -> Vec<Finding> {
    // Containers of YARN and pods have directories of their own.
    let is_elsewhere = settings.is_yarn() || settings.is_kubernetes();
    if !settings.is_embedded() || is_elsewhere {
        return Vec::new();
    }
    if let Some(program) = settings.get("spark.lodestone.embedded.binary") {
        return directories::of_plugin(program.into(), directories::program);
    }
    let listed = host.local_dirs.as_deref();
    let listed = listed
        .or_else(|| settings.get("spark.local.dir"))
        .unwrap_or("/tmp");
    let (listed, between) = match &host.executor_dirs {
        Some(dirs) => (dirs.as_str(), ':'),
        None => (listed, ','),
    };
    let first = listed
        .split(between)
        .map(str::trim)
        .find(|dir| !dir.is_empty());
    first.map_or_else(Vec::new, |dir| {
        directories::of_plugin(dir.into(), directories::noexec)
    })
}

fn memory(host: &Host, config: &Config) -> Finding {
    let budget = match config.memory {
        Memory::Bytes(bytes) => bytes,
        Memory::Auto => LEAST_BYTES,
    };
    let encrypted = match (&config.tls_cert, &config.secrets) {
        (Some(_), _) => Encrypted::Tls,
        (None, Some(_)) => Encrypted::Secret,
        (None, None) => Encrypted::No,
    };
    let connections = of_connections(config.max_connections.0, encrypted);
    let needed = budget
        .saturating_add(beside(budget))
        .saturating_add(connections);
    let limits = [
        ("the control group", host.kernel.limit_of_groups()),
        ("this host", host.kernel.total()),
    ];
    let least = limits
        .into_iter()
        .filter_map(|(of, limit)| Some((limit?, of)))
        .min();
    let needs = format!(
        "--memory is {}, and the daemon needs up to {} in all",
        megabytes(budget),
        megabytes(needed)
    );
    match least {
        Some((limit, of)) if limit < needed => {
            let text = format!("{needs}, and the limit of {of} is {}", megabytes(limit));
            MEMORY.error(text)
        }
        Some((limit, of)) => MEMORY.ok(format!(
            "{needs}; the limit of {of} is {}",
            megabytes(limit)
        )),
        None => MEMORY.note(format!(
            "{needs}; the kernel does not say how much there is"
        )),
    }
}

fn open_files(connections: usize, limit: Option<u64>) -> Finding {
    let needed = files::needed(connections);
    match limit {
        Some(limit) if limit < needed => FILES.warning(format!(
            "{limit} files may be open, and {connections} connections need {needed}"
        )),
        limit => {
            let limit = limit.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string());
            FILES.ok(format!(
                "{limit} files may be open, and {connections} connections need {needed}"
            ))
        }
    }
}
