// SPDX-License-Identifier: Apache-2.0
//! The index files of map outputs that were read lately. The reduce tasks of a stage ask for one
//! partition after another of the same outputs, and Spark never changes an output that it has
//! committed: a retried map task has another map id.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use lodestone_model::{MapId, ReduceId, ShuffleId};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::fs::{File, read_exact_at};

/// Bytes of one offset in an index file.
const OFFSET_BYTES: u64 = 8;

/// The offsets that are kept: of a thousand maps with a thousand partitions.
const KEPT_BYTES: u64 = 8 << 20;

/// Offsets of a larger file are not kept: few of its kind would fit.
const FILE_BYTES_MAX: u64 = 128 << 10;

/// For the cache's first allocation.
const EXPECTED_FILES: usize = 1024;

/// Which map output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MapOutput {
    /// The number of its executor's directories.
    pub(crate) dirs: u64,
    pub(crate) shuffle: ShuffleId,
    pub(crate) map: MapId,
}

/// The offsets of these outputs, by their index files.
#[derive(Debug)]
pub(crate) struct MapIndexes(Cache<MapOutput, Arc<[u64]>, ByBytes>);

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<MapOutput, Arc<[u64]>> for ByBytes {
    fn weight(&self, _: &MapOutput, offsets: &Arc<[u64]>) -> u64 {
        (size_of::<MapOutput>() + size_of_val(offsets.as_ref())) as u64
    }
}

impl Default for MapIndexes {
    fn default() -> Self {
        Self(Cache::with_weighter(EXPECTED_FILES, KEPT_BYTES, ByBytes))
    }
}

impl MapIndexes {
    /// Returns the start of the first and the end of the last of these partitions in the data file.
    /// Opens the index file if its offsets are not known.
    pub(crate) fn offsets(
        &self,
        output: MapOutput,
        reduces: &Range<ReduceId>,
        open: impl FnOnce() -> io::Result<Arc<dyn File>>,
    ) -> io::Result<(u64, u64)> {
        if let Some(known) = self.0.get(&output) {
            return of(&known, reduces);
        }
        let file = open()?;
        let bytes = file.size()?;
        if bytes > FILE_BYTES_MAX {
            return Ok((
                offset_in(file.as_ref(), reduces.start)?,
                offset_in(file.as_ref(), reduces.end)?,
            ));
        }
        let mut content = vec![0; bytes as usize];
        read_exact_at(file.as_ref(), &mut content, 0)?;
        let (offsets, _) = content.as_chunks();
        let all: Arc<[u64]> = offsets.iter().map(|one| u64::from_be_bytes(*one)).collect();
        let found = of(&all, reduces)?;
        self.0.insert(output, all);
        Ok(found)
    }
}

fn of(offsets: &[u64], reduces: &Range<ReduceId>) -> io::Result<(u64, u64)> {
    let at = |reduce: ReduceId| offsets.get(reduce.0 as usize).copied();
    let found = at(reduces.start).zip(at(reduces.end));
    found.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

fn offset_in(file: &dyn File, reduce: ReduceId) -> io::Result<u64> {
    let mut bytes = [0; OFFSET_BYTES as usize];
    read_exact_at(file, &mut bytes, u64::from(reduce.0) * OFFSET_BYTES)?;
    Ok(u64::from_be_bytes(bytes))
}
