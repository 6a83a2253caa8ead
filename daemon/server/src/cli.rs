// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::config::units;
use crate::config::{Config, ConfigError, Values};

/// A shuffle service for Apache Spark: merges what map tasks push, so that reducers read a few large runs
/// instead of many small blocks.
#[derive(Debug, Parser)]
#[command(name = "lodestone", version, arg_required_else_help = true)]
pub struct Command {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the daemon. It prints one line on stdout when it is ready, and logs to stderr.
    ///
    /// SIGTERM or SIGINT end it cleanly: requests in work are answered first, then its files are removed.
    /// Remote shuffles are written out before, and left to the next start on the same directories.
    /// Example: lodestone serve --dir /disk1/lodestone,/disk2/lodestone --memory 4g
    Serve(Box<ServeArgs>),
    /// Say what became of an application's shuffles, and why.
    ///
    /// Drivers report to the services that they use, and these remember it after the application's end.
    /// Example: lodestone explain app-20260101120000-0000 --service host1:7337,host2:7337
    Explain(ExplainArgs),
    /// Take a service away without losing anything.
    ///
    /// From now on it takes nothing new, and writes out what it has in memory. It goes on serving what exists
    /// nowhere else (remote shuffles, files of executors that Spark reads through it) until that was released, and
    /// ends then. Exits with 0 when it has ended and nothing is lost, with 1 otherwise. Run it on the host of the
    /// service, for instance as a container's preStop hook.
    /// Example: lodestone drain --timeout 30m
    Drain(DrainArgs),
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Spark's application id; without it, the applications that the services know
    #[arg(value_name = "APP")]
    pub app: Option<String>,
    /// The services to ask; the newest report is shown
    #[arg(
        long = "service",
        value_name = "HOST:PORT[,HOST:PORT...]",
        value_delimiter = ',',
        default_value = "127.0.0.1:7337"
    )]
    pub services: Vec<String>,
    /// Print the report as the driver made it
    #[arg(long, requires = "app")]
    pub json: bool,
}

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The service
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7337")]
    pub service: String,
    /// Give up after this long, such as 30m; the service stays as it is [default: never]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    pub timeout: Option<Duration>,
    /// Take new work again
    #[arg(long, conflicts_with = "timeout")]
    pub cancel: bool,
}

/// Flags of `serve`. Each is also a key of the configuration file.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address and port for Spark; port 0 takes a free one [default: 0.0.0.0:7337]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Data directories, one per disk; they must exist (required here or in the file)
    #[arg(long, value_name = "DIR[,DIR...]")]
    dir: Option<String>,
    /// Memory for merged data and for bytes on their way, such as 512MiB or 4g [default: 512MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Serve /health, /metrics (Prometheus) and /status (JSON) over HTTP [default: off]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// Write the ready line into this file. Only one daemon per file serves: a second one prints the
    /// line of the first and exits with 0. Also detaches from the terminal's session
    #[arg(long, value_name = "FILE")]
    announce: Option<String>,
    /// Exit with 0 when nobody was connected for this long, such as 60s [default: never]
    #[arg(long, value_name = "DURATION")]
    idle_exit: Option<String>,
    /// Connections served at once; more are closed at once [default: 4096]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<String>,
    /// Executors may register only directories below these [default: anywhere]
    #[arg(long, value_name = "DIR[,DIR...]")]
    executor_root: Option<String>,
    /// Least severity that is logged: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Form of the log on stderr: text or json [default: text]
    #[arg(long, value_name = "FORM")]
    log_format: Option<String>,
    /// TOML file with the same keys; flags win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ServeArgs {
    /// The configuration of file and flags.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let mut values = match &self.config {
            Some(path) => Values::read(path)?,
            None => Values::default(),
        };
        for (name, flag) in self.flags() {
            if let Some(text) = flag {
                values.set(name, text);
            }
        }
        values.check()
    }

    fn flags(&self) -> [(&'static str, &Option<String>); 10] {
        [
            ("listen", &self.listen),
            ("dir", &self.dir),
            ("memory", &self.memory),
            ("admin", &self.admin),
            ("announce", &self.announce),
            ("idle-exit", &self.idle_exit),
            ("max-connections", &self.max_connections),
            ("executor-root", &self.executor_root),
            ("log-level", &self.log_level),
            ("log-format", &self.log_format),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::KEYS;
    use clap::CommandFactory;

    #[test]
    fn every_key_is_a_flag_and_every_flag_a_key() {
        let command = Command::command();
        let serve = command.find_subcommand("serve").unwrap();
        let mut flags: Vec<&str> = serve
            .get_arguments()
            .filter_map(|flag| flag.get_long())
            .collect();
        flags.retain(|flag| *flag != "config");
        let keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        flags.sort_unstable_by_key(|flag| keys.iter().position(|key| key == flag));
        assert_eq!(flags, keys);
        let parsed = Command::try_parse_from(["lodestone", "serve", "--dir", "/a"]).unwrap();
        let Verb::Serve(args) = parsed.verb else {
            panic!("another verb");
        };
        assert_eq!(args.flags().map(|(name, _)| name).to_vec(), keys);
    }

    #[test]
    fn the_defaults_in_the_help_are_those_of_the_table() {
        let mut command = Command::command();
        let serve = command.find_subcommand_mut("serve").unwrap();
        let help = serve.render_long_help().to_string();
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            assert!(
                help.contains(&format!("[default: {}]", key.default)),
                "{}",
                key.name
            );
        }
    }
}
