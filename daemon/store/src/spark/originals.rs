// SPDX-License-Identifier: Apache-2.0
//! Blocks that map tasks wrote: Spark's own files in the executors' directories.
//!
//! ```text
//! shuffle_<shuffle>_<map id>_0.index   big-endian i64: offset of each partition, and the end
//! shuffle_<shuffle>_<map id>_0.data    the partitions, one after another
//! rdd_<rdd>_<split>                    a persisted block, whole
//! ```

use std::io;
use std::ops::Range;
use std::sync::Arc;

use lodestone_model::{AppId, Code, MapId, ReduceId, Refusal, ShuffleId};

use crate::fs::{File, Open, Version};
use crate::life::fetch::{ChunkData, Part};
use crate::resource::dirs::HashedDirs;
use crate::resource::disk::code_of;
use crate::resource::foreign::ForeignPath;
use crate::resource::map_indexes::MapOutput;
use crate::state::store::Store;

impl Store {
    /// Ok if the executor is registered. Asks no disk.
    pub fn check_executor(&self, app: &AppId, exec: &str) -> Result<(), Refusal> {
        self.executor_dirs(app, exec).map(drop)
    }

    /// Returns the places of the disks that [`Store::original_blocks`] reads from. Asks no disk. An
    /// executor that is not registered has none.
    pub fn places_of_original(
        &self,
        app: &AppId,
        exec: &str,
        shuffle: ShuffleId,
        map: MapId,
    ) -> Vec<usize> {
        self.places_of_output(app, exec, (shuffle, map), &["data", "index"])
    }

    /// Returns the places of these files of a map output.
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
        let place = |suffix: &&str| dirs.place_of(&format!("shuffle_{shuffle}_{map}_0.{suffix}"));
        let mut places: Vec<_> = suffixes.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Returns the place of the disk of a persisted block: see [`Store::places_of_original`].
    pub fn places_of_rdd_block(&self, app: &AppId, exec: &str, rdd: i32, split: i32) -> Vec<usize> {
        let dirs = self.executor_dirs(app, exec);
        let place = |dirs: HashedDirs| dirs.place_of(&format!("rdd_{rdd}_{split}"));
        dirs.map(place).into_iter().collect()
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
        if reduces.start >= reduces.end {
            return Err(Code::Malformed.because("empty range of partitions"));
        }
        let dirs = self.executor_dirs(app, exec)?;
        let path = || dirs.path(&format!("shuffle_{shuffle}_{map}_0.data"));
        let index = || dirs.path(&format!("shuffle_{shuffle}_{map}_0.index"));
        let output = MapOutput {
            dirs: dirs.number(),
            shuffle,
            map,
        };
        let foreign = self.resources.foreign();
        let opened = self
            .resources
            .map_files
            .file(output, || foreign.open_to_keep(&path()));
        let (data, version) = opened.map_err(|error| refusal(&path(), &error))?;
        let open = || foreign.open(&index(), Open::Read);
        let known = &self.resources.map_indexes;
        let offsets = known.offsets(output, version, &reduces, open);
        let (start, end) = offsets.map_err(|error| refusal(&index(), &error))?;
        let Some(length) = end.checked_sub(start) else {
            let detail = format!("{}: offsets go back", index());
            return Err(Code::DiskFailed.because(detail));
        };
        part(path, data, version, start, length)
    }

    /// Returns the bytes of a persisted block.
    pub fn rdd_block(
        &self,
        app: &AppId,
        exec: &str,
        rdd: i32,
        split: i32,
    ) -> Result<ChunkData, Refusal> {
        let dirs = self.executor_dirs(app, exec)?;
        let path = dirs.path(&format!("rdd_{rdd}_{split}"));
        let refuse = |error| refusal(&path, &error);
        let file = self.resources.foreign().open(&path, Open::Read);
        let file = file.map_err(refuse)?;
        let version = file.version().map_err(refuse)?;
        part(|| path.clone(), file, version, 0, version.bytes)
    }
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
