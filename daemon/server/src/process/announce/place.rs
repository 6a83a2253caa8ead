// SPDX-License-Identifier: Apache-2.0
//! The place of the announce file. Its directory may be one that others can write to: a link there
//! leads to another file, and a file may have a second name elsewhere. The daemon writes to no such
//! thing; it puts a new file in its place.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Longest line that a daemon writes.
pub(super) const LINE_BYTES_MAX: usize = 4096;

/// The beginning of each line that a daemon writes.
const LINE_BEGINNING: &[u8] = b"lodestone ";

/// Why the daemon leaves the place as it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("this is no file")]
    NoFile,
    #[error("this file has other content")]
    OtherContent,
    #[error("a process holds this file, which another user owns")]
    HeldByAnother,
}

/// A file at the place. The line in it may be that of a daemon that serves.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) file: File,
    /// Another user owns it.
    pub(super) is_of_another: bool,
}

/// Opens the file, which is made if there is none. Returns `None` if another process changes the
/// place at the moment. Does not empty the file.
pub(super) fn open(path: &Path) -> Result<Option<Place>, PlaceError> {
    let opened = to_write()
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => Some(file),
        Err(error) if error.kind() == ErrorKind::NotFound => create(path)?,
        Err(error) if is_link(&error) => match fs::metadata(path) {
            // A device or a pipe, such as /dev/stdout: to replace the link would break it.
            Ok(target) if !target.is_file() => return Err(PlaceError::NoFile),
            _ => replace(path)?,
        },
        Err(error) => return Err(error.into()),
    };
    let Some(file) = file else { return Ok(None) };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(PlaceError::NoFile);
    }
    if !is_announcement(&file, found.len())? {
        return Err(PlaceError::OtherContent);
    }
    let is_of_another = found.uid() != geteuid().as_raw();
    Ok(Some(Place {
        file,
        is_of_another,
    }))
}

impl Place {
    /// Takes the lock, unless another process has it, and returns the file to write to. If this is
    /// not a file of this user with this name only, no daemon has it any more, and a new one comes
    /// into its place.
    pub(super) fn take(&self, path: &Path) -> Result<Option<File>, PlaceError> {
        if !try_lock(&self.file)? {
            return Ok(None);
        }
        if is_ours(&self.file.metadata()?) {
            return Ok(Some(self.file.try_clone()?));
        }
        match replace(path)? {
            Some(file) if try_lock(&file)? => Ok(Some(file)),
            _ => Ok(None),
        }
    }
}

/// Takes the lock of an open file or directory, unless another process has it.
fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn to_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
}

/// Makes the file, and follows no link.
fn create(path: &Path) -> Result<Option<File>, PlaceError> {
    match to_write().create_new(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Puts a new file in the place of a link, or of a file that has another owner or another name. One
/// process at a time does so: another one might replace the file that this one is about to lock.
fn replace(path: &Path) -> Result<Option<File>, PlaceError> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let dir = File::open(parent.unwrap_or(Path::new(".")))?;
    if !try_lock(&dir)? || fs::symlink_metadata(path).is_ok_and(|found| is_ours(&found)) {
        return Ok(None);
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let fresh = path.with_file_name(name);
    match fs::remove_file(&fresh) {
        // A daemon that was killed here has left it.
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = create(&fresh)?;
    fs::rename(&fresh, path)?;
    Ok(file)
}

/// A file that this user made, under one name.
fn is_ours(found: &fs::Metadata) -> bool {
    found.is_file() && found.uid() == geteuid().as_raw() && found.nlink() == 1
}

/// Returns true for a file that is empty, or begins as a ready line does. After a loss of power a
/// file may have its old length, and zeros in place of its content.
fn is_announcement(file: &File, bytes: u64) -> io::Result<bool> {
    let mut content = vec![0; LINE_BYTES_MAX];
    let count = file.read_at(&mut content, 0)?;
    content.truncate(count);
    let is_blank = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    let begins_like_a_line = content.iter().zip(LINE_BEGINNING).all(|(a, b)| a == b);
    Ok(begins_like_a_line || (bytes <= LINE_BYTES_MAX as u64 && content.iter().all(is_blank)))
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}
