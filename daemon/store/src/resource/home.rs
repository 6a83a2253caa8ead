// SPDX-License-Identifier: Apache-2.0
//! Where the files of one generation of a shuffle are.

use std::io::{self, ErrorKind};

use lodestone_model::{Code, ReduceId, Refusal, ShuffleKey, is_path_segment};
use lodestone_planted::{self as planted, Bug};
use serde::{Deserialize, Serialize};

use super::Resources;
use super::bodies::Body;
use super::data_files::{SHARED_FILE_NAME, data_file_name};
use super::dirs::{HashedDirs, MergedFile};
use super::disk::{DiskIndex, code_of};
use super::file_path::FilePath;
use super::flow::{Line, Writing};
use super::timed_mutex::{Caller, TimedMutex, Wait};
use super::trash::Garbage;
use crate::fs::{Open, write_in_pieces};
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Characters of the application id that a directory name keeps: enough to recognise it, and few
/// enough for any filesystem.
const NAME_CHARS_MAX: usize = 96;

/// A file of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DataFile {
    /// The one on that disk into which all partitions may be written.
    Shared(DiskIndex),
    /// A partition's own.
    Own(DiskIndex),
}

/// The directories of one generation.
#[derive(Debug)]
pub(crate) enum Home {
    /// A directory of its own on each of our disks, with the partitions spread over the disks.
    Ours {
        dir_name: String,
        spread: u64,
        num_maps: u32,
        shared_ends: Vec<SharedEnd>,
        /// Another hand removed or replaced some of its files.
        is_lost: AtomicBool,
    },
    /// The application's merge directories, where Spark's executors look for merged files.
    Spark { dirs: HashedDirs, key: ShuffleKey },
}

/// The end of a file that many partitions are written to. To make a file costs a filesystem more
/// than to write some tens of kilobytes: ten thousand partitions that leave memory must not become
/// ten thousand files.
///
/// The lock is held during a write; the kernel, too, lets only one thread write to a file at a
/// time.
#[derive(Debug, Default)]
pub(crate) struct SharedEnd {
    end: TimedMutex<u64>,
}

/// A home as an entry of the handover.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HomeEntry {
    dir_name: String,
    spread: u64,
    num_maps: u32,
    shared_ends: Vec<u64>,
}

impl DataFile {
    pub(crate) fn disk(self) -> DiskIndex {
        match self {
            Self::Shared(disk) | Self::Own(disk) => disk,
        }
    }
}

impl Home {
    /// Returns a home of ours. `number` is unique in the store, so that no two generations share a
    /// directory.
    pub(crate) fn ours(key: &ShuffleKey, number: u64, num_maps: u32, disks: usize) -> Self {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        };
        let app: String = key
            .app
            .as_str()
            .chars()
            .map(plain)
            .take(NAME_CHARS_MAX)
            .collect();
        let dir_name = format!("{app}-s{}-m{}-{number}", key.shuffle, key.generation);
        Self::Ours {
            dir_name,
            spread: number,
            num_maps,
            shared_ends: std::iter::repeat_with(SharedEnd::default)
                .take(disks)
                .collect(),
            is_lost: false.into(),
        }
    }

    /// Returns the entry of a registered shuffle that no thread writes to any more.
    pub(crate) fn to_entry(&self) -> Option<HomeEntry> {
        match self {
            Self::Ours {
                dir_name,
                spread,
                num_maps,
                shared_ends,
                ..
            } => Some(HomeEntry {
                dir_name: dir_name.clone(),
                spread: *spread,
                num_maps: *num_maps,
                shared_ends: shared_ends
                    .iter()
                    .map(|shared| *shared.end.wait_even_if_spoiled())
                    .collect(),
            }),
            Self::Spark { .. } => None,
        }
    }

    /// Its directory's name on each of our disks.
    pub(crate) fn dir_name(&self) -> Option<&str> {
        match self {
            Self::Ours { dir_name, .. } => Some(dir_name),
            Self::Spark { .. } => None,
        }
    }

    /// Returns the home that the entry describes. Its directory must be in ours.
    pub(crate) fn from_entry(entry: HomeEntry) -> Result<Self, Refusal> {
        if !is_path_segment(&entry.dir_name) {
            let detail = format!("{:?} is no name of a directory", entry.dir_name);
            return Err(Code::Internal.because(detail));
        }
        let with_end = |end| SharedEnd {
            end: TimedMutex::new(end),
        };
        Ok(Self::Ours {
            dir_name: entry.dir_name,
            spread: entry.spread,
            num_maps: entry.num_maps,
            shared_ends: entry.shared_ends.into_iter().map(with_end).collect(),
            is_lost: false.into(),
        })
    }

    /// Returns a disk that accepts writes, for the next bytes of a partition: the one that `pick`
    /// returns for a number by which partitions are spread.
    pub(crate) fn disk(
        &self,
        reduce: ReduceId,
        pick: impl FnOnce(u64) -> Result<DiskIndex, Code>,
    ) -> Result<DiskIndex, Code> {
        match self {
            Self::Ours { .. } if self.is_lost() => Err(Code::DiskFailed),
            Self::Ours { spread, .. } => pick(spread_of(*spread, reduce)),
            Self::Spark { .. } => Ok(0),
        }
    }

    /// Returns the place of a partition's next bytes, as far as is known. `own` is the disk of its
    /// own file.
    pub(crate) fn next_place(
        &self,
        resources: &Resources,
        reduce: ReduceId,
        own: Option<DiskIndex>,
    ) -> Option<usize> {
        let Self::Ours { spread, .. } = self else {
            return Some(resources.disks.len());
        };
        let (disks, environment) = (&resources.disks, &resources.environment);
        let spread = spread_of(*spread, reduce);
        let disk = own
            .filter(|own| !disks.gives_way(*own, environment))
            .filter(|own| disks.is_well(*own, environment))
            .or_else(|| disks.known_pick(spread, environment));
        disk.map(usize::from)
    }

    /// True if its generation can only be removed.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Ours { is_lost, .. } => is_lost.load(Relaxed),
            Self::Spark { .. } => false,
        }
    }

    /// Records a failed write and returns the code of the answer. Where a file is at fault and its
    /// disk is not, this generation is lost, and the disk stays in use.
    pub(crate) fn report(&self, resources: &Resources, disk: DiskIndex, error: &io::Error) -> Code {
        let (disks, environment) = (&resources.disks, &resources.environment);
        let Self::Ours { is_lost, .. } = self else {
            return code_of(error);
        };
        if !names_file(error) {
            return disks.report(disk, error, environment);
        }
        match disks.probe(disk, environment) {
            Ok(()) => {
                if !is_lost.swap(true, Relaxed) {
                    let dir = self.dir_name();
                    tracing::error!(dir, %error, "files were removed: this shuffle ends here");
                }
                Code::DiskFailed
            }
            // As many writes to this disk are on their way as may be: a repeated push finds out.
            Err(busy) if code_of(&busy) == Code::Overloaded => Code::Overloaded,
            Err(_) => disks.report(disk, error, environment),
        }
    }

    /// Returns how many files are worth trying for one write.
    pub(crate) fn tries(&self, resources: &Resources) -> usize {
        match self {
            // A partition's own file, which stays where it is, may be the first to fail.
            Self::Ours { .. } => resources.disks.len() + 1,
            Self::Spark { .. } => 1,
        }
    }

    /// Returns the place whose thread writes the file out: the number of the data directory, or the
    /// next one for all merge directories of Spark.
    pub(crate) fn write_place(&self, resources: &Resources, data_file: DataFile) -> usize {
        match self {
            Self::Ours { .. } => usize::from(data_file.disk()),
            Self::Spark { .. } => resources.disks.len(),
        }
    }

    /// Returns the place of the disk of a file.
    pub(crate) fn place(&self, data_file: DataFile, reduce: ReduceId) -> usize {
        match self {
            Self::Ours { .. } => usize::from(data_file.disk()),
            Self::Spark { dirs, key } => dirs.place_of_merged(key, reduce, MergedFile::Data),
        }
    }

    pub(crate) fn path(
        &self,
        resources: &Resources,
        data_file: DataFile,
        reduce: ReduceId,
    ) -> FilePath {
        match self {
            Self::Ours { dir_name, .. } => {
                let dir = resources.disks.root(data_file.disk()).join(dir_name);
                FilePath::Ours(match data_file {
                    DataFile::Shared(_) => dir.join(SHARED_FILE_NAME),
                    DataFile::Own(_) => dir.join(data_file_name(reduce)),
                })
            }
            Self::Spark { dirs, key } => {
                FilePath::Foreign(dirs.merged(key, reduce, MergedFile::Data))
            }
        }
    }

    /// Writes `slices` to the end of the file that the partitions of a disk share, and returns the
    /// offset of the first byte.
    pub(crate) fn write_shared(
        &self,
        resources: &Resources,
        body: Option<Body<'_>>,
        disk: DiskIndex,
        slices: &[&[u8]],
    ) -> io::Result<u64> {
        let Self::Ours { shared_ends, .. } = self else {
            return Err(ErrorKind::Unsupported.into());
        };
        let shared_end = shared_ends
            .get(usize::from(disk))
            .ok_or(ErrorKind::NotFound)?;
        let wait = Wait::InTime;
        let end = shared_end.end.lock_for(&Caller { wait, body });
        let mut end = end.map_err(|_| ErrorKind::ResourceBusy)?;
        let offset = *end;
        let file = (DataFile::Shared(disk), ReduceId(0));
        let flow = resources.disks.flow_at(usize::from(disk));
        let (clock, bytes) = (
            resources.environment.clock.as_ref(),
            body.map(|b| b.bytes()),
        );
        let writing = flow.begin_with(Line::Short, bytes.unwrap_or(0), clock)?;
        *end = self.append(resources, &writing, file, offset, slices)?;
        Ok(offset)
    }

    /// Writes `slices` at `end`, the end of the file, and returns the new end. If `end` is 0,
    /// creates the file. After an error none of the bytes count. The caller has a turn at the disk.
    pub(crate) fn append(
        &self,
        resources: &Resources,
        writing: &Writing<'_>,
        (data_file, reduce): (DataFile, ReduceId),
        end: u64,
        slices: &[&[u8]],
    ) -> io::Result<u64> {
        let path = &self.path(resources, data_file, reduce);
        let file = match end {
            0 => path.create(resources),
            _ => path.open(resources, Open::Write),
        }?;
        let length: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let got_on = || {
            writing.got_on();
            resources.disks.count_step();
        };
        let start = match planted::is(Bug::TornEndForgotten) {
            true => file.size()?,
            false => end,
        };
        match write_in_pieces(file.as_ref(), slices, start, got_on) {
            Err(error) if !planted::is(Bug::FailedWriteAcknowledged) => {
                // Cut back at once: torn bytes must not fill a full disk. A file that cannot be cut
                // back or removed now is never read, and goes with the directory.
                drop(match end {
                    0 => path.remove(resources),
                    _ if planted::is(Bug::TornEndForgotten) => Ok(()),
                    _ => file.set_size(end),
                });
                Err(error)
            }
            _ => {
                if let Self::Ours { .. } = self {
                    resources.disks.count_written(data_file.disk(), length);
                }
                Ok(end + length)
            }
        }
    }

    /// Frees the space of these bytes, with a turn like a write. It says nothing of writes: a disk
    /// may do this while they hang.
    pub(crate) fn punch(
        &self,
        resources: &Resources,
        data_file: DataFile,
        reduce: ReduceId,
        (offset, length): (u64, u64),
    ) -> io::Result<()> {
        let path = self.path(resources, data_file, reduce);
        let clock = resources.environment.clock.as_ref();
        let flow = resources.disks.flow_at(self.place(data_file, reduce));
        let _turn = flow.begin(clock)?.only_asking();
        let file = path.open(resources, Open::Write)?;
        file.punch(offset, length)?;
        resources.disks.count_step();
        Ok(())
    }

    /// Throws the files of these partitions away, which are all. No thread may write to them any
    /// more.
    pub(crate) fn discard(&self, resources: &Resources, reduces: impl Iterator<Item = ReduceId>) {
        match self {
            Self::Ours { dir_name, .. } => {
                for (place, root) in resources.disks.roots().enumerate() {
                    let dir = root.join(dir_name);
                    resources.trash.put(place, Garbage::Dir(dir));
                }
            }
            Self::Spark { dirs, key } => {
                let reduces: std::sync::Arc<[ReduceId]> = reduces.collect();
                for place in dirs.places() {
                    let garbage = Garbage::Merged(dirs.clone(), key.clone(), reduces.clone());
                    resources.trash.put(place, garbage);
                }
            }
        }
    }
}

/// True if the error may be one of a file or directory, and not of the disk.
fn names_file(error: &io::Error) -> bool {
    use ErrorKind::{FileTooLarge, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(
        error.kind(),
        FileTooLarge | IsADirectory | NotADirectory | NotFound | PermissionDenied
    )
}

/// The number by which the partitions of a generation are spread over the disks.
fn spread_of(spread: u64, reduce: ReduceId) -> u64 {
    spread.wrapping_add(u64::from(reduce.0))
}
