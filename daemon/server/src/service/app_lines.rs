// SPDX-License-Identifier: Apache-2.0
//! What each application may have of some memory. Each has a line of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lodestone_model::AppId;

use super::line::{Hasten, Line};

/// Above this number of applications those that hold nothing are forgotten.
const APPLICATIONS: usize = 64;

/// The shares of applications, which all have the same size.
#[derive(Debug)]
pub(super) struct AppLines {
    bytes: u64,
    /// Those that hear of all of them. Each has listeners of its own without it.
    hasten: Option<Hasten>,
    lines: Mutex<HashMap<AppId, Arc<Line>>>,
}

impl AppLines {
    /// Shares of this size. When an application waits for its own, only those hear it that listen
    /// to its line: nobody else has what it needs.
    pub(super) fn new(bytes: u64) -> Self {
        Self::with(bytes, None)
    }

    /// Shares of this size. Those that hear `hasten` hear when any application waits for its own.
    pub(super) fn heard_by(bytes: u64, hasten: Hasten) -> Self {
        Self::with(bytes, Some(hasten))
    }

    fn with(bytes: u64, hasten: Option<Hasten>) -> Self {
        Self {
            bytes,
            hasten,
            lines: Mutex::default(),
        }
    }

    /// Returns the share of an application.
    pub(super) fn of(&self, app: &AppId) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= APPLICATIONS && !lines.contains_key(app) {
            lines.retain(|_, line| Arc::strong_count(line) > 1 || line.is_in_use());
        }
        let share = || {
            let hasten = self.hasten.clone().unwrap_or_default();
            Arc::new(Line::heard_by(self.bytes, hasten))
        };
        Arc::clone(lines.entry(app.clone()).or_insert_with(share))
    }
}
