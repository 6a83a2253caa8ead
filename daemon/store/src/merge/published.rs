// SPDX-License-Identifier: Apache-2.0
//! The files of a finalized partition that Spark's executors read directly.
//!
//! ```text
//! .data    whole blocks, in order of arrival
//! .index   big-endian i64: 0, then the end offset of each chunk
//! .meta    one serialized bitmap of map indexes per chunk
//! ```

use lodestone_model::{Code, ReduceId, ShuffleKey};
use lodestone_planted::{self as planted, Bug};

use super::partition::Partition;
use crate::fs::write_in_pieces;
use crate::index::chunk::{cut, write_bitmap};
use crate::index::segment::Segments;
use crate::resource::Resources;
use crate::resource::dirs::{HashedDirs, MergedFile};
use crate::resource::disk::code_of;
use crate::resource::foreign::ForeignPath;
use crate::resource::timed_mutex::LockWaits;

/// Freezes a partition and writes all of it to disk. After a failure the caller
/// removes the partition with its files: OVERLOADED if another thread has it for too long, whose
/// disk may hang.
pub(crate) fn publish(
    partition: &Partition,
    resources: &Resources,
    dirs: &HashedDirs,
    key: &ShuffleKey,
    reduce: ReduceId,
    lock_waits: &LockWaits,
) -> Result<(), Code> {
    // Write before the freeze: if the write fails, an open partition keeps the segments that are on
    // disk already.
    let write_out = || match planted::is(Bug::FinalizedWithoutMemory) {
        true => Ok(()),
        false => partition.write_out(resources, lock_waits),
    };
    let written = write_out();
    if !partition.freeze(lock_waits)? {
        return written;
    }
    // If the first write was refused for a moment.
    write_out()?;
    let (index, meta) = partition.view_in_line(lock_waits, |view| describe(view.segments))??;
    let (index_path, meta_path) = paths(dirs, key, reduce);
    write_file(resources, &index_path, &index)?;
    write_file(resources, &meta_path, &meta)
}

fn paths(dirs: &HashedDirs, key: &ShuffleKey, reduce: ReduceId) -> (ForeignPath, ForeignPath) {
    let path = |which| dirs.merged(key, reduce, which);
    (path(MergedFile::Index), path(MergedFile::Meta))
}

/// The contents of `.index` and `.meta`.
fn describe(segments: &Segments) -> Result<(Vec<u8>, Vec<u8>), Code> {
    let mut end: u64 = 0;
    let mut index = end.to_be_bytes().to_vec();
    let mut meta = Vec::new();
    for chunk in cut(segments) {
        end += chunk
            .iter()
            .map(|found| u64::from(found.segment.length))
            .sum::<u64>();
        index.extend_from_slice(&end.to_be_bytes());
        write_bitmap(&chunk, &mut meta).ok_or(Code::Internal)?;
    }
    Ok((index, meta))
}

fn write_file(resources: &Resources, path: &ForeignPath, content: &[u8]) -> Result<(), Code> {
    let written = resources.turn_to_write(path).and_then(|writing| {
        // `.index` and `.meta` hash to other subdirectories than `.data`, maybe on other disks.
        let file = resources.foreign().create(path)?;
        write_in_pieces(file.as_ref(), &[content], 0, || writing.got_on())
    });
    written.map_err(|error| {
        tracing::warn!(%path, %error, "the description of a merged partition was not written");
        code_of(&error)
    })
}
