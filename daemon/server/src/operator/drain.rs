// SPDX-License-Identifier: Apache-2.0
//! `lodestone drain`: ends a service without a loss, and prints the progress.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use lodestone_model::HeldData;
use lodestone_store::{Clock, OsClock};
use lodestone_wire::extension::PROTOCOL_VERSION;
use lodestone_wire::extension::drain::{Drain, Holdings, Wish};
use lodestone_wire::extension::hello::{Hello, HelloReply};

use super::ask::{AskError, Asking};
use super::figures::megabytes;
use crate::cli::DrainArgs;

/// Far more than an answer takes: it waits for a second for data that is written out.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How often it asks what the service still holds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a daemon may take from the last word to its end.
const END_WITHIN: Duration = Duration::from_secs(30);

/// Why the service was not drained.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// There is no service to drain.
    #[error(
        "{service}: {source}; name the service with --service HOST:PORT, and run this on its own \
         host, as the daemon's user or as root"
    )]
    Ask {
        /// The service.
        service: String,
        /// The error.
        source: AskError,
    },
    /// It ended for another reason.
    #[error(
        "{service} ended before it was drained ({held}). Start it again on the same directories: its \
         data is there if it was stopped, and lost if it was killed"
    )]
    Gone {
        /// The service.
        service: String,
        /// What the service held at the last answer.
        held: String,
    },
    /// The time is over.
    #[error(
        "after {waited} s {service} still holds {held}. It serves this data, and takes nothing new: \
         run this again to wait longer, or with --cancel to use the service again. A stop now loses \
         the data, unless a daemon starts again on the same directories"
    )]
    TimedOut {
        /// The service.
        service: String,
        /// Seconds.
        waited: u64,
        /// What the service holds.
        held: String,
    },
    /// The drain was cancelled.
    #[error("{0} takes new work again: the drain was cancelled, or the service started again")]
    Cancelled(String),
    /// Stdout is closed.
    #[error("writing to stdout: {0}")]
    Output(#[from] io::Error),
}

/// Drains, or cancels it.
pub fn run(args: &DrainArgs) -> Result<(), DrainError> {
    let service = &args.service;
    let failed = |source| failed(service, source);
    let mut asking = Asking::operator(service, ANSWER_TIMEOUT).map_err(failed)?;
    let Holdings { incarnation, .. } = asking.ask(&Drain { wish: Wish::Look }).map_err(failed)?;
    if incarnation_at(service).map_err(failed)? != incarnation {
        return Err(failed(AskError::OtherDaemon));
    }
    if args.cancel {
        ask(&mut asking, Wish::Cancel).map_err(failed)?;
        return Ok(say(&format!("{service} takes new work again"))?);
    }
    let held = ask(&mut asking, Wish::Begin).map_err(failed)?;
    say(&format!("{service} takes nothing new"))?;
    Draining {
        args,
        incarnation,
        asking,
        clock: OsClock::default(),
        first_unwritten: held.unwritten_bytes,
        said: String::new(),
    }
    .follow(held)
}

struct Draining<'a> {
    args: &'a DrainArgs,
    /// The incarnation of the daemon.
    incarnation: i64,
    asking: Asking<UnixStream>,
    /// Since it began.
    clock: OsClock,
    /// Bytes that were only in memory at first.
    first_unwritten: u64,
    said: String,
}

impl Draining<'_> {
    fn follow(mut self, mut held: HeldData) -> Result<(), DrainError> {
        loop {
            self.print(&held)?;
            if held.is_nothing() && self.leaves()? {
                return Ok(());
            }
            self.check_time(&held)?;
            let before = held.unwritten_bytes;
            held = self.again(&held)?;
            // Data that cannot be written is served from memory, until it is released.
            let is_writing = held.unwritten_bytes > 0 && held.unwritten_bytes < before;
            if !is_writing && self.ends_within(LOOK_EVERY)? {
                return Err(self.gone(&held));
            }
        }
    }

    fn again(&mut self, before: &HeldData) -> Result<HeldData, DrainError> {
        // A look is enough when all is written: if another operator cancels the drain meanwhile, it
        // stays cancelled.
        let wish = match before.unwritten_bytes {
            0 => Wish::Look,
            _ => Wish::Begin,
        };
        match ask(&mut self.asking, wish) {
            Ok(held) if held.draining => Ok(held),
            Ok(_) => Err(DrainError::Cancelled(self.args.service.clone())),
            Err(AskError::Network(_) | AskError::Closed) => Err(self.gone(before)),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Asks the service to end if no client would miss anything, and waits for its end.
    fn leaves(&mut self) -> Result<bool, DrainError> {
        let last = match ask(&mut self.asking, Wish::Leave) {
            Ok(last) => last,
            Err(source) => return Err(self.failed(source)),
        };
        if !last.is_nothing() || !last.draining {
            return Ok(false);
        }
        if !self.ends_within(END_WITHIN)? || self.is_there() {
            return Err(self.failed(AskError::Refused("it does not end".to_owned())));
        }
        say("drained: it held nothing any more, and has ended")?;
        Ok(true)
    }

    /// Asks at the port, which is the daemon's as long as it lives.
    fn is_there(&self) -> bool {
        incarnation_at(&self.args.service).is_ok_and(|found| found == self.incarnation)
    }

    fn ends_within(&mut self, time: Duration) -> Result<bool, DrainError> {
        let ended = self.asking.ends_within(time);
        ended.map_err(|source| self.failed(source))
    }

    fn check_time(&self, held: &HeldData) -> Result<(), DrainError> {
        let waited = self.waited();
        match self.args.timeout {
            Some(limit) if waited >= limit => Err(DrainError::TimedOut {
                service: self.args.service.clone(),
                waited: waited.as_secs(),
                held: words(held),
            }),
            _ => Ok(()),
        }
    }

    fn waited(&self) -> Duration {
        Duration::from_millis(self.clock.now_ms())
    }

    /// A line, if there is news.
    fn print(&mut self, held: &HeldData) -> Result<(), DrainError> {
        let news = match held.unwritten_bytes {
            0 => format!("holds {}", words(held)),
            left => self.writing(left),
        };
        if news != self.said {
            // Leases change all the time: that alone is no news.
            say(&format!("{news}{}", until(held)))?;
            self.said = news;
        }
        Ok(())
    }

    fn writing(&self, left: u64) -> String {
        let written = self.first_unwritten.saturating_sub(left);
        let seconds = self.waited().as_secs_f64();
        let text = format!("writes out the data in memory: {} left", megabytes(left));
        match written {
            0 => text,
            _ => {
                let left_seconds = seconds * left as f64 / written as f64;
                format!("{text}, about {} s", left_seconds.ceil())
            }
        }
    }

    fn gone(&self, held: &HeldData) -> DrainError {
        DrainError::Gone {
            service: self.args.service.clone(),
            held: format!("it held {}", words(held)),
        }
    }

    fn failed(&self, source: AskError) -> DrainError {
        failed(&self.args.service, source)
    }
}

fn failed(service: &str, source: AskError) -> DrainError {
    let service = service.to_owned();
    DrainError::Ask { service, source }
}

/// Returns the incarnation of the daemon at the port of the service.
fn incarnation_at(service: &str) -> Result<i64, AskError> {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        client_name: format!("lodestone-drain/{}", env!("CARGO_PKG_VERSION")),
    };
    let reply: HelloReply = Asking::connect(service, END_WITHIN)?.ask(&hello)?;
    Ok(reply.incarnation)
}

fn ask(asking: &mut Asking<UnixStream>, wish: Wish) -> Result<HeldData, AskError> {
    let Holdings { held, .. } = asking.ask(&Drain { wish })?;
    Ok(held)
}

fn words(held: &HeldData) -> String {
    let shuffles = format!(
        "{} remote shuffles of {} applications, {}",
        held.shuffles,
        held.applications,
        megabytes(held.bytes)
    );
    let executors = format!("the files of {} executors", held.executors);
    match (held.shuffles, held.executors) {
        (0, 0) => "nothing".to_owned(),
        (_, 0) => shuffles,
        (0, _) => executors,
        _ => format!("{shuffles}, and {executors}"),
    }
}

/// When that will be released, as far as it can be known.
fn until(held: &HeldData) -> String {
    match (held.shuffles, held.unwritten_bytes) {
        (1.., 0) => format!(
            "; released by its drivers, or {} s after their last sign of life",
            held.lease_left_ms / 1000
        ),
        _ => String::new(),
    }
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
