// SPDX-License-Identifier: Apache-2.0
//! The log. A thread of its own writes the lines: the reader of the log, or its disk, may be slow,
//! or hang. If the queue is full, the line is dropped.

use std::fmt;
use std::io;
use std::sync::Mutex;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;

use crate::config::Config;
use crate::config::values::LogFormat;

/// Lines that wait to be written.
const LINES: usize = 4096;

/// Queued lines are written when this is dropped, unless that takes more than a second.
pub struct Log(Mutex<Option<WorkerGuard>>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl Log {
    /// Begins to log.
    pub fn to_stderr(config: &Config) -> Self {
        let (lines, guard) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(LINES)
            .finish(io::stderr());
        let log = tracing_subscriber::fmt()
            .with_writer(lines)
            .with_ansi(false)
            .with_target(false)
            // Otherwise a closed stderr would be reported to stderr, by a panic.
            .log_internal_errors(false)
            .with_max_level(LevelFilter::from_level(config.log_level.into()));
        match config.log_format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
        Self(Mutex::new(Some(guard)))
    }

    /// Writes the queued lines, and nothing after that: for an end of the process without
    /// destructors.
    pub fn end(&self) {
        if let Ok(mut guard) = self.0.lock() {
            drop(guard.take());
        }
    }
}
