// SPDX-License-Identifier: Apache-2.0
//! The configuration. A field of [`Config`] is a flag and a key of the TOML file, with its type,
//! its default and its meaning. `docs/operations.md` has a table of them, and a test compares the
//! two.

pub mod values;

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};
use serde::Deserialize;
use toml::Table;

use values::{
    Address, Connections, FileName, Kept, LogFormat, LogLevel, Memory, Percentage, Time, Zone,
};
use values::{directories, directory, given, parsed, path};

/// Longest configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Every key.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Address and port for Spark. Port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:7337")]
    #[serde(deserialize_with = "parsed")]
    pub listen: Address,
    /// Data directories, one per disk, separated by commas. Required.
    #[arg(long = "dir", value_name = "DIR[,DIR...]")]
    #[arg(value_delimiter = ',', value_parser = directory)]
    #[serde(rename = "dir", deserialize_with = "directories")]
    pub dirs: Vec<PathBuf>,
    /// Memory for segments and for requests: a size of at least 16MiB, or auto.
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    #[serde(deserialize_with = "parsed")]
    pub memory: Memory,
    /// Percentage of the memory for indexes of segments that one application may take, and of that
    /// for data if there are several.
    #[arg(long, value_name = "PERCENT", default_value = "75%")]
    #[serde(deserialize_with = "parsed")]
    pub quota: Percentage,
    /// Space that the daemon leaves free on each disk: a size, or auto (5 %, at least 4GiB, and at
    /// most a quarter of the disk).
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    #[serde(deserialize_with = "parsed")]
    pub reserve: Kept,
    /// Address and port of the HTTP endpoint (/health, /metrics, /status).
    #[arg(long, value_name = "HOST:PORT")]
    #[serde(deserialize_with = "given")]
    pub admin: Option<Address>,
    /// File for the ready line of the serving daemon: one daemon per file.
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "given")]
    pub announce: Option<FileName>,
    /// The daemon ends when its standard input, a pipe or a socket, is closed. It stays in the
    /// process group that started it.
    #[arg(long)]
    pub stay: bool,
    /// The daemon ends after this long without a connection.
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "given")]
    pub idle_exit: Option<Time>,
    /// Connections served at the same time. When there are more, the daemon closes an idle one, or
    /// else one that has waited for 10 s for memory or for a client that moved less than 64 KiB.
    #[arg(long, value_name = "COUNT", default_value = "4096")]
    #[serde(deserialize_with = "parsed")]
    pub max_connections: Connections,
    /// Executors may register only directories below these absolute paths, separated by commas.
    #[arg(long = "executor-root", value_name = "DIR[,DIR...]")]
    #[arg(value_delimiter = ',', value_parser = directory)]
    #[serde(rename = "executor-root", deserialize_with = "directories")]
    pub executor_roots: Vec<PathBuf>,
    /// File with the secret of all applications, or directory with a file for each, named by its id
    /// (`default`: for all others). With it, each client must authenticate (`spark.authenticate`).
    #[arg(long, value_name = "PATH", value_parser = directory)]
    #[serde(deserialize_with = "path")]
    pub secrets: Option<PathBuf>,
    /// File with the daemon's certificate and those that have signed it, in PEM: for clients that
    /// begin with TLS (`spark.ssl.rpc.enabled`).
    #[arg(long, value_name = "FILE", value_parser = directory)]
    #[serde(deserialize_with = "path")]
    pub tls_cert: Option<PathBuf>,
    /// File with the key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", value_parser = directory)]
    #[serde(deserialize_with = "path")]
    pub tls_key: Option<PathBuf>,
    /// Clients must encrypt: with TLS, or as they authenticate (`spark.network.crypto.enabled`).
    #[arg(long)]
    pub encrypted_only: bool,
    /// Zone or rack of this host, as on other services that fail together with it. Both replicas of
    /// a partition are in different zones if no zone has more than two thirds of the services
    /// (with near reads: half). Empty: none.
    #[arg(long, value_name = "NAME")]
    #[serde(deserialize_with = "given")]
    pub zone: Option<Zone>,
    /// Lowest severity that is logged: error, warn, info, debug, trace.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        hide_possible_values = true
    )]
    pub log_level: LogLevel,
    /// Format of the log on stderr: text or json.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    pub log_format: LogFormat,
}

/// An error in the configuration, in a sentence that says what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A key that does not exist.
    #[error("{origin}: there is no key `{key}`; did you mean `{nearest}`?")]
    UnknownKey {
        /// The file.
        origin: String,
        /// The key.
        key: String,
        /// The known key that is spelled most alike.
        nearest: String,
    },
    /// A value that makes no sense.
    #[error("{origin}: `{key}`: {problem}")]
    BadValue {
        /// The file.
        origin: String,
        /// The key.
        key: String,
        /// The error, and the correct form.
        problem: String,
    },
    /// A file that cannot be read now.
    #[error("--config {path}: {problem}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error.
        problem: String,
    },
    /// A file that is no configuration.
    #[error("--config {path}: {problem}")]
    BadFile {
        /// The file.
        path: String,
        /// The error.
        problem: String,
    },
    /// Neither the file nor the command line has a data directory.
    #[error("`dir`: name at least one data directory, as in `--dir /data/lodestone`")]
    NoDirectory,
    /// A root of executors that no directory can be below.
    #[error(
        "`executor-root`: `{0}` is no absolute path, such as /data1/local; a file:// URI is none \
         either"
    )]
    NoRoot(String),
    /// Encryption without secrets.
    #[error(
        "`encrypted-only`: clients encrypt with TLS, or with keys upon which they agree by a secret: \
         name a certificate (`--tls-cert`, `--tls-key`) or secrets (`--secrets`)"
    )]
    NoSecrets,
    /// A certificate without its key, or the other way round.
    #[error("`tls-cert` and `tls-key` are given together or not at all")]
    HalfOfTls,
    /// The command line, which was checked before, does not fit the keys.
    #[error("{0}")]
    Flags(String),
}

/// Flags of `serve`: every key, and the file for keys that are not given as flags.
#[derive(Debug, Clone)]
pub struct ServeArgs {
    flags: ArgMatches,
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct FileArg {
    /// TOML file with the same keys; flags win.
    #[arg(long = "config", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Args for ServeArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        FileArg::augment_args(Config::augment_args(command))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let FileArg { file } = FileArg::from_arg_matches(matches)?;
        let flags = matches.clone();
        Ok(Self { flags, file })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ServeArgs {
    /// The configuration of file and flags.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let file = match &self.file {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        file.with(&self.flags)?.checked()
    }

    /// Returns the secrets that a flag names, also if the flags name no daemon.
    pub fn secrets(&self) -> Option<PathBuf> {
        self.flags.get_one("secrets").cloned()
    }

    /// Returns a flag of the command line that only a daemon has a use for.
    pub fn flag_of_daemon(&self) -> Option<String> {
        let command = arguments();
        let is_given = |id: &str| self.flags.value_source(id) == Some(ValueSource::CommandLine);
        let given = command.get_arguments().find(|flag| {
            let id = flag.get_id().as_str();
            id != "secrets" && is_given(id)
        });
        given?.get_long().map(str::to_owned)
    }
}

/// The defaults, which the attributes of the fields have.
impl Default for Config {
    fn default() -> Self {
        let no_flags = arguments().get_matches_from([""]);
        match Self::from_arg_matches(&no_flags) {
            Ok(defaults) => defaults,
            Err(error) => unreachable!("a default that is no value: {error}"),
        }
    }
}

impl Config {
    /// Reads a TOML file.
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let unreadable = |error: std::io::Error| ConfigError::Unreadable {
            path: name.clone(),
            problem: error.to_string(),
        };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX {
            return Err(ConfigError::BadFile {
                path: name,
                problem: format!("{size} bytes are too many for a configuration"),
            });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text, &name)
    }

    /// Reads TOML; errors name `origin`.
    fn parse(text: &str, origin: &str) -> Result<Self, ConfigError> {
        let bad = |error: toml::de::Error| ConfigError::BadFile {
            path: origin.to_owned(),
            problem: error.to_string(),
        };
        let table: Table = text.parse().map_err(bad)?;
        let known = keys();
        for (key, value) in &table {
            if !known.contains(key) {
                return Err(ConfigError::UnknownKey {
                    origin: origin.to_owned(),
                    key: key.clone(),
                    nearest: nearest(key, known),
                });
            }
            // Alone, so that the error can name its key.
            let alone = Table::from_iter([(key.clone(), value.clone())]);
            alone
                .try_into::<Self>()
                .map_err(|error| ConfigError::BadValue {
                    origin: origin.to_owned(),
                    key: key.clone(),
                    problem: error.message().to_owned(),
                })?;
        }
        table.try_into().map_err(bad)
    }

    /// With those flags that the command line has.
    fn with(mut self, flags: &ArgMatches) -> Result<Self, ConfigError> {
        let wrong = |error: &dyn std::fmt::Display| ConfigError::Flags(error.to_string());
        let mut given = flags.clone();
        let defaults = flags.ids().map(|id| id.as_str());
        for id in defaults.filter(|id| flags.value_source(id) == Some(ValueSource::DefaultValue)) {
            given.try_clear_id(id).map_err(|error| wrong(&error))?;
        }
        self.update_from_arg_matches(&given)
            .map_err(|error| wrong(&error))?;
        Ok(self)
    }

    fn checked(mut self) -> Result<Self, ConfigError> {
        self.zone = self.zone.filter(|zone| !zone.0.is_empty());
        if self.dirs.is_empty() {
            return Err(ConfigError::NoDirectory);
        }
        let mut roots = self.executor_roots.iter();
        if let Some(root) = roots.find(|root| !root.is_absolute()) {
            return Err(ConfigError::NoRoot(root.display().to_string()));
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(ConfigError::HalfOfTls);
        }
        if self.encrypted_only && self.secrets.is_none() && self.tls_cert.is_none() {
            return Err(ConfigError::NoSecrets);
        }
        Ok(self)
    }
}

/// The keys as flags.
fn arguments() -> clap::Command {
    Config::augment_args(clap::Command::new("serve"))
}

fn keys() -> Vec<String> {
    let command = arguments();
    let names = command.get_arguments().filter_map(|flag| flag.get_long());
    names.map(str::to_owned).collect()
}

/// The known key that is spelled most alike.
fn nearest(key: &str, known: Vec<String>) -> String {
    let distance = |other: &String| strsim::damerau_levenshtein(key, other);
    known.into_iter().min_by_key(distance).unwrap_or_default()
}

#[cfg(test)]
mod tests;
