// SPDX-License-Identifier: Apache-2.0
//! The machine of the measurement, for the report.

use std::fs;
use std::path::Path;
use std::thread;

use serde::Serialize;

/// A description of this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Kind of file system that the data is on.
    pub file_system: String,
}

impl Machine {
    /// This one, with data in this folder.
    pub fn with_data_in(dir: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (cpuinfo, meminfo) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let kilobytes = named(&meminfo, "MemTotal").trim_end_matches("kB").trim();
        Self {
            processor: named(&cpuinfo, "model name").to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes.parse::<u64>().unwrap_or_default() << 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: file_system(&read("/proc/self/mounts"), dir),
        }
    }
}

/// The value of the first line `name : value`.
fn named<'a>(text: &'a str, name: &str) -> &'a str {
    let mut values = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    });
    values.next().unwrap_or_default()
}

/// The type of the mount with the longest path that the folder is below.
fn file_system(mounts: &str, dir: &Path) -> String {
    let lines = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = lines.filter(|(mount, _)| dir.starts_with(mount));
    let nearest = above.max_by_key(|(mount, _)| mount.len());
    nearest.map_or_else(String::new, |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/data xfs rw 0 0\n";
        for (dir, kind) in [
            ("/tmp/data/1", "xfs"),
            ("/tmp/database", "tmpfs"),
            ("/home", "ext4"),
        ] {
            assert_eq!(file_system(mounts, Path::new(dir)), kind, "{dir}");
        }
        let this = Machine::with_data_in(Path::new("/"));
        assert!(this.memory_bytes > 0 && !this.kernel.is_empty(), "{this:?}");
    }
}
