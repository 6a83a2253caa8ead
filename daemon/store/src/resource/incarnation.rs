// SPDX-License-Identifier: Apache-2.0
//! The directory of one incarnation, `lodestone-<16 hex digits>`: made at open, removed at close,
//! or by the next daemon if this one was killed. If executors have registered, close leaves the
//! directory with the registrations for the next daemon.
//!
//! ```text
//! lodestone-<incarnation>/
//!   lock                  flock held while the daemon lives
//!   LODESTONE             marker, written after the lock is held: the directory is ours to remove
//!   probe                 only while a bad disk is tried
//!   executors-<n>         see `state/registrations.rs`
//!   handover              see `handover/mod.rs`
//!   <shuffle>/<n>.data    one large partition (`merge/write_out.rs`)
//!   <shuffle>/spill.data  segments of other partitions that left memory
//! ```
//!
//! Removal goes by names: a file that this daemon cannot have made stays, and so does its
//! directory.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use lodestone_planted::{self as planted, Bug};

use super::Environment;
use super::data_files::remove_data;
use super::disk::PROBE_NAME;
use super::random::Random;
use crate::fs::{Access, DirAccess, Entry, Fs, Kind, Lock, Open, read_exact_at, write_all_at};

pub(crate) const PREFIX: &str = "lodestone-";
const MARKER_NAME: &str = "LODESTONE";
const MARKER: &[u8] = b"lodestone store 1\n";
const LOCK_NAME: &str = "lock";
const REGISTRATIONS_PREFIX: &str = "executors-";

/// A directory that others have changed.
const STAYS: &str = "a directory with the name of a daemon's stays: remove it if no daemon uses it";

/// Random non-zero number of an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub(crate) NonZeroU64);

impl Incarnation {
    /// The id as it travels on the wire.
    pub fn as_i64(self) -> i64 {
        self.0.get().cast_signed()
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The incarnation of this daemon, its directories and their locks.
pub(crate) type StartDirs = (Incarnation, Vec<PathBuf>, Vec<Box<dyn Lock>>);

/// The reason why the store could not be opened. The text names the directory, and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No directory was given.
    #[error("no data directory given: name at least one")]
    NoDirectory,
    /// More directories than the store can number.
    #[error("{0} data directories given: at most 1024 are supported")]
    TooManyDirectories(usize),
    /// The same directory is given twice, and would count one disk as two.
    #[error("data directory {} is given twice: name each disk once", .0.display())]
    GivenTwice(PathBuf),
    /// The directory does not exist.
    #[error("data directory {} does not exist: create it, or name another", .0.display())]
    Missing(PathBuf),
    /// The path is something else.
    #[error("{} is not a directory: name a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The user of this process may not write there.
    #[error(
        "data directory {} is not writable: make this user its owner, or name another ({source})",
        dir.display()
    )]
    NotWritable {
        /// The directory.
        dir: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Any other error of the disk.
    #[error(
        "data directory {} cannot be used: {source}; check the disk, or name another",
        dir.display()
    )]
    Unusable {
        /// The directory.
        dir: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No random numbers.
    #[error("no random numbers from the system: {0}")]
    NoRandom(io::Error),
}

/// A new non-zero id.
pub(crate) fn draw(random: &dyn Random) -> Result<Incarnation, OpenError> {
    if planted::is(Bug::IncarnationReused) {
        return Ok(Incarnation(NonZeroU64::MIN));
    }
    loop {
        let number = random.next_u64().map_err(OpenError::NoRandom)?;
        if let Some(number) = NonZeroU64::new(number) {
            return Ok(Incarnation(number));
        }
    }
}

/// Makes and locks this incarnation's directory in `dir`.
pub(crate) fn create(
    dir: &Path,
    incarnation: Incarnation,
    environment: &Environment,
) -> Result<(PathBuf, Box<dyn Lock>), OpenError> {
    let fs = environment.fs.as_ref();
    match fs.kind(dir) {
        Ok(Kind::Directory) => {}
        Ok(_) => return Err(OpenError::NotADirectory(dir.into())),
        Err(source) => return Err(refused(dir, source)),
    }
    let root = dir.join(format!("{PREFIX}{incarnation}"));
    fs.create_dir(&root, Access::Private)
        .map_err(|source| refused(dir, source))?;
    let made = fs.try_lock(&root.join(LOCK_NAME)).and_then(|lock| {
        let lock = lock.ok_or(ErrorKind::AlreadyExists)?;
        let marker = fs.open(&root.join(MARKER_NAME), Open::Create)?;
        write_all_at(marker.as_ref(), &[MARKER], 0)?;
        Ok(lock)
    });
    match made {
        Ok(lock) => Ok((root, lock)),
        Err(source) => {
            remove(fs, &root, &|| {});
            Err(refused(dir, source))
        }
    }
}

fn refused(dir: &Path, source: io::Error) -> OpenError {
    let dir = dir.to_path_buf();
    match source.kind() {
        ErrorKind::NotFound => OpenError::Missing(dir),
        ErrorKind::NotADirectory => OpenError::NotADirectory(dir),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            OpenError::NotWritable { dir, source }
        }
        _ => OpenError::Unusable { dir, source },
    }
}

/// The directory of an incarnation that has ended. No other daemon takes it while this value
/// exists.
pub(crate) struct Leftover {
    pub(crate) root: PathBuf,
    access: DirAccess,
    lock: Box<dyn Lock>,
}

impl Leftover {
    pub(crate) fn is_named(&self, name: &OsStr) -> bool {
        self.root.file_name() == Some(name)
    }

    /// Returns the directory and its lock, for a daemon that takes them over.
    pub(crate) fn into_parts(self) -> (PathBuf, Box<dyn Lock>) {
        (self.root, self.lock)
    }
}

/// The directories of ended incarnations in a data directory.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) found: Vec<Leftover>,
    /// Others may have changed these, so that nothing in them counts.
    pub(crate) doubtful: Vec<Leftover>,
    /// False if the disk did not list all of its entries: there may be more directories.
    pub(crate) is_all: bool,
}

/// Finds the directories of ended incarnations in `dir`: directories of this user with our name and
/// our marker whose lock is free. Where others may write to `dir`, they may plant such directories;
/// also one that this user made, if it has moved and they may write to it.
pub(crate) fn leftovers(dir: &Path, fs: &dyn Fs) -> Left {
    let mut left = Left {
        is_all: true,
        ..Left::default()
    };
    let entries = fs.list(dir).unwrap_or_else(|error| {
        left.miss(dir, &error);
        Vec::new()
    });
    for entry in entries {
        let named_like_ours = entry.name.to_str().is_some_and(|name| {
            name.strip_prefix(PREFIX)
                .is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
        });
        let root = dir.join(&entry.name);
        if !named_like_ours || entry.kind != Kind::Directory {
            continue;
        }
        match leftover_at(&root, fs) {
            Ok(Some(leftover)) => left.add(leftover),
            Ok(None) => {}
            Err(error) => left.miss(&root, &error),
        }
    }
    left
}

impl Left {
    fn add(&mut self, leftover: Leftover) {
        if leftover.access.is_closed() {
            self.found.push(leftover);
            return;
        }
        tracing::warn!(
            dir = %leftover.root.display(), mode = %leftover.access,
            "other users may write to this directory of an earlier daemon: its executors and \
             remote shuffles are lost; keep the directory at mode 700"
        );
        self.doubtful.push(leftover);
    }

    fn miss(&mut self, path: &Path, error: &io::Error) {
        tracing::warn!(path = %path.display(), %error, "earlier daemons are not found");
        // A directory of another user was never ours.
        self.is_all &= error.kind() == ErrorKind::PermissionDenied;
    }
}

/// Returns a directory of this user with our marker whose lock is free.
fn leftover_at(root: &Path, fs: &dyn Fs) -> io::Result<Option<Leftover>> {
    let access = fs.dir_access(root)?;
    if !access.is_own {
        return Ok(None);
    }
    match free_lock(root, fs) {
        // Nothing in this directory counts. So whatever others put into it keeps no other one.
        Err(error) if !access.is_closed() => {
            tracing::warn!(dir = %root.display(), %error, "{STAYS}");
            Ok(None)
        }
        lock => Ok(lock?.map(|lock| Leftover {
            root: root.into(),
            access,
            lock,
        })),
    }
}

/// Takes the lock of a directory with our marker. If one of the two is a pipe, a link or the like,
/// others have been there, and the daemon may be alive.
fn free_lock(root: &Path, fs: &dyn Fs) -> io::Result<Option<Box<dyn Lock>>> {
    let entries = fs.list(root)?;
    for name in [MARKER_NAME, LOCK_NAME] {
        let found = entries.iter().find(|entry| entry.name == name);
        if found.is_some_and(|entry| entry.kind != Kind::File) {
            tracing::warn!(dir = %root.display(), name, "this is no file: {STAYS}");
            return Ok(None);
        }
    }
    match has_marker(root, fs)? || planted::is(Bug::MarkerUnchecked) {
        true => fs.try_lock(&root.join(LOCK_NAME)),
        false => Ok(None),
    }
}

fn has_marker(root: &Path, fs: &dyn Fs) -> io::Result<bool> {
    let mut found = [0; MARKER.len()];
    let read = fs
        .open(&root.join(MARKER_NAME), Open::Read)
        .and_then(|file| read_exact_at(file.as_ref(), &mut found, 0));
    match read {
        Ok(()) => Ok(found == MARKER),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::UnexpectedEof => Ok(false),
            _ => Err(error),
        },
    }
}

/// Removes an incarnation's directory and the files that a daemon makes in it. The marker goes
/// last, so that the next daemon completes a removal that was interrupted. It stays beside what
/// could not be removed: without it no daemon would touch the directory.
/// Calls `got_on` after each file of a shuffle.
pub(crate) fn remove(fs: &dyn Fs, root: &Path, got_on: &dyn Fn()) {
    remove_data(fs, root, got_on);
    remove_registrations(fs, root);
    if has_own(fs, root) && !planted::is(Bug::MarkerAlwaysRemoved) {
        tracing::warn!(dir = %root.display(), "a directory is not empty: the next daemon tries it");
        return;
    }
    for name in [PROBE_NAME, LOCK_NAME, MARKER_NAME] {
        // A missing file is fine, and any other trouble shows when the directory cannot be removed.
        let _ = fs.remove_file(&root.join(name));
    }
    if let Err(error) = fs.remove_dir(root) {
        tracing::warn!(dir = %root.display(), %error, "the directory of this daemon stays");
    }
}

/// True if there may be more in an incarnation's directory than the files that go last.
fn has_own(fs: &dyn Fs, root: &Path) -> bool {
    let is_own = |entry: &Entry| {
        let name = entry.name.to_str().unwrap_or_default();
        entry.kind == Kind::Directory || name.starts_with(REGISTRATIONS_PREFIX)
    };
    match fs.list(root) {
        Ok(entries) => entries.iter().any(is_own),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// The files of registrations in an incarnation's directory, with their numbers, oldest first.
pub(crate) fn registration_files(fs: &dyn Fs, root: &Path) -> io::Result<Vec<(u64, String)>> {
    let entries = fs.list(root)?;
    let files = entries.iter().filter(|entry| entry.kind == Kind::File);
    let mut numbered: Vec<_> = files
        .filter_map(|entry| {
            let name = entry.name.to_str()?;
            let number = name.strip_prefix(REGISTRATIONS_PREFIX)?.parse().ok()?;
            Some((number, name.to_owned()))
        })
        .collect();
    numbered.sort_unstable();
    Ok(numbered)
}

/// The name of the file of registrations with this number.
pub(crate) fn registration_file_name(number: u64) -> String {
    format!("{REGISTRATIONS_PREFIX}{number}")
}

fn remove_registrations(fs: &dyn Fs, root: &Path) {
    for (_, name) in registration_files(fs, root).unwrap_or_default() {
        // A file that stays shows when its directory cannot be removed.
        let _ = fs.remove_file(&root.join(name));
    }
}
