// SPDX-License-Identifier: Apache-2.0
//! The index files of map outputs that were read lately. The reduce tasks of a stage ask for one
//! partition after another of the same outputs.
//!
//! Spark may write an output again under the same name (`spark.shuffle.useOldFetchProtocol`): it
//! renames the new index file to its name, and then the new data file. So offsets belong to the
//! data file that was open when they were read: they are right for it, or for one that takes its
//! name later, and then they are read again.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use lodestone_model::{MapId, ReduceId, ShuffleId};
use lodestone_planted::{self as planted, Bug};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::fs::{File, Version, read_exact_at};

/// Bytes of one offset in an index file.
const OFFSET_BYTES: u64 = 8;

/// The offsets that are kept: of a thousand maps with a thousand partitions.
const KEPT_BYTES: u64 = 8 << 20;

/// Offsets of a larger file are not kept: to read all of it would take longer than two offsets.
const FILE_BYTES_MAX: u64 = 2_049 * OFFSET_BYTES;

/// Memory that an entry needs beside its key and its offsets.
const ENTRY_BYTES: usize = 128;

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

/// The offsets of an output, and the version of its data file.
type Known = (Version, Arc<[u64]>);

/// The offsets of these outputs, by their index files.
#[derive(Debug)]
pub(crate) struct MapIndexes(Cache<MapOutput, Known, ByBytes>);

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<MapOutput, Known> for ByBytes {
    fn weight(&self, _: &MapOutput, (_, offsets): &Known) -> u64 {
        (ENTRY_BYTES + size_of::<MapOutput>() + size_of_val(offsets.as_ref())) as u64
    }
}

impl Default for MapIndexes {
    fn default() -> Self {
        Self(Cache::with_weighter(EXPECTED_FILES, KEPT_BYTES, ByBytes))
    }
}

impl MapIndexes {
    /// True if the offsets of this output are kept. Its data file may be another one by now.
    pub(crate) fn has(&self, output: MapOutput) -> bool {
        self.0.peek(&output).is_some()
    }

    /// Returns the start of the first and the end of the last of these partitions in the data file,
    /// which is open. Opens the index file if its offsets are not known.
    pub(crate) fn offsets(
        &self,
        output: MapOutput,
        data: Version,
        reduces: &Range<ReduceId>,
        open: impl FnOnce() -> io::Result<Arc<dyn File>>,
    ) -> io::Result<(u64, u64)> {
        if let Some((version, known)) = self.0.get(&output)
            && (version == data || planted::is(Bug::OldOffsetsUsed))
        {
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
        self.0.insert(output, (data, all));
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
