// SPDX-License-Identifier: Apache-2.0
//! Directories that others own: a name below one of them may become a link, a pipe or a device at
//! any time, and must not lead the daemon to other files, or make it wait.

use std::fs::File as StdFile;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::fs::{fstat, fstatfs, mkdirat, openat, openat2, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::os::OsFile;
use super::{Access, Dir, File, Kind, Open};

/// Nothing on the way may be a link, and nothing may leave the directory.
const STRICT: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Filesystems whose files only this host removes: ext, XFS, Btrfs, tmpfs, ZFS, F2FS, overlays of
/// containers. On others, files may be removed unseen, or get another name in place of a removal.
const OF_THIS_HOST: [u64; 7] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0x794c_7630,
];

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory, by its descriptor.
#[derive(Debug)]
pub(super) struct OsDir {
    fd: OwnedFd,
    owner: u32,
    shows_removals: bool,
}

impl OsDir {
    /// Opens a path without links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let fd = match openat2(
            CWD,
            path,
            DIRECTORY,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        ) {
            Err(Errno::NOSYS | Errno::PERM) => walk(CWD, path)?,
            opened => opened?,
        };
        let owner = fstat(&fd)?.st_uid;
        let shows_removals =
            fstatfs(&fd).is_ok_and(|found| OF_THIS_HOST.contains(&(found.f_type as u64)));
        Ok(Self {
            fd,
            owner,
            shows_removals,
        })
    }

    fn open_at(&self, below: &Path, how: OFlags) -> io::Result<OwnedFd> {
        let how = how | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o660);
        let mode = match how.contains(OFlags::CREATE) {
            true => mode,
            false => Mode::empty(),
        };
        match openat2(&self.fd, below, how, mode, STRICT) {
            // Linux before 5.6, or a container's filter of system calls.
            Err(Errno::NOSYS | Errno::PERM) => {
                let (parent, name) = split(below)?;
                Ok(openat(walk(&self.fd, parent)?, name, how, mode)?)
            }
            opened => Ok(opened?),
        }
    }

    fn parent(&self, parent: &Path) -> io::Result<OwnedFd> {
        if parent.as_os_str().is_empty() {
            return self.fd.try_clone();
        }
        match openat2(&self.fd, parent, DIRECTORY, Mode::empty(), STRICT) {
            Err(Errno::NOSYS | Errno::PERM) => walk(self.fd.as_fd(), parent),
            opened => Ok(opened?),
        }
    }

    /// A regular file that the directory's owner or the daemon made, under one name only.
    fn check(&self, stat: &Stat) -> io::Result<()> {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_theirs = stat.st_uid == self.owner || stat.st_uid == geteuid().as_raw();
        match is_file && is_theirs && stat.st_nlink <= 1 {
            true => Ok(()),
            false => Err(io::Error::other(NotTheirs)),
        }
    }
}

impl Dir for OsDir {
    fn open(&self, below: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let flags = match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::WRONLY,
            Open::Create => OFlags::WRONLY | OFlags::CREATE,
        };
        // Without this the opening of a pipe waits for its other end.
        let fd = self.open_at(below, flags | OFlags::NONBLOCK)?;
        self.check(&fstat(&fd)?)?;
        let file = StdFile::from(fd);
        if how == Open::Create {
            file.set_len(0)?;
        }
        Ok(Arc::new(OsFile(file)))
    }

    fn create_dir(&self, below: &Path, access: Access) -> io::Result<()> {
        let (parent, name) = split(below)?;
        let mode = Mode::from_raw_mode(access.mode());
        Ok(mkdirat(self.parent(parent)?, name, mode)?)
    }

    fn remove_file(&self, below: &Path) -> io::Result<()> {
        let (parent, name) = split(below)?;
        Ok(unlinkat(self.parent(parent)?, name, AtFlags::empty())?)
    }

    fn kind(&self, below: &Path) -> io::Result<Kind> {
        let (parent, name) = split(below)?;
        let stat = statat(self.parent(parent)?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        })
    }

    fn shows_removals(&self) -> bool {
        self.shows_removals
    }
}

/// Opens a directory step by step, where the system cannot refuse links by itself.
fn walk<F: AsFd>(from: F, path: &Path) -> io::Result<OwnedFd> {
    let start = if path.is_absolute() { "/" } else { "." };
    let mut at = openat(&from, start, DIRECTORY, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                at = openat(&at, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
            }
            Component::ParentDir | Component::Prefix(_) => {
                return Err(ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(at)
}

fn split(below: &Path) -> io::Result<(&Path, &std::ffi::OsStr)> {
    below
        .parent()
        .zip(below.file_name())
        .ok_or_else(|| ErrorKind::InvalidInput.into())
}

/// A file that the daemon does not touch.
#[derive(Debug, thiserror::Error)]
#[error("it is no regular file of the directory's owner, or has several names")]
struct NotTheirs;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_system_without_openat2_follows_no_links_either() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        let base = OsDir::open(&dir.path().canonicalize().unwrap()).unwrap();
        let way = |path: &str| walk(&base.fd, Path::new(path)).is_ok();
        assert!(way("a/b") && way(""));
        assert!(!way("link/b") && !way("a/../a") && !way("link"));
    }
}
