// SPDX-License-Identifier: Apache-2.0
//! The settings of an application, and its Spark, from an event log.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::operator::event_log::Events;

/// The classes of the events with them.
const CLASSES: [&[u8]; 2] = [b"SparkListenerLogStart", b"SparkListenerEnvironmentUpdate"];

/// One of these events. Spark removes the secrets from the settings before it writes them.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Spark Version")]
    version: Option<String>,
    #[serde(rename = "Spark Properties")]
    properties: Option<BTreeMap<String, String>>,
}

/// The settings of an application. None are there if the log does not have them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LoggedSettings {
    /// The version of Spark, if the log has it.
    pub(super) spark: Option<String>,
    /// Keys and values.
    pub(super) values: BTreeMap<String, String>,
}

impl Events for LoggedSettings {
    fn wants(&self, class: &[u8]) -> bool {
        CLASSES.contains(&class)
    }

    fn take(&mut self, _: &[u8], line: &[u8]) {
        if let Ok(event) = serde_json::from_slice::<Event>(line) {
            self.spark = event.version.or(self.spark.take());
            self.values.extend(event.properties.unwrap_or_default());
        }
    }
}
