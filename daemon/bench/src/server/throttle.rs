// SPDX-License-Identifier: Apache-2.0
//! A disk that is as slow as one with a head: a control group that allows a process only a number
//! of reads a second. Needs root, and the `blkio` controller (version 1) or `io` (version 2).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where control groups are.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// Random reads a second of a disk with a head.
pub const HDD_READS_A_SECOND: u32 = 150;

/// Why there is no slow disk.
#[derive(Debug, thiserror::Error)]
#[error(
    "no slow disk: {}: {source} (root and a control group for block devices are needed)",
    path.display()
)]
pub struct ThrottleError {
    path: PathBuf,
    source: io::Error,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ThrottleError {
    let path = path.to_path_buf();
    move |source| ThrottleError { path, source }
}

/// A control group, which goes with this.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
}

impl Throttle {
    /// Makes a group below `cgroups` whose processes read at most this often from the disk that
    /// `dir` is on.
    pub fn of(
        cgroups: &Path,
        name: &str,
        dir: &Path,
        reads_a_second: u32,
    ) -> Result<Self, ThrottleError> {
        let device = whole_disk(fs::metadata(dir).map_err(at(dir))?.dev()).map_err(at(dir))?;
        let version_1 = cgroups.join("blkio");
        let (parent, file, line) = if version_1.is_dir() {
            let line = format!("{device} {reads_a_second}");
            (version_1, "blkio.throttle.read_iops_device", line)
        } else {
            let controllers = cgroups.join("cgroup.subtree_control");
            fs::write(&controllers, "+io").map_err(at(&controllers))?;
            let line = format!("{device} riops={reads_a_second}");
            (cgroups.to_path_buf(), "io.max", line)
        };
        let group = parent.join(name);
        fs::create_dir(&group).map_err(at(&group))?;
        let throttle = Self { group };
        let limit = throttle.group.join(file);
        fs::write(&limit, line).map_err(at(&limit))?;
        Ok(throttle)
    }

    /// Puts a process into the group, with all of its threads.
    pub fn hold(&self, pid: u32) -> Result<(), ThrottleError> {
        let processes = self.group.join("cgroup.procs");
        fs::write(&processes, pid.to_string()).map_err(at(&processes))
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // A group with processes stays; nothing can be done about it here.
        let _ = fs::remove_dir(&self.group);
    }
}

/// `major:minor` of the disk; limits cannot be put on a partition of one.
fn whole_disk(device: u64) -> io::Result<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let name = format!("{major}:{minor}");
    let entry = PathBuf::from(format!("/sys/dev/block/{name}"));
    if major == 0 || !entry.exists() {
        return Err(io::Error::other("is on no disk, choose another --dir"));
    }
    if !entry.join("partition").exists() {
        return Ok(name);
    }
    let disk = fs::canonicalize(&entry)?.join("../dev");
    Ok(fs::read_to_string(disk)?.trim().to_owned())
}
