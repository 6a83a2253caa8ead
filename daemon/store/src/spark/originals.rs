// SPDX-License-Identifier: Apache-2.0
//! Blocks that map tasks wrote: Spark's own files in the executors' directories.
//!
//! ```text
//! shuffle_<shuffle>_<map id>_0.index   big-endian i64: offset of each partition, and the end
//! shuffle_<shuffle>_<map id>_0.data    the partitions, one after another
//! rdd_<rdd>_<split>                    a persisted block, whole
//! ```

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use lodestone_model::{AppId, Code, MapId, ReduceId, Refusal, ShuffleId};

use crate::fs::{File, Open, Version};
use crate::life::fetch::{ChunkData, Part};
use crate::resource::dirs::{HashedDirs, NameHash};
use crate::resource::disk::code_of;
use crate::resource::foreign::ForeignPath;
use crate::resource::map_indexes::MapOutput;
use crate::state::store::Store;

impl Store {
    /// Ok if the executor is registered. Asks no disk.
    pub fn check_executor(&self, app: &AppId, exec: &str) -> Result<(), Refusal> {
        self.executor_dirs(app, exec).map(drop)
    }

    /// Returns the places of these files of a map output. Asks no disk. An executor that is not
    /// registered has none.
    pub(crate) fn places_of_output(
        &self,
        app: &AppId,
        exec: &str,
        (shuffle, map): (ShuffleId, MapId),
        suffixes: &[&str],
    ) -> Vec<usize> {
        let Ok(dirs) = self.executor_dirs(app, exec) else {
            return Vec::new();
        };
        let stem = stem_hash(shuffle, map);
        let places = suffixes
            .iter()
            .map(|suffix| dirs.place_of(stem.and(suffix)));
        let places: BTreeSet<_> = places.collect();
        places.into_iter().collect()
    }

    /// Finds the partitions `reduces` of one map output; the range must not be empty. Asks no disk.
    pub fn find_original(
        &self,
        app: &AppId,
        exec: &str,
        (shuffle, map): (ShuffleId, MapId),
        reduces: Range<ReduceId>,
    ) -> Result<FoundOriginal, Refusal> {
        if reduces.start >= reduces.end {
            return Err(Code::Malformed.because("empty range of partitions"));
        }
        let stem = stem_hash(shuffle, map);
        Ok(FoundOriginal {
            dirs: self.executor_dirs(app, exec)?,
            block: Block::Output(Output {
                shuffle,
                map,
                reduces,
                data: stem.and("data"),
                index: stem.and("index"),
            }),
        })
    }

    /// Finds a persisted block. Asks no disk.
    pub fn find_rdd_block(
        &self,
        app: &AppId,
        exec: &str,
        rdd: i32,
        split: i32,
    ) -> Result<FoundOriginal, Refusal> {
        let hash = NameHash::of(format_args!("rdd_{rdd}_{split}"));
        Ok(FoundOriginal {
            dirs: self.executor_dirs(app, exec)?,
            block: Block::Rdd { rdd, split, hash },
        })
    }

    /// Returns the bytes of the partitions `reduces` of one map output; the range must not be
    /// empty.
    pub fn original_blocks(
        &self,
        app: &AppId,
        exec: &str,
        shuffle: ShuffleId,
        map: MapId,
        reduces: Range<ReduceId>,
    ) -> Result<ChunkData, Refusal> {
        let found = self.find_original(app, exec, (shuffle, map), reduces)?;
        found.open(self, |_| true)
    }

    /// Returns the bytes of a persisted block.
    pub fn rdd_block(
        &self,
        app: &AppId,
        exec: &str,
        rdd: i32,
        split: i32,
    ) -> Result<ChunkData, Refusal> {
        self.find_rdd_block(app, exec, rdd, split)?
            .open(self, |_| true)
    }
}

/// A block of an executor, whose files are not looked for yet: in the directories that it had when
/// the block was found.
#[derive(Debug)]
pub struct FoundOriginal {
    dirs: HashedDirs,
    block: Block,
}

/// A block, and the hashes of the names of its files.
#[derive(Debug)]
enum Block {
    Output(Output),
    Rdd {
        rdd: i32,
        split: i32,
        hash: NameHash,
    },
}

#[derive(Debug)]
struct Output {
    shuffle: ShuffleId,
    map: MapId,
    reduces: Range<ReduceId>,
    data: NameHash,
    index: NameHash,
}

impl FoundOriginal {
    /// The places of the disks that [`FoundOriginal::open_at`] needs, in ascending order. Offsets
    /// that are kept need no index file.
    pub fn places(&self, store: &Store) -> Vec<usize> {
        match &self.block {
            Block::Output(output) if store.resources.map_indexes.has(output.key(&self.dirs)) => {
                vec![self.place()]
            }
            _ => self.all_places(),
        }
    }

    /// The places of all of its files, in ascending order.
    pub fn all_places(&self) -> Vec<usize> {
        let data = self.place();
        match &self.block {
            Block::Output(output) => {
                let index = self.dirs.place_of(output.index);
                let mut places = vec![data.min(index), data.max(index)];
                places.dedup();
                places
            }
            Block::Rdd { .. } => vec![data],
        }
    }

    /// The place of its bytes.
    pub fn place(&self) -> usize {
        self.dirs.place_of(match &self.block {
            Block::Output(output) => output.data,
            Block::Rdd { hash, .. } => *hash,
        })
    }

    /// Returns the bytes of the block, which is at one of these places: `None` if its index file is
    /// needed, and is at none of these.
    pub fn open_at(&self, store: &Store, places: &[usize]) -> Option<Result<ChunkData, Refusal>> {
        let is_missed = Cell::new(false);
        let may_read_index = |output: &Output| {
            let may_read = places.contains(&self.dirs.place_of(output.index));
            is_missed.set(!may_read);
            may_read
        };
        let opened = self.open(store, may_read_index);
        (!is_missed.get()).then_some(opened)
    }

    fn open(
        &self,
        store: &Store,
        may_read_index: impl FnOnce(&Output) -> bool,
    ) -> Result<ChunkData, Refusal> {
        match &self.block {
            Block::Output(output) => output.open(&self.dirs, store, may_read_index),
            Block::Rdd { rdd, split, hash } => {
                let path = self.dirs.path_of(*hash, &format!("rdd_{rdd}_{split}"));
                let refuse = |error| refusal(&path, &error);
                let file = store.resources.foreign().open(&path, Open::Read);
                let file = file.map_err(refuse)?;
                let version = file.version().map_err(refuse)?;
                part(|| path.clone(), file, version, 0, version.bytes)
            }
        }
    }
}

impl Output {
    fn key(&self, dirs: &HashedDirs) -> MapOutput {
        MapOutput {
            dirs: dirs.number(),
            shuffle: self.shuffle,
            map: self.map,
        }
    }

    fn open(
        &self,
        dirs: &HashedDirs,
        store: &Store,
        may_read_index: impl FnOnce(&Self) -> bool,
    ) -> Result<ChunkData, Refusal> {
        let (shuffle, map) = (self.shuffle, self.map);
        let file = |hash, suffix| {
            let name = format!("shuffle_{shuffle}_{map}_0.{suffix}");
            dirs.path_of(hash, &name)
        };
        let path = || file(self.data, "data");
        let index = || file(self.index, "index");
        let output = self.key(dirs);
        let resources = &store.resources;
        let foreign = resources.foreign();
        let opened = resources
            .map_files
            .file(output, || foreign.open_to_keep(&path()));
        let (data, version) = opened.map_err(|error| refusal(&path(), &error))?;
        let open = || match may_read_index(self) {
            true => foreign.open(&index(), Open::Read),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        let known = &resources.map_indexes;
        let offsets = known.offsets(output, version, &self.reduces, open);
        let (start, end) = offsets.map_err(|error| refusal(&index(), &error))?;
        let Some(length) = end.checked_sub(start) else {
            let detail = format!("{}: offsets go back", index());
            return Err(Code::DiskFailed.because(detail));
        };
        part(path, data, version, start, length)
    }
}

/// The hash of the beginning of the names of a map output's files.
fn stem_hash(shuffle: ShuffleId, map: MapId) -> NameHash {
    NameHash::of(format_args!("shuffle_{shuffle}_{map}_0."))
}

/// Returns a part of a file, which must be there.
fn part(
    path: impl Fn() -> ForeignPath,
    file: Arc<dyn File>,
    version: Version,
    offset: u64,
    length: u64,
) -> Result<ChunkData, Refusal> {
    let size = version.bytes;
    if offset.checked_add(length).is_none_or(|end| end > size) {
        let path = path();
        let detail = format!("{path} ends at {size}, before {offset}+{length}");
        return Err(Code::DiskFailed.because(detail));
    }
    Ok(ChunkData {
        parts: vec![Part::File {
            file,
            offset,
            length,
        }],
    })
}

fn refusal(path: &ForeignPath, error: &io::Error) -> Refusal {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::UnknownPartition,
        _ => code_of(error),
    };
    code.because(format!("Failed to open file: {path}: {error}"))
}
