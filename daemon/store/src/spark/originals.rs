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

use lodestone_model::{AppId, Code, MapId, ReduceId, Refusal, ShuffleId};

use crate::fs::Open;
use crate::life::fetch::{ChunkData, Part};
use crate::resource::disk::code_of;
use crate::resource::foreign::ForeignPath;
use crate::resource::map_indexes::MapOutput;
use crate::state::store::Store;

impl Store {
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
        let index = || dirs.path(&format!("shuffle_{shuffle}_{map}_0.index"));
        let output = MapOutput {
            dirs: dirs.number(),
            shuffle,
            map,
        };
        let open = || self.resources.foreign().open(&index(), Open::Read);
        let offsets = self.resources.map_indexes.offsets(output, &reduces, open);
        let (start, end) = offsets.map_err(|error| refusal(&index(), &error))?;
        let Some(length) = end.checked_sub(start) else {
            let detail = format!("{}: offsets go back", index());
            return Err(Code::DiskFailed.because(detail));
        };
        let data = dirs.path(&format!("shuffle_{shuffle}_{map}_0.data"));
        self.whole_or_part(&data, Some((start, length)))
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
        self.whole_or_part(&dirs.path(&format!("rdd_{rdd}_{split}")), None)
    }

    fn whole_or_part(
        &self,
        path: &ForeignPath,
        part: Option<(u64, u64)>,
    ) -> Result<ChunkData, Refusal> {
        let refuse = |error| refusal(path, &error);
        let file = self
            .resources
            .foreign()
            .open(path, Open::Read)
            .map_err(refuse)?;
        let size = file.size().map_err(refuse)?;
        let (offset, length) = part.unwrap_or((0, size));
        if offset.checked_add(length).is_none_or(|end| end > size) {
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
}

fn refusal(path: &ForeignPath, error: &io::Error) -> Refusal {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::UnknownPartition,
        _ => code_of(error),
    };
    code.because(format!("Failed to open file: {path}: {error}"))
}
