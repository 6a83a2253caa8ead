// SPDX-License-Identifier: Apache-2.0
//! Merged partitions for Spark's own readers: in chunks that are cut here.

use bytes::Bytes;
use lodestone_model::{Code, ReduceId, Refusal, ShuffleKey};

use crate::index::chunk::{self, cut, write_bitmap};
use crate::life::fetch::{ChunkData, FoundChunk};
use crate::resource::timed_mutex::Wait;
use crate::state::store::Store;

/// Spark's description of a merged partition: the content of its `.meta` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedMeta {
    /// Chunks; never 0.
    pub num_chunks: u32,
    /// One serialized bitmap of map indexes per chunk.
    pub bitmaps: Bytes,
}

impl Store {
    /// The bytes of one chunk of a shuffle that Spark pushed.
    pub fn chunk(
        &self,
        key: &ShuffleKey,
        reduce: ReduceId,
        chunk: u32,
    ) -> Result<ChunkData, Refusal> {
        let found = self.find_chunk(Wait::InTime, key, reduce, chunk)?;
        found.open(Wait::InTime, self)
    }

    /// Finds these bytes. Asks no disk.
    pub fn find_chunk(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        reduce: ReduceId,
        chunk: u32,
    ) -> Result<FoundChunk, Refusal> {
        self.find(wait, key, reduce, |generation, segments| {
            generation.check_sparks_own()?;
            chunk::chunk(segments, chunk as usize).ok_or_else(|| {
                let detail = format!("no chunk {chunk} in partition {reduce} of {key}");
                Code::Malformed.because(detail)
            })
        })
    }

    /// Number of chunks and their bitmaps, for Spark's `MergedBlockMetaRequest`. If the bitmaps
    /// have more than `most_bytes`, this refuses the request, and Spark reads the originals.
    pub fn merged_meta(
        &self,
        key: &ShuffleKey,
        reduce: ReduceId,
        most_bytes: usize,
    ) -> Result<MergedMeta, Refusal> {
        self.view(Wait::Question, key, reduce, |generation, view| {
            generation.check_sparks_own()?;
            let mut meta = Vec::new();
            let mut num_chunks = 0;
            for chunk in cut(view.segments) {
                write_bitmap(&chunk, &mut meta).ok_or_else(|| generation.refuse(Code::Internal))?;
                num_chunks += 1;
                if meta.len() > most_bytes {
                    let detail = format!(
                        "over {most_bytes} bytes of map indexes in partition {reduce} of {key}"
                    );
                    return Err(Code::TooLarge.because(detail));
                }
            }
            Ok(MergedMeta {
                num_chunks,
                bitmaps: meta.into(),
            })
        })
    }
}
