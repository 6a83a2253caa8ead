// SPDX-License-Identifier: Apache-2.0
//! Checks of data directories, and of the directory in which the plugin unpacks its daemon.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lodestone_store::Environment;
use lodestone_store::fs::Space;
use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::checks::{
    BINARY, DIRECTORY, DIRECTORY_ACCESS, FILE_SYSTEM, NOEXEC, OWNER, ROOM, SAME_DISK, SPEED,
};
use super::speed::{self, Measured};
use crate::config::Config;
use crate::operator::doctor::disk_time::{self, DISK_TIMEOUT};
use crate::operator::doctor::finding::{Check, Finding};
use crate::operator::figures::megabytes;

/// A daemon has a few hundred files; a disk with fewer free ones is about to be full.
const LEAST_FILES: u64 = 10_000;

/// Below these, in bytes for each second.
const SLOW: f64 = 20e6;
const MODEST: f64 = 100e6;

/// Magic numbers of file systems (statfs(2)) that are in memory, or on the network.
const FILE_SYSTEMS: [(u32, &str); 7] = [
    (0x0102_1994, "tmpfs, which is memory"),
    (0x8584_58f6, "ramfs, which is memory"),
    (0x6969, "NFS, which is the network"),
    (0xff53_4d42, "CIFS, which is the network"),
    (0xfe53_4d42, "SMB, which is the network"),
    (0x00c3_6400, "CephFS, which is the network"),
    (0x0bd0_0bd0, "Lustre, which is the network"),
];

const GROUP_AND_OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ANYONE_EXECUTES: u32 = 0o111;

/// What is found about one directory, and where it is.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) findings: Vec<Finding>,
    /// The numbers of its disk and of the directory there.
    place: Option<(u64, u64)>,
}

pub(super) fn all(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut by_disk = BTreeMap::<u64, BTreeMap<u64, String>>::new();
    // One after the other: together they would slow each other down.
    for dir in &config.dirs {
        let (path, config) = (dir.clone(), config.clone());
        let looked = within(dir, DISK_TIMEOUT, move || look(&path, &config));
        found.extend(looked.findings);
        let name = dir.display().to_string();
        if let Some((disk, number)) = looked.place {
            let known = by_disk
                .entry(disk)
                .or_default()
                .insert(number, name.clone());
            found.extend(known.map(|known| {
                let text = format!("{known} and {name} are one directory");
                DIRECTORY.error(text).instead("Name each directory once.")
            }));
        }
    }
    for dirs in by_disk.into_values().filter(|dirs| dirs.len() > 1) {
        let names: Vec<String> = dirs.into_values().collect();
        found.push(SAME_DISK.warning(format!("{} are on one disk", names.join(" and "))));
    }
    found
}

/// Looks at a directory for so long.
pub(super) fn within(
    dir: &Path,
    time: Duration,
    look: impl FnOnce() -> Looked + Send + 'static,
) -> Looked {
    disk_time::within(time, look).unwrap_or_else(|| {
        let name = dir.display();
        let seconds = time.as_secs();
        let text = format!("{name} gives no answer within {seconds} s: its file system hangs");
        let remedy = "Look at the disk, or at the server and the network of this file system.";
        Looked {
            findings: vec![DIRECTORY.error(text).instead(remedy)],
            place: None,
        }
    })
}

fn look(dir: &Path, config: &Config) -> Looked {
    let wrong = |problem: String| Looked {
        findings: vec![DIRECTORY.error(problem)],
        place: None,
    };
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => Looked {
            findings: one(dir, &metadata, config),
            place: Some((metadata.dev(), metadata.ino())),
        },
        Ok(_) => wrong(format!("{} is no directory", dir.display())),
        Err(error) => Looked {
            findings: vec![refused(&DIRECTORY, format!("{}", dir.display()), &error)],
            place: None,
        },
    }
}

fn one(dir: &Path, metadata: &Metadata, config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let name = dir.display();
    let mode = metadata.mode();
    if mode & GROUP_AND_OTHERS_WRITE != 0 && mode & STICKY == 0 {
        let text = format!(
            "{name} has mode {:o}: others may write to it",
            mode & 0o7777
        );
        found.push(DIRECTORY_ACCESS.warning(text));
    }
    found.extend(owner(dir, metadata.uid(), geteuid().as_raw()));
    found.extend(room(dir, config));
    found.extend(file_system(dir));
    match speed::of(dir) {
        Ok(measured) => found.push(judged(dir, &measured)),
        Err(error) => {
            let what = format!("{name} takes no file");
            found.push(refused(&DIRECTORY, what, &error));
        }
    }
    found
}

/// Returns what a disk did not do, with what to do about that.
fn refused(check: &'static Check, what: String, error: &io::Error) -> Finding {
    let finding = check.error(format!("{what}: {error}"));
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            finding.instead("Free space there, or name another directory.")
        }
        ErrorKind::ReadOnlyFilesystem => finding.instead(
            "Look into the kernel's log (dmesg): it makes a file system read-only whose disk \
             fails. Replace the disk, or mount it again.",
        ),
        _ if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => finding.instead(
            "Replace the disk, or name a directory on another one. The kernel's log (dmesg) says \
             what failed.",
        ),
        _ => finding,
    }
}

/// The superuser may write anywhere, and the daemon of another user may not.
fn owner(dir: &Path, owner: u32, this: u32) -> Option<Finding> {
    (owner != this).then(|| {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name = |id: u32| {
            let mut fields = users
                .lines()
                .map(|line| line.split(':').collect::<Vec<_>>());
            let known = fields.find(|all| all.get(2).is_some_and(|one| *one == id.to_string()));
            let known = known.and_then(|all| all.first().map(|name| format!(" ({name})")));
            format!("{id}{}", known.unwrap_or_default())
        };
        OWNER.note(format!(
            "{} is of user {}, and this command runs as user {}",
            dir.display(),
            name(owner),
            name(this)
        ))
    })
}

/// Looks at a path of the plugin.
pub(super) fn of_plugin(path: PathBuf, check: fn(&Path) -> Option<Finding>) -> Vec<Finding> {
    let name = path.clone();
    in_time(&name, move || check(&path).into_iter().collect())
}

/// Looks at files there, which may be on a file system that hangs.
pub(super) fn in_time(
    path: &Path,
    look: impl FnOnce() -> Vec<Finding> + Send + 'static,
) -> Vec<Finding> {
    let look = move || Looked {
        findings: look(),
        place: None,
    };
    within(path, DISK_TIMEOUT, look).findings
}

/// Looks whether the plugin could start this program here.
pub(super) fn program(path: &Path) -> Option<Finding> {
    let key = "spark.lodestone.embedded.binary";
    let name = path.display();
    let problem = match fs::metadata(path) {
        _ if path.as_os_str().is_empty() => {
            return Some(BINARY.warning(format!("{key} is empty")));
        }
        Ok(found) if !found.is_file() => "which is no file",
        Ok(found) if found.mode() & ANYONE_EXECUTES == 0 => "which nobody may execute",
        Ok(_) => return Some(BINARY.ok(format!("{key} is {name}, which is here"))),
        Err(_) => "which is not on this host",
    };
    Some(BINARY.warning(format!("{key} is {name}, {problem}")))
}

fn room(dir: &Path, config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let name = dir.display();
    match Environment::os().fs.space(dir) {
        Ok(space) => found.push(space_of(dir, space, config)),
        Err(error) => found.push(refused(&ROOM, name.to_string(), &error)),
    }
    // Some file systems have no limit, and say that they have none at all.
    let files = statvfs(dir).map(|stat| (stat.f_files, stat.f_favail));
    if let Ok((total, free)) = files
        && total > 0
        && free < LEAST_FILES
    {
        let text = format!("{name} has room for {free} more files (inodes)");
        let remedy = "Remove files there, or make the file system with more inodes.";
        found.push(ROOM.error(text).instead(remedy));
    }
    found
}

fn space_of(dir: &Path, space: Space, config: &Config) -> Finding {
    let (free, total) = (megabytes(space.free), megabytes(space.total));
    let text = format!("{} has {free} of {total} free", dir.display());
    match config.reserve.0.is_reached(space) {
        true => ROOM.error(format!(
            "{text}, which is what the daemon leaves free (reserve)"
        )),
        false => ROOM.ok(text),
    }
}

pub(super) fn file_system(dir: &Path) -> Option<Finding> {
    // The type has another sign on other processors; the number is one of 32 bits.
    let magic = u32::try_from(statfs(dir).ok()?.f_type & 0xffff_ffff).ok()?;
    file_system_of(dir, magic)
}

/// Judges a directory by the magic number of its file system.
pub(super) fn file_system_of(dir: &Path, magic: u32) -> Option<Finding> {
    let (_, kind) = FILE_SYSTEMS.iter().find(|(known, _)| *known == magic)?;
    Some(FILE_SYSTEM.warning(format!("{} is on {kind}", dir.display())))
}

pub(super) fn judged(dir: &Path, measured: &Measured) -> Finding {
    let rate = measured.bytes_per_second();
    let text = format!(
        "{} takes {:.0} MB/s ({} in {:.2} s, down to the disk)",
        dir.display(),
        rate / 1e6,
        megabytes(measured.bytes),
        measured.seconds
    );
    match rate {
        rate if rate < SLOW => SPEED.warning(text),
        rate if rate < MODEST => SPEED.note(text),
        _ => SPEED.ok(text),
    }
}

/// Looks at the directory, or at the one above that exists: the plugin makes its own.
pub(super) fn noexec(dir: &Path) -> Option<Finding> {
    let there = dir.ancestors().find(|dir| dir.is_dir())?;
    let flags = statvfs(there).ok()?.f_flag;
    Some(noexec_at(dir, flags.contains(StatVfsMountFlags::NOEXEC)))
}

pub(super) fn noexec_at(dir: &Path, is_noexec: bool) -> Finding {
    let name = dir.display();
    match is_noexec {
        true => NOEXEC.warning(format!(
            "{name}, the first local directory of Spark on this host, is mounted noexec: the \
             daemon in the jar cannot run there (NO_SERVICE)"
        )),
        false => NOEXEC.ok(format!("programs can run in {name}, if executors run here")),
    }
}
