// SPDX-License-Identifier: Apache-2.0
//! The resources that a process has used so far, from `/proc`: all of its threads, including those
//! that ended, except for sleeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The resources that it used: since it began, or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Processor time, its own and the kernel's for it.
    pub cpu_seconds: f64,
    /// Memory in use now.
    pub rss_bytes: u64,
    /// Most memory in use since the peak was reset, or since it began.
    pub peak_rss_bytes: u64,
    /// Calls of `read` and its like (`syscr`): of files, and of sockets if a program does not use
    /// `recv`.
    pub read_calls: u64,
    /// Calls of `write` and its like, and of `sendfile`: of files, and of sockets if a program does
    /// not use `send`.
    pub write_calls: u64,
    /// Bytes that came from the disk and not from the page cache.
    pub disk_read_bytes: u64,
    /// Bytes that were given to the page cache to be written to the disk.
    pub disk_write_bytes: u64,
    /// How often its threads slept and were woken (`voluntary_ctxt_switches`). Threads that have
    /// ended do not count, so this may be too small.
    pub sleeps: u64,
}

impl Usage {
    /// Returns the resources used since the earlier reading. Memory is that of now.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            rss_bytes: self.rss_bytes,
            peak_rss_bytes: self.peak_rss_bytes,
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
            write_calls: self.write_calls.saturating_sub(earlier.write_calls),
            disk_read_bytes: self.disk_read_bytes.saturating_sub(earlier.disk_read_bytes),
            disk_write_bytes: self
                .disk_write_bytes
                .saturating_sub(earlier.disk_write_bytes),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
        }
    }
}

/// A process that is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    folder: PathBuf,
}

impl Watched {
    /// By its id.
    pub fn process(pid: u32) -> Self {
        Self {
            folder: PathBuf::from(format!("/proc/{pid}")),
        }
    }

    /// This one.
    pub fn itself() -> Self {
        Self::process(std::process::id())
    }

    /// Returns the resources that it has used so far.
    pub fn usage(&self) -> io::Result<Usage> {
        let read = |name: &str| fs::read_to_string(self.folder.join(name));
        let (stat, status) = (read("stat")?, read("status")?);
        // Other users' processes do not show it; it is not worth giving up for.
        let io = read("io").unwrap_or_default();
        let usage = parse(&stat, &status, &io).ok_or_else(|| unreadable(&self.folder))?;
        let sleeps = self.sleeps()?;
        Ok(Usage { sleeps, ..usage })
    }

    /// Returns how often the threads that it has now have slept.
    fn sleeps(&self) -> io::Result<u64> {
        let mut sum = 0;
        for thread in fs::read_dir(self.folder.join("task"))? {
            // It may have ended since.
            let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
            sum += sleeps_in(&status);
        }
        Ok(sum)
    }

    /// From now on the peak is measured again. If that is not allowed it stays that of the whole
    /// life of the process.
    pub fn reset_peak(&self) -> bool {
        fs::write(self.folder.join("clear_refs"), "5").is_ok()
    }
}

fn unreadable(folder: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is not as proc(5) describes it",
        folder.display()
    ))
}

/// Reads `stat`, `status` and `io`. A process that has ended has no memory.
fn parse(stat: &str, status: &str, io: &str) -> Option<Usage> {
    // The name may hold blanks and parentheses; it ends at the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let user = ticks.next()?.ok()?;
    let system = ticks.next()?.ok()?;
    let kilobytes = |name: &str| {
        let value = named(status, name).map(|text| text.trim_end_matches("kB").trim());
        value.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let counter = |name: &str| {
        named(io, name)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    let ticks_a_second = rustix::param::clock_ticks_per_second() as f64;
    Some(Usage {
        cpu_seconds: (user + system) as f64 / ticks_a_second,
        rss_bytes: kilobytes("VmRSS") << 10,
        peak_rss_bytes: kilobytes("VmHWM") << 10,
        read_calls: counter("syscr"),
        write_calls: counter("syscw"),
        disk_read_bytes: counter("read_bytes"),
        disk_write_bytes: counter("write_bytes"),
        sleeps: 0,
    })
}

/// How often a thread with this `status` has slept.
fn sleeps_in(status: &str) -> u64 {
    let sleeps = named(status, "voluntary_ctxt_switches");
    sleeps.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The value of a line `name: value`.
fn named<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::thread;
    use std::time::Duration;

    use super::*;

    const STAT: &str = "4711 (a (strange) name) S 1 4711 4711 0 -1 4194304 2508 0 7 0 \
                        150 50 3 4 20 0 5 0 91 10000 600 184467";
    const STATUS: &str =
        "Name:\tdaemon\nVmPeak:\t  999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
    const IO: &str =
        "rchar: 1\nwchar: 2\nsyscr: 30\nsyscw: 40\nread_bytes: 4096\nwrite_bytes: 8192\n";

    #[test]
    fn the_files_of_proc_are_read_right() {
        let usage = parse(STAT, STATUS, IO).unwrap();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(usage.cpu_seconds, 200.0 / ticks);
        assert_eq!((usage.rss_bytes, usage.peak_rss_bytes), (1 << 20, 2 << 20));
        assert_eq!((usage.read_calls, usage.write_calls), (30, 40));
        assert_eq!(
            (usage.disk_read_bytes, usage.disk_write_bytes),
            (4096, 8192)
        );
    }

    #[test]
    fn a_process_without_memory_or_counters_still_has_its_time() {
        let zombie = parse(STAT, "Name:\tdaemon\nState:\tZ (zombie)\n", "").unwrap();
        assert_eq!((zombie.rss_bytes, zombie.read_calls), (0, 0));
        assert!(zombie.cpu_seconds > 0.0);
        assert_eq!(parse("no statistics", STATUS, IO), None);
        assert_eq!(parse("1 (cut) S 1 2", STATUS, IO), None);
    }

    #[test]
    fn sleeps_of_all_threads_of_this_process_show() {
        const TIMES: u64 = 20;
        let status = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t5\n";
        assert_eq!((sleeps_in(status), sleeps_in("")), (12, 0));
        let watched = Watched::itself();
        let before = watched.usage().unwrap();
        let (end, ends) = mpsc::channel::<()>();
        let moment = Duration::from_millis(1);
        // Nothing comes: it sleeps each time.
        let other =
            thread::spawn(
                move || {
                    while ends.recv_timeout(moment) == Err(RecvTimeoutError::Timeout) {}
                },
            );
        // Threads of other tests end meanwhile, and their sleeps are lost.
        while watched.usage().unwrap().since(before).sleeps < TIMES {
            thread::yield_now();
        }
        drop(end);
        other.join().unwrap();
    }

    #[test]
    fn work_and_memory_of_this_process_show() {
        let watched = Watched::itself();
        let before = watched.usage().unwrap();
        let mut block = vec![1_u8; 64 << 20];
        while watched.usage().unwrap().since(before).cpu_seconds < 0.05 {
            block
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_add(3));
        }
        let after = watched.usage().unwrap();
        assert!(after.peak_rss_bytes >= 64 << 20, "{after:?}");
        assert!(after.since(before).read_calls > 0, "of /proc itself");
        assert!(Watched::process(u32::MAX).usage().is_err());
    }
}
