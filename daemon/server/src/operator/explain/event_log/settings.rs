// SPDX-License-Identifier: Apache-2.0
//! The settings of an application, and its Spark, from an event log.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{EventLogError, files, read_file};

/// The lines with them.
const MARKS: [&[u8]; 2] = [
    br#"{"Event":"SparkListenerLogStart""#,
    br#"{"Event":"SparkListenerEnvironmentUpdate""#,
];

/// One of these lines. Spark removes the secrets from the settings before it writes them.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Spark Version")]
    version: Option<String>,
    #[serde(rename = "Spark Properties")]
    properties: Option<BTreeMap<String, String>>,
}

/// The settings of an application.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::operator) struct LoggedSettings {
    /// The version of Spark, if the log has it.
    pub(in crate::operator) spark: Option<String>,
    /// Keys and values.
    pub(in crate::operator) values: BTreeMap<String, String>,
}

/// Reads the settings from a log. None are there if the log does not have them.
pub(in crate::operator) fn settings(path: &Path) -> Result<LoggedSettings, EventLogError> {
    let mut found = LoggedSettings::default();
    for file in files(path)? {
        read_file(&file, &MARKS, &mut |line| {
            if let Ok(event) = serde_json::from_slice::<Event>(line) {
                found.spark = event.version.or(found.spark.take());
                found.values.extend(event.properties.unwrap_or_default());
            }
        })?;
    }
    Ok(found)
}
