// SPDX-License-Identifier: Apache-2.0
//! The configuration: one table of keys, read from a TOML file and from flags of the same names; flags
//! win. `docs/operations.md` has the same table, and a test compares the two.

pub mod units;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use units::{duration, size};

/// Least memory that the daemon can work with.
const MIN_MEMORY_BYTES: u64 = 16 << 20;

/// Longest configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A key, as flag `--name` and as TOML key `name`.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// What holds if it is not given; empty if there is no default.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

const fn key(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key {
        name,
        default,
        meaning,
    }
}

/// Every key.
pub const KEYS: [Key; 10] = [
    key(
        "listen",
        "0.0.0.0:7337",
        "Address and port for Spark. Port 0 takes a free one.",
    ),
    key(
        "dir",
        "",
        "Data directories, one per disk, separated by commas. Required.",
    ),
    key(
        "memory",
        "512MiB",
        "Memory for segments and for requests: a size of at least 16MiB, or auto.",
    ),
    key(
        "admin",
        "",
        "Address and port of the HTTP endpoint (/health, /metrics, /status).",
    ),
    key(
        "announce",
        "",
        "File for the ready line of the serving daemon: one daemon per file.",
    ),
    key(
        "idle-exit",
        "",
        "The daemon ends after this long without a connection.",
    ),
    key(
        "max-connections",
        "4096",
        "Connections served at the same time; further ones are closed immediately.",
    ),
    key(
        "executor-root",
        "",
        "Executors may register only directories below these, separated by commas.",
    ),
    key(
        "log-level",
        "info",
        "Lowest severity that is logged: error, warn, info, debug, trace.",
    ),
    key(
        "log-format",
        "text",
        "Format of the log on stderr: text or json.",
    ),
];

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one object per line.
    Json,
}

/// The memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// A little, and what the host can spare.
    Auto,
}

/// The checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where Spark connects.
    pub listen: SocketAddr,
    /// Data directories.
    pub dirs: Vec<PathBuf>,
    /// The memory budget.
    pub memory: Memory,
    /// Where operators connect.
    pub admin: Option<SocketAddr>,
    /// The announce file.
    pub announce: Option<PathBuf>,
    /// When to end without connections.
    pub idle_exit: Option<Duration>,
    /// Connections served at once.
    pub max_connections: usize,
    /// Where executors' directories may be.
    pub executor_roots: Vec<PathBuf>,
    /// Least severity that is logged.
    pub log_level: tracing::Level,
    /// Form of the log.
    pub log_format: LogFormat,
}

/// What is wrong with the configuration, in a sentence that says what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A key that does not exist.
    #[error("{place}: there is no key `{key}`; did you mean `{nearest}`?")]
    UnknownKey {
        /// Where it stands.
        place: String,
        /// The key.
        key: String,
        /// The known key that is spelled most alike.
        nearest: &'static str,
    },
    /// A value that makes no sense.
    #[error("`{key}`: {problem}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// A file that cannot be read.
    #[error("--config {path}: {problem}")]
    BadFile {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

/// Values by key, before they are checked.
#[derive(Debug, Default)]
pub struct Values(BTreeMap<&'static str, Vec<String>>);

impl Values {
    /// Sets a key, over what it was before. Commas separate the elements of a list.
    pub fn set(&mut self, name: &'static str, value: &str) {
        self.0.insert(
            name,
            value
                .split(',')
                .map(|part| part.trim().to_owned())
                .collect(),
        );
    }

    /// Reads a TOML file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let bad = |problem: String| ConfigError::BadFile {
            path: path.display().to_string(),
            problem,
        };
        let size = std::fs::metadata(path)
            .map_err(|error| bad(error.to_string()))?
            .len();
        if size > FILE_BYTES_MAX {
            return Err(bad(format!(
                "{size} bytes are too many for a configuration"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads TOML; `place` is named in errors.
    pub fn parse(text: &str, place: &str) -> Result<Self, ConfigError> {
        let bad = |problem: String| ConfigError::BadFile {
            path: place.to_owned(),
            problem,
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| bad(error.to_string()))?;
        let mut values = Self::default();
        for (name, value) in table {
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let nearest = nearest(&name);
                return Err(ConfigError::UnknownKey {
                    place: place.into(),
                    key: name,
                    nearest,
                });
            };
            let elements = match value {
                toml::Value::Array(elements) => elements,
                single => vec![single],
            };
            let texts = elements.into_iter().map(|element| match element {
                toml::Value::String(text) => Ok(text),
                toml::Value::Integer(number) => Ok(number.to_string()),
                _ => Err(bad(format!(
                    "`{name}` must be a string, a number or a list of strings"
                ))),
            });
            values.0.insert(key.name, texts.collect::<Result<_, _>>()?);
        }
        Ok(values)
    }

    fn list(&self, name: &'static str) -> Vec<PathBuf> {
        let given = self.0.get(name).into_iter().flatten();
        given
            .filter(|part| !part.is_empty())
            .map(PathBuf::from)
            .collect()
    }

    /// The value, or the default, or nothing.
    fn one<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let default = KEYS
            .iter()
            .find(|key| key.name == name)
            .map_or("", |key| key.default);
        let given = self.0.get(name).map(Vec::as_slice);
        let text = match given {
            None => default,
            Some([one]) => one,
            Some(_) => return Err(bad_value(name, "takes one value, not a list".to_owned())),
        };
        if text.is_empty() {
            return Ok(None);
        }
        read(text)
            .map(Some)
            .map_err(|problem| bad_value(name, problem))
    }

    fn needed<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.one(name, read)?
            .ok_or_else(|| bad_value(name, "must not be empty".to_owned()))
    }

    /// Checks every value.
    pub fn check(&self) -> Result<Config, ConfigError> {
        let dirs = self.list("dir");
        if dirs.is_empty() {
            let problem = "name at least one data directory, as in `--dir /data/lodestone`";
            return Err(bad_value("dir", problem.to_owned()));
        }
        Ok(Config {
            listen: self.needed("listen", address)?,
            dirs,
            memory: self.needed("memory", memory)?,
            admin: self.one("admin", address)?,
            announce: self.one("announce", |text| Ok(PathBuf::from(text)))?,
            idle_exit: self.one("idle-exit", duration)?,
            max_connections: self.needed("max-connections", connections)?,
            executor_roots: self.list("executor-root"),
            log_level: self.needed("log-level", |text| {
                text.parse()
                    .map_err(|_| format!("`{text}` is none of error, warn, info, debug, trace"))
            })?,
            log_format: self.needed("log-format", |text| match text {
                "text" => Ok(LogFormat::Text),
                "json" => Ok(LogFormat::Json),
                other => Err(format!("`{other}` is neither text nor json")),
            })?,
        })
    }
}

fn bad_value(key: &'static str, problem: String) -> ConfigError {
    ConfigError::BadValue { key, problem }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let hint = "write HOST:PORT, as in 0.0.0.0:7337";
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("`{text}`: {error}; {hint}"))?;
    found
        .next()
        .ok_or_else(|| format!("`{text}` has no address; {hint}"))
}

fn memory(text: &str) -> Result<Memory, String> {
    if text == "auto" {
        return Ok(Memory::Auto);
    }
    let bytes = size(text).map_err(|problem| format!("{problem}, or auto"))?;
    if bytes < MIN_MEMORY_BYTES {
        return Err("must be at least 16MiB, or auto".to_owned());
    }
    Ok(Memory::Bytes(bytes))
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err(format!("`{text}` is no number from 1 to 1000000")),
    }
}

/// The known key that is spelled most alike.
fn nearest(name: &str) -> &'static str {
    let names = KEYS.iter().map(|key| key.name);
    names
        .min_by_key(|known| distance(name, known))
        .unwrap_or_default()
}

/// Letters to add, drop or change to make one word of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (start, letter) in from.chars().enumerate() {
        let mut diagonal = start;
        let mut left = start + 1;
        let mut next = vec![left];
        for (other, &above) in to.iter().zip(row.iter().skip(1)) {
            let changed = diagonal + usize::from(*other != letter);
            left = changed.min(above + 1).min(left + 1);
            diagonal = above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
