// SPDX-License-Identifier: Apache-2.0
//! Types of values. A flag and a key of the file are both text (or a number) and are read by the
//! same `FromStr`; its error contains the correct form.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use lodestone_store::Reserve;
use lodestone_units::{duration, size};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Value;

/// Least memory that the daemon can work with.
const MIN_MEMORY_BYTES: u64 = 16 << 20;

/// Longest name of a zone: clients get it with each greeting.
const MAX_ZONE_CHARS: usize = 100;

/// An address of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self(address));
        }
        let hint = "write HOST:PORT, as in 0.0.0.0:7337 or [::]:7337";
        let mut found = text
            .to_socket_addrs()
            .map_err(|error| format!("`{text}`: {error}; {hint}"))?;
        let first = found.next();
        first
            .map(Self)
            .ok_or_else(|| format!("`{text}` has no address; {hint}"))
    }
}

/// The memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// A little, and as much more as the host can spare.
    Auto,
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let bytes = size(text).map_err(|problem| format!("{problem}, or auto"))?;
        if bytes < MIN_MEMORY_BYTES {
            return Err("must be at least 16MiB, or auto".to_owned());
        }
        Ok(Self::Bytes(bytes))
    }
}

/// Space that stays free on each disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept(pub Reserve);

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(Reserve::Auto));
        }
        let bytes = size(text).map_err(|problem| format!("{problem}, or auto"))?;
        Ok(Self(Reserve::Bytes(bytes)))
    }
}

/// A percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentage(pub u8);

impl FromStr for Percentage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').map(|number| number.trim().parse());
        match number {
            Some(Ok(percent @ 1..=100)) => Ok(Self(percent)),
            _ => Err(format!(
                "`{text}` is no percentage from 1% to 100%, such as 75%"
            )),
        }
    }
}

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        duration(text).map(Self)
    }
}

/// A number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections(pub usize);

impl FromStr for Connections {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count @ 1..=1_000_000) => Ok(Self(count)),
            _ => Err(format!("`{text}` is no number from 1 to 1000000")),
        }
    }
}

/// The name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName(pub PathBuf);

impl FromStr for FileName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("an empty name is no file".to_owned()),
            _ => Ok(Self(text.into())),
        }
    }
}

/// The name of a part of a cluster that fails as a whole. It may be empty: a pod cannot know that
/// its node has no zone before its arguments are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(pub String);

impl FromStr for Zone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name =
            text.len() <= MAX_ZONE_CHARS && text.chars().all(|char| char.is_ascii_graphic());
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "`{text}` is no name of at most {MAX_ZONE_CHARS} ASCII characters without spaces, such \
             as eu-west-1a"
        ))
    }
}

/// The lowest severity that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Trouble that an operator must repair.
    Error,
    /// Trouble that costs speed or data of remote shuffles.
    Warn,
    /// Rare events.
    Info,
    /// An event for each request.
    Debug,
    /// Everything.
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one object per line.
    Json,
}

/// An element of a list that the command line separates by commas.
pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    match text.trim() {
        "" => Err("an empty name is no directory".to_owned()),
        name => Ok(name.into()),
    }
}

/// A value of the file.
pub(super) fn parsed<'de, D, T>(file: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    text(Value::deserialize(file)?)
        .and_then(|text| text.parse())
        .map_err(Error::custom)
}

/// A value of the file for a key without a default.
pub(super) fn given<'de, D, T>(file: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    parsed(file).map(Some)
}

/// A path of the file.
pub(super) fn path<'de, D>(file: D) -> Result<Option<PathBuf>, D::Error>
where
    D: Deserializer<'de>,
{
    let path = text(Value::deserialize(file)?).and_then(|text| directory(&text));
    path.map(Some).map_err(Error::custom)
}

/// A list of the file, or its only element.
pub(super) fn directories<'de, D>(file: D) -> Result<Vec<PathBuf>, D::Error>
where
    D: Deserializer<'de>,
{
    let elements = match Value::deserialize(file)? {
        Value::Array(elements) => elements,
        single => vec![single],
    };
    let directory = |element| text(element).and_then(|text| directory(&text));
    let all: Result<_, _> = elements.into_iter().map(directory).collect();
    all.map_err(Error::custom)
}

fn text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Array(_) => Err("takes one value, not a list".to_owned()),
        _ => Err("must be a string, a number or a list of strings".to_owned()),
    }
}
