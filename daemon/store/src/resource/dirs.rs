// SPDX-License-Identifier: Apache-2.0
//! Spark's rule that spreads files over directories. Names and paths are an API: executors on this
//! host compute the same paths and read the files themselves.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lodestone_model::{ReduceId, ShuffleKey};
use lodestone_planted::{self as planted, Bug};

use super::foreign::ForeignPath;
use super::foreign_disks::DiskUse;
use super::names::HeldNames;

/// How the names of the directories begin that a block manager makes (Spark's `DiskBlockManager`).
/// If they are removed, so are the blocks of the executor.
const OWN_PREFIX: &str = "blockmgr-";

/// The number of the next [`HashedDirs`]. All tests of a process share it, also those that run the
/// threads of a store in many orders.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Directories over which files are spread by the hash of their names.
#[derive(Clone, Debug)]
pub(crate) struct HashedDirs {
    dirs: Arc<[SpreadDir]>,
    sub_dirs: u32,
    number: u64,
    /// The memory of the names, if it is counted.
    held: Option<Arc<HeldNames>>,
}

impl PartialEq for HashedDirs {
    /// The same directories may have been named twice.
    fn eq(&self, other: &Self) -> bool {
        (&self.dirs, self.sub_dirs) == (&other.dirs, other.sub_dirs)
    }
}

impl Eq for HashedDirs {}

/// One of the directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpreadDir {
    /// The name under which Spark knows it.
    pub(crate) name: String,
    /// A directory that exists, without links in its path.
    pub(crate) base: PathBuf,
    /// The directory below the base; empty if it is the base.
    pub(crate) below: PathBuf,
    /// The place of its disk.
    pub(crate) place: usize,
    /// Keeps the place, if it is the disk's own.
    pub(crate) used: Option<DiskUse>,
}

/// The hash of the name of a file, by which Spark chooses its directory: `String.hashCode` of Java.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameHash(i32);

impl NameHash {
    pub(crate) fn of(name: impl fmt::Display) -> Self {
        Self::default().and(name)
    }

    /// The hash of a name that continues so.
    pub(crate) fn and(mut self, more: impl fmt::Display) -> Self {
        // A hash takes any text.
        let _ = write!(self, "{more}");
        self
    }

    /// As Spark makes it non-negative.
    fn number(self) -> usize {
        match self.0 {
            i32::MIN => 0,
            hash => hash.unsigned_abs() as usize,
        }
    }
}

impl Write for NameHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.encode_utf16().fold(self.0, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(i32::from(unit))
        });
        Ok(())
    }
}

/// The three files of a merged partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergedFile {
    Data,
    Index,
    Meta,
}

impl HashedDirs {
    /// Neither may be empty.
    pub(crate) fn new(dirs: Vec<SpreadDir>, sub_dirs: u32) -> Self {
        assert!(
            !dirs.is_empty() && sub_dirs > 0,
            "files need a directory to be in"
        );
        Self {
            dirs: dirs.into(),
            sub_dirs,
            number: NUMBERS.fetch_add(1, Relaxed),
            held: None,
        }
    }

    /// Keeps the memory of the names with them.
    pub(crate) fn holding(self, names: Arc<HeldNames>) -> Self {
        Self {
            held: Some(names),
            ..self
        }
    }

    /// The memory of the names, if it is counted.
    pub(crate) fn held(&self) -> Option<Arc<HeldNames>> {
        self.held.clone()
    }

    /// A number that other directories never have, nor the same ones if they are named again.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The names under which Spark knows the directories.
    pub(crate) fn names(&self) -> Vec<String> {
        self.dirs.iter().map(|dir| dir.name.clone()).collect()
    }

    /// Number and bytes of the names.
    pub(crate) fn names_size(&self) -> (usize, usize) {
        let bytes = self.dirs.iter().map(|dir| dir.name.len()).sum();
        (self.dirs.len(), bytes)
    }

    pub(crate) fn bases(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|dir| dir.base.as_path())
    }

    pub(crate) fn sub_dirs(&self) -> u32 {
        self.sub_dirs
    }

    /// The places of the disks of these directories, each once.
    pub(crate) fn places(&self) -> BTreeSet<usize> {
        self.dirs.iter().map(|dir| dir.place).collect()
    }

    /// The directories, each with the place of its disk.
    pub(crate) fn with_places(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.dirs
            .iter()
            .map(|dir| (dir.place, Path::new(&dir.name)))
    }

    /// The directories at a place that are the executor's own.
    pub(crate) fn own_at(&self, place: usize) -> impl Iterator<Item = &Path> {
        let here = self.own().filter(move |dir| dir.place == place);
        here.map(|dir| Path::new(&dir.name))
    }

    /// The places of these.
    pub(crate) fn own_places(&self) -> impl Iterator<Item = usize> {
        self.own().map(|dir| dir.place)
    }

    /// Directories that belong to the executor alone. Others among its directories may exist for
    /// ever. If no name shows it, all count.
    fn own(&self) -> impl Iterator<Item = &SpreadDir> {
        let is_own = |dir: &&SpreadDir| {
            let name = Path::new(&dir.name).file_name();
            name.is_some_and(|name| name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes()))
        };
        let all = !self.dirs.iter().any(|dir| is_own(&dir));
        self.dirs.iter().filter(move |dir| all || is_own(dir))
    }

    /// The place of the disk of the file whose name has this hash.
    pub(crate) fn place_of(&self, hash: NameHash) -> usize {
        self.dir_of(hash).place
    }

    fn dir_of(&self, hash: NameHash) -> &SpreadDir {
        let at = match planted::is(Bug::OneDirectoryOnly) {
            true => 0,
            false => hash.number() % self.dirs.len(),
        };
        match self.dirs.get(at) {
            Some(dir) => dir,
            None => unreachable!("there is at least one directory"),
        }
    }

    /// Where the file of this name is: `<dir>/<two hex digits>/<name>`.
    pub(crate) fn path(&self, name: &str) -> ForeignPath {
        self.path_of(NameHash::of(name), name)
    }

    /// Where the file of this name is, which has this hash.
    pub(crate) fn path_of(&self, hash: NameHash, name: &str) -> ForeignPath {
        let sub_dir = (hash.number() / self.dirs.len()) % self.sub_dirs as usize;
        let file = PathBuf::from(format!("{sub_dir:02x}/{name}"));
        let dir = self.dir_of(hash);
        ForeignPath {
            base: dir.base.clone(),
            below: dir.below.join(file),
            place: dir.place,
        }
    }

    /// Where a file of a merged partition is.
    pub(crate) fn merged(
        &self,
        key: &ShuffleKey,
        reduce: ReduceId,
        which: MergedFile,
    ) -> ForeignPath {
        self.path(&which.name(key, reduce).to_string())
    }

    /// The place of the disk of a file of a merged partition.
    pub(crate) fn place_of_merged(
        &self,
        key: &ShuffleKey,
        reduce: ReduceId,
        which: MergedFile,
    ) -> usize {
        self.place_of(NameHash::of(which.name(key, reduce)))
    }
}

impl MergedFile {
    /// Its name, as Spark's executors know it.
    fn name(self, key: &ShuffleKey, reduce: ReduceId) -> impl fmt::Display {
        let suffix = match self {
            Self::Data => "data",
            Self::Index => "index",
            Self::Meta => "meta",
        };
        let ShuffleKey {
            app,
            shuffle,
            generation,
            ..
        } = key;
        fmt::from_fn(move |f| {
            write!(
                f,
                "shuffleMerged_{app}_{shuffle}_{generation}_{reduce}.{suffix}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        // "hello world", "" and "é€" by hand from the definition; the last is Java's well-known
        // string with the smallest hash of all.
        let number = |name: &str| NameHash::of(name).number();
        assert_eq!(number("hello world"), 1_794_106_052);
        assert_eq!(number(""), 0);
        assert_eq!(number("\u{e9}\u{20ac}"), 0xe9 * 31 + 0x20ac);
        assert_eq!(number("polygenelubricants"), 0);
        assert_eq!(
            NameHash::of("hello").and(" ").and("world"),
            NameHash::of("hello world")
        );
    }

    #[test]
    fn files_are_where_spark_looks_for_them() {
        // hashCode = 1794106052; directory 1794106052 % 3 = 2, subdirectory (1794106052 / 3) % 64 =
        // 22.
        let dir = |name: &str| SpreadDir {
            name: name.into(),
            base: name.into(),
            below: PathBuf::new(),
            place: name.len(),
            used: None,
        };
        let dirs = HashedDirs::new(["/a", "/b", "/c"].map(dir).into(), 64);
        let path = dirs.path("hello world");
        assert_eq!(path.to_string(), "/c/16/hello world");
    }
}
