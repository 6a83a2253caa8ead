// SPDX-License-Identifier: Apache-2.0
//! The places where an event log may be.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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

/// The address of a server without an application.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} names no application: copy the address of its page in the History Server, as in \
     http://host:18080/history/app-20260101120000-0000/jobs/"
)]
pub struct NoApplication(String);

impl FromStr for LogAddress {
    type Err = NoApplication;

    fn from_str(text: &str) -> Result<Self, NoApplication> {
        let lower = text.to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            return Ok(Self::Path(PathBuf::from(text)));
        }
        let none = || NoApplication(text.to_owned());
        // A proxy may put the server below a path of its own.
        let (server, rest) = text.split_once("/history/").ok_or_else(none)?;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
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
