// SPDX-License-Identifier: Apache-2.0
//! `memory = auto`: more memory as long as the host has some to spare.
//!
//! Merged data that has no room in memory goes to files. The kernel would keep their pages in the
//! same memory, if it is free, at the cost of another copy and of writing them to a disk. So a
//! daemon that may take unused memory keeps the data there, and gives the memory back when other
//! programs need it.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lodestone_store::Store;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::service::MemorySplit;

/// The memory that a daemon with `auto` has in any case.
pub const LEAST_BYTES: u64 = 256 << 20;

/// How often the host is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The daemon takes no more than this part of the host's memory,
const MOST_PART: u64 = 4;

/// and leaves this part of it free for sudden needs of others.
const RESERVE_PART: u64 = 8;

/// It takes at most this part of the free memory beyond that at a time.
const STEP_PART: u64 = 2;

/// The host's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    /// All of it.
    pub total: u64,
    /// Memory that is free, or holds only cached files.
    pub available: u64,
}

/// Where the kernel shows the state of memory.
#[derive(Debug, Clone)]
pub struct Kernel {
    proc: PathBuf,
    groups: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            groups: "/sys/fs/cgroup".into(),
        }
    }
}

impl Kernel {
    /// Where it shows the state in these directories.
    pub fn at(proc: PathBuf, groups: PathBuf) -> Self {
        Self { proc, groups }
    }

    /// Returns the host's memory. Returns `None` if the kernel does not say, or if a control group
    /// has a limit of its own: the memory of a container belongs to the one who sized it.
    pub fn host_memory(&self) -> Option<HostMemory> {
        let text = read_to_string(self.proc.join("meminfo")).ok()?;
        let memory = HostMemory {
            total: bytes_in(&text, "MemTotal:")?,
            available: bytes_in(&text, "MemAvailable:")?,
        };
        (!self.is_limited_below(memory.total)).then_some(memory)
    }

    fn is_limited_below(&self, total: u64) -> bool {
        self.limit_of_groups().is_some_and(|limit| limit < total)
    }

    /// Returns the least limit of the control groups of this process.
    pub fn limit_of_groups(&self) -> Option<u64> {
        let own = read_to_string(self.proc.join("self/cgroup")).unwrap_or_default();
        own.lines().filter_map(|line| self.limit_of(line)).min()
    }

    fn limit_of(&self, line: &str) -> Option<u64> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => (self.groups.clone(), "memory.max"),
            "memory" => (self.groups.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let own = root.join(path.trim_start_matches('/'));
        // Inside a container the path may exist only on the host; the root exists.
        let above = own.ancestors().take_while(|dir| dir.starts_with(&root));
        above.filter_map(|dir| number(&dir.join(file))).min()
    }

    /// Returns the size of the host's memory.
    pub fn total(&self) -> Option<u64> {
        let text = read_to_string(self.proc.join("meminfo")).ok()?;
        bytes_in(&text, "MemTotal:")
    }
}

fn bytes_in(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn number(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

impl HostMemory {
    /// Returns the limit of a daemon that holds this much.
    pub fn limit(self, held: u64) -> u64 {
        let reserve = self.total / RESERVE_PART;
        let wanted = match self.available.checked_sub(reserve) {
            Some(spare) => held + spare / STEP_PART,
            None => held.saturating_sub(reserve - self.available),
        };
        wanted.min(self.total / MOST_PART)
    }
}

/// Lets the store's limit follow the host's memory.
pub async fn follow(store: Arc<Store>, kernel: Kernel) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (store, kernel) = (Arc::clone(&store), kernel.clone());
        let looked = spawn_blocking(move || look(&store, &kernel)).await;
        match looked {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => tracing::error!(%error, "looking at the host's memory failed"),
        }
    }
}

/// Returns true if it makes sense to look again.
fn look(store: &Store, kernel: &Kernel) -> bool {
    let least = MemorySplit::of(LEAST_BYTES).store_bytes;
    let host = kernel.host_memory();
    let limit = host.map_or(0, |host| host.limit(store.memory_held()));
    store.limit_memory(limit.max(least));
    host.is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn host(total: u64, available: u64) -> HostMemory {
        HostMemory { total, available }
    }

    /// Makes a directory like the kernel's: `meminfo`, and limits of control groups.
    fn kernel(own: &str, limits: &[(&str, &str)]) -> (tempfile::TempDir, Kernel) {
        let dir = tempfile::tempdir().unwrap();
        let kernel = Kernel {
            proc: dir.path().join("proc"),
            groups: dir.path().join("groups"),
        };
        fs::create_dir_all(kernel.proc.join("self")).unwrap();
        let meminfo =
            "MemTotal:       16777216 kB\nMemFree:         123 kB\nMemAvailable:    8388608 kB\n";
        fs::write(kernel.proc.join("meminfo"), meminfo).unwrap();
        fs::write(kernel.proc.join("self/cgroup"), own).unwrap();
        for (file, limit) in limits {
            let file = kernel.groups.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, limit).unwrap();
        }
        (dir, kernel)
    }

    #[test]
    fn a_daemon_takes_half_of_what_the_host_can_spare() {
        assert_eq!(host(16 * GIB, 6 * GIB).limit(0), 2 * GIB);
        assert_eq!(host(16 * GIB, 6 * GIB).limit(GIB), 3 * GIB);
        assert_eq!(host(16 * GIB, 16 * GIB).limit(0), 4 * GIB);
        assert_eq!(host(16 * GIB, 3 * GIB).limit(4 * GIB), 4 * GIB);
    }

    #[test]
    fn a_host_that_is_short_of_memory_gets_it_back() {
        assert_eq!(host(16 * GIB, 2 * GIB).limit(3 * GIB), 3 * GIB);
        assert_eq!(host(16 * GIB, GIB).limit(3 * GIB), 2 * GIB);
        assert_eq!(host(16 * GIB, 0).limit(GIB), 0);
    }

    #[test]
    fn without_a_control_groups_limit_the_hosts_memory_counts() {
        let all = host(16 * GIB, 8 * GIB);
        let none = "9223372036854771712\n";
        for (own, limits) in [
            ("0::/\n", vec![]),
            (
                "0::/user.slice/a\n",
                vec![("user.slice/a/memory.max", "max\n")],
            ),
            (
                "4:memory:/a\n3:cpu:/\n0::/\n",
                vec![("memory/a/memory.limit_in_bytes", none)],
            ),
        ] {
            let (_dir, kernel) = kernel(own, &limits);
            assert_eq!(kernel.host_memory(), Some(all), "{own}");
        }
    }

    #[test]
    fn the_limit_of_a_control_group_switches_auto_off() {
        for (own, limits) in [
            ("0::/\n", ("memory.max", "1073741824\n")),
            ("0::/pod/a\n", ("pod/memory.max", "1073741824\n")),
            (
                "4:memory:/unseen/from/here\n0::/\n",
                ("memory/memory.limit_in_bytes", "1073741824\n"),
            ),
        ] {
            let (_dir, kernel) = kernel(own, &[limits]);
            assert_eq!(kernel.host_memory(), None, "{own}");
        }
    }

    #[test]
    fn this_host_says_what_it_has_or_nothing() {
        if let Some(memory) = Kernel::default().host_memory() {
            assert!(memory.available <= memory.total && memory.total > 1 << 20);
        }
    }
}
