// SPDX-License-Identifier: Apache-2.0
//! The disk as the store sees it. Only [`os`] uses `std::fs`; tests tear and fail writes with the
//! `fake` one.

mod below;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod mounts;
mod os;

use std::ffi::OsString;
use std::fmt::{self, Debug};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_planted::{self as planted, Bug};

pub use mounts::Mounts;
pub use os::OsFs;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for writing.
    Write,
    /// For writing; created if missing, emptied if it exists.
    Create,
}

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: link, socket, device.
    Other,
}

/// One name in a directory. Links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name within the directory.
    pub name: OsString,
    /// The kind of the entry.
    pub kind: Kind,
}

/// The users that may use a new directory, within the process's umask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The daemon's user only.
    Private,
    /// User and group, as Spark sets it for its directories of merged files.
    Group,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Self::Private => 0o700,
            Self::Group => 0o770,
        }
    }
}

/// The users who may change the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirAccess {
    /// This process's user owns it.
    pub is_own: bool,
    /// The permission bits.
    pub mode: u32,
}

impl DirAccess {
    /// True if nobody but the owner may write to it.
    pub fn is_closed(self) -> bool {
        self.mode & 0o022 == 0
    }

    /// True if this user alone may change the entries.
    pub fn is_private(self) -> bool {
        self.is_own && self.is_closed()
    }

    /// True if others may rename and remove entries that are not theirs: in a directory with the
    /// sticky bit they may not.
    pub fn lets_others_replace(self) -> bool {
        !self.is_closed() && self.mode & 0o1000 == 0
    }
}

impl fmt::Display for DirAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:o}", self.mode)
    }
}

/// Room on the filesystem of a path, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Free for this user.
    pub free: u64,
    /// In use and free for this user: blocks that the filesystem keeps for root do not count.
    pub total: u64,
}

/// Identifies a file and its content: another file of the same name differs, and the same file
/// after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Number of the file on its disk.
    pub number: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change.
    pub changed_ns: i128,
    /// Names that the file has; none if it was removed, or another one took its name.
    pub names: u64,
}

/// An open file. Positions are always given: there is no cursor to share.
pub trait File: Send + Sync + Debug {
    /// Writes a prefix of `parts` at `offset` and returns its length in bytes.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Reads into a prefix of `into` and returns its length in bytes; 0 is the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Notes bytes that a caller has read through [`File::fd`]; `None` if the disk did not give
    /// them.
    fn count_read(&self, _bytes: Option<usize>) {}
    /// Cuts or extends the file.
    fn set_size(&self, bytes: u64) -> io::Result<()>;
    /// Frees the space of these bytes on the disk, if it can. Bytes that are read there afterwards
    /// have no meaning.
    fn punch(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Current size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Its version now.
    fn version(&self) -> io::Result<Version>;
    /// Returns the descriptor for `sendfile`; `None` if the file has none.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// An exclusive lock, released when dropped or when the process ends.
pub trait Lock: Send + Sync + Debug {}

/// An open directory that belongs to others, who may change what is in it. Paths are relative, and
/// lead to nothing outside: no link is followed. A file is opened only if it is a regular one that
/// the directory's owner or this process made.
pub trait Dir: Send + Sync + Debug {
    /// Opens a file.
    fn open(&self, below: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Makes one directory, whose parent exists.
    fn create_dir(&self, below: &Path, access: Access) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, below: &Path) -> io::Result<()>;
    /// Returns the kind of thing at a path.
    fn kind(&self, below: &Path) -> io::Result<Kind>;
    /// Returns false if an open file may still have a name in its version when it was removed.
    fn shows_removals(&self) -> bool;
}

/// The calls of a filesystem that the store makes.
pub trait Fs: Send + Sync + Debug {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// Opens a directory that belongs to others. No part of the path may be a link.
    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Dir>>;
    /// Makes one directory, whose parent exists.
    fn create_dir(&self, path: &Path, access: Access) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;
    /// Returns the kind of thing at a path; links are followed.
    fn kind(&self, path: &Path) -> io::Result<Kind>;
    /// The path without links and dots.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
    /// Returns the users who may change a directory. A link is not followed: it is nobody's
    /// directory.
    fn dir_access(&self, path: &Path) -> io::Result<DirAccess>;
    /// Returns the mounts, by which paths are assigned to disks. Asks no disk.
    fn mounts(&self) -> Mounts;
    /// Room on the filesystem of `path`.
    fn space(&self, path: &Path) -> io::Result<Space>;
    /// Locks a file, created if missing; `None` if another process holds the lock.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;
}

/// Bytes that one call gives to a file: so few that the progress of a slow disk is seen soon, and
/// so many that the call costs nothing beside the bytes.
const PIECE_BYTES: usize = 1024 * 1024;

/// Writes all of `parts`, one after another, at `offset`. After an error an unknown prefix is
/// written.
pub(crate) fn write_all_at(file: &dyn File, parts: &[&[u8]], offset: u64) -> io::Result<()> {
    write_in_pieces(file, parts, offset, || {})
}

/// Writes like [`write_all_at`], and calls `got_on` after each piece.
pub(crate) fn write_in_pieces(
    file: &dyn File,
    parts: &[&[u8]],
    mut offset: u64,
    got_on: impl Fn(),
) -> io::Result<()> {
    let pieces = parts.iter().flat_map(|part| part.chunks(PIECE_BYTES));
    let mut slices: Vec<_> = pieces.map(IoSlice::new).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        let next = rest.get(..piece(rest)).unwrap_or(rest);
        match file.write_at(next, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) if planted::is(Bug::ShortWriteTakenForWhole) => return Ok(()),
            Ok(count) => {
                offset += count as u64;
                IoSlice::advance_slices(&mut rest, count);
                got_on();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns how many of the slices are one piece.
fn piece(slices: &[IoSlice<'_>]) -> usize {
    let mut bytes = 0;
    let fitting = slices.iter().take_while(|slice| {
        bytes += slice.len();
        bytes <= PIECE_BYTES
    });
    fitting.count().max(1)
}

/// Fills `into` from `offset`; the end of the file before that is an error.
pub(crate) fn read_exact_at(file: &dyn File, mut into: &mut [u8], offset: u64) -> io::Result<()> {
    let mut position = offset;
    while !into.is_empty() {
        match file.read_at(into, position) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                position += count as u64;
                into = into.get_mut(count..).unwrap_or_default();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
