// SPDX-License-Identifier: Apache-2.0
//! The operating system's filesystem.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, StatVfs, fallocate, flock, statvfs};
use rustix::process::geteuid;

use super::below::OsDir;
use super::{Access, Dir, DirAccess, Entry, File, Fs, Kind, Lock, Mounts, Open, Space, Version};

/// The real thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFs;

#[derive(Debug)]
pub(super) struct OsFile(pub(super) fs::File);

/// The descriptor that holds the lock: `flock` ends when it is closed.
#[derive(Debug)]
struct OsLock {
    file: fs::File,
}

impl Lock for OsLock {}

impl Drop for OsLock {
    /// Closing the file would do, but for a child process: from its fork until it runs its program
    /// it has the file, too.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl File for OsFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.0, parts, offset)?)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, into, offset)
    }

    fn set_size(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.0, how, offset, length) {
            // A filesystem without holes keeps the bytes.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn version(&self) -> io::Result<Version> {
        let found = self.0.metadata()?;
        Ok(Version {
            number: found.ino(),
            bytes: found.len(),
            changed_ns: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
            names: found.nlink(),
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

impl Fs for OsFs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = open_options(how != Open::Read);
        match how {
            Open::Read => options.read(true),
            Open::Write => options.write(true),
            Open::Create => options.write(true).create(true).truncate(true),
        };
        Ok(Arc::new(OsFile(options.open(path)?)))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Dir>> {
        Ok(Arc::new(OsDir::open(path)?))
    }

    fn create_dir(&self, path: &Path, access: Access) -> io::Result<()> {
        fs::DirBuilder::new().mode(access.mode()).create(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        fs::read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                Ok(Entry {
                    kind: kind_of(entry.file_type()?),
                    name: entry.file_name(),
                })
            })
            .collect()
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        Ok(kind_of(fs::metadata(path)?.file_type()))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn dir_access(&self, path: &Path) -> io::Result<DirAccess> {
        let stat = fs::symlink_metadata(path)?;
        Ok(DirAccess {
            is_own: stat.is_dir() && stat.uid() == geteuid().as_raw(),
            mode: stat.mode() & 0o7777,
        })
    }

    fn mounts(&self) -> Mounts {
        // Without the table no disk is known.
        Mounts::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        Ok(space_of(&statvfs(path)?))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let file = open_options(false)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(OsLock { file }))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A filesystem keeps blocks for root. They are never free for the daemon's files, so they are no
/// part of the size of which a share stays free, as in the percentage of `df`.
const fn space_of(stat: &StatVfs) -> Space {
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    Space {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: used
            .saturating_add(stat.f_bavail)
            .saturating_mul(stat.f_frsize),
    }
}

/// Where others may write to a data directory they may plant a link, which must not lead the daemon
/// to other files. A pipe among the files of an earlier daemon must not hold up the start, as its
/// opening would wait for its other end; new files are in a directory that only this daemon writes
/// to.
fn open_options(is_new: bool) -> fs::OpenOptions {
    let flags = match is_new {
        true => OFlags::NOFOLLOW,
        false => OFlags::NOFOLLOW | OFlags::NONBLOCK,
    };
    let mut options = fs::OpenOptions::new();
    options.custom_flags(flags.bits().cast_signed());
    options
}

fn kind_of(file_type: fs::FileType) -> Kind {
    if file_type.is_dir() {
        Kind::Directory
    } else if file_type.is_file() {
        Kind::File
    } else {
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_kept_for_root_count_neither_as_free_nor_as_size() {
        let mut stat = statvfs("/").unwrap();
        (stat.f_frsize, stat.f_blocks) = (4096, 1000);
        (stat.f_bfree, stat.f_bavail) = (800, 100);
        let expected = Space {
            free: 100 * 4096,
            total: 300 * 4096,
        };
        assert_eq!(space_of(&stat), expected);
    }
}
