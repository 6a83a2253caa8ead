// SPDX-License-Identifier: Apache-2.0
//! The log. Lines are written by a thread of their own: whoever reads them, or the disk that they go to, may
//! be slow, or hang. What finds too many waiting is left out.

use std::fmt;
use std::io;
use std::sync::Mutex;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;

use crate::config::Config;
use crate::config::values::LogFormat;

/// Lines that wait to be written.
const LINES: usize = 4096;

/// What waits is written when this is dropped, unless it takes more than a second.
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
            // Otherwise a stderr that nobody reads any more would be reported to stderr, by a panic.
            .log_internal_errors(false)
            .with_max_level(LevelFilter::from_level(config.log_level.into()));
        match config.log_format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
        Self(Mutex::new(Some(guard)))
    }

    /// Writes what waits, and nothing after that: for who ends the process without destructors.
    pub fn end(&self) {
        if let Ok(mut guard) = self.0.lock() {
            drop(guard.take());
        }
    }
}
