// SPDX-License-Identifier: Apache-2.0
//! How far a long work is, on a terminal, and how fast it was.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(500);

/// Bytes done, of how many.
#[derive(Debug)]
pub struct Progress {
    label: String,
    done: AtomicU64,
    total: u64,
}

impl Progress {
    /// Nothing done yet.
    pub fn of(total: u64) -> Self {
        Self::labelled("", total)
    }

    /// Nothing done yet of work that has a name.
    pub fn labelled(label: &str, total: u64) -> Self {
        Self {
            label: label.to_owned(),
            done: AtomicU64::new(0),
            total,
        }
    }

    /// Bytes done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Bytes to be done.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// So much more is done.
    pub fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Works, and shows on stderr how it goes.
    pub fn show<T>(&self, work: impl FnOnce() -> T) -> T {
        let (over, is_over) = mpsc::channel::<()>();
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(move || self.follow(&is_over, began));
            let outcome = work();
            drop(over);
            outcome
        })
    }

    fn follow(&self, is_over: &mpsc::Receiver<()>, began: Instant) {
        let is_terminal = io::stderr().is_terminal();
        while is_over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            if is_terminal {
                self.say("\r", began);
            }
        }
        self.say(if is_terminal { "\r" } else { "" }, began);
        say("\n");
    }

    fn say(&self, before: &str, began: Instant) {
        let (label, done) = (&self.label, self.done());
        let percent = done * 100 / self.total.max(1);
        let seconds = began.elapsed().as_secs_f64();
        let megabytes = done as f64 / 1e6;
        let rate = megabytes / seconds.max(1e-3);
        say(&format!(
            "{before}{label}{percent:>3} %  {megabytes:.0} MB in {seconds:.1} s, {rate:.0} MB/s"
        ));
    }
}

/// Without stderr there is no way to report this.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
