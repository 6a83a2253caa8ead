// SPDX-License-Identifier: Apache-2.0
//! The places where an event log may be.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;

/// Where an event log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogAddress {
    /// A file, or the directory of a rolling log.
    Path(PathBuf),
    /// A History Server.
    History(HistoryAddress),
}

/// An application in a History Server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryAddress {
    /// The address of the server, without a slash at its end.
    pub(crate) server: String,
    pub(crate) application: String,
    pub(crate) attempt: Option<String>,
}

/// Why a text is no address of a log.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The address of a server without an application.
    #[error(
        "{0} names no application: copy the address of its page in the History Server, as in \
         http://host:18080/history/app-20260101120000-0000/jobs/"
    )]
    NoApplication(String),
    /// Other users of the host see the arguments of a command. No message repeats the address.
    #[error(
        "the address has a user or a password before its @: leave them out. This command does not \
         log in; if the server wants a login, copy the log and name the file"
    )]
    Credentials,
    /// The place of a log in another file system.
    #[error(
        "logs at {0}: cannot be read from here: copy the log and name the file, or name the \
         application's page in the History Server"
    )]
    Scheme(String),
}

impl FromStr for LogAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some((scheme, after)) = scheme_of(text) else {
            return Ok(Self::Path(PathBuf::from(text)));
        };
        let host = after.trim_start_matches('/').split(['/', '?', '#']).next();
        if scheme != "file" && host.is_some_and(|host| host.contains('@')) {
            return Err(AddressError::Credentials);
        }
        match scheme.as_str() {
            "file" => return Ok(Self::Path(PathBuf::from(file_of(after)))),
            "http" | "https" => {}
            _ => return Err(AddressError::Scheme(scheme)),
        }
        let none = || AddressError::NoApplication(text.to_owned());
        // A proxy may put the server below a path of its own.
        let address = text.split(['?', '#']).next().unwrap_or_default();
        let (server, rest) = address.rsplit_once("/history/").ok_or_else(none)?;
        let mut parts = rest.split('/');
        let application = parts.next().filter(|name| !name.is_empty());
        let application = application.ok_or_else(none)?.to_owned();
        // Pages have names, and attempts have numbers.
        let attempt = parts.next().filter(|part| part.parse::<u32>().is_ok());
        Ok(Self::History(HistoryAddress {
            server: server.trim_end_matches('/').to_owned(),
            application,
            attempt: attempt.map(str::to_owned),
        }))
    }
}

/// Returns the scheme of an address, and what follows its colon. A path may have a colon too.
fn scheme_of(text: &str) -> Option<(String, &str)> {
    let (scheme, after) = text.split_once(':')?;
    let is_word = scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric());
    let scheme = scheme.to_ascii_lowercase();
    let is_address = after.starts_with("//") || (scheme == "file" && after.starts_with('/'));
    (is_word && is_address).then_some((scheme, after))
}

/// Returns the path in what follows `file:`, with or without a host.
fn file_of(after: &str) -> &str {
    match after.strip_prefix("//") {
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
        None => after,
    }
}

/// Reads an address on the command line. A path need not be UTF-8.
#[derive(Debug, Clone)]
pub struct AddressParser;

impl ValueParserFactory for LogAddress {
    type Parser = AddressParser;

    fn value_parser() -> AddressParser {
        AddressParser
    }
}

impl TypedValueParser for AddressParser {
    type Value = LogAddress;

    /// Makes an error of its own: clap's would repeat the address with its password.
    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<LogAddress, clap::Error> {
        let Some(text) = value.to_str() else {
            return Ok(LogAddress::Path(PathBuf::from(value)));
        };
        text.parse().map_err(|error: AddressError| {
            let said = format!("{}\n", printable(&error.to_string()));
            clap::Error::raw(ErrorKind::ValueValidation, said).with_cmd(command)
        })
    }
}

/// Returns a text without control characters, which a terminal would obey: names in logs and
/// answers of servers may come from anywhere.
#[must_use]
pub fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', " ")
}

impl fmt::Display for LogAddress {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(text),
            Self::History(address) => address.fmt(text),
        }
    }
}

impl fmt::Display for HistoryAddress {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}/history/{}", self.server, self.application)?;
        match &self.attempt {
            Some(attempt) => write!(text, "/{attempt}"),
            None => Ok(()),
        }
    }
}
