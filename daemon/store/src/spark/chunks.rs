// SPDX-License-Identifier: Apache-2.0
//! Merged partitions as Spark's own readers ask for them: in chunks that are cut here.

use bytes::Bytes;
use roaring::RoaringBitmap;

use crate::life::fetch::ChunkData;
use crate::model::chunk::cut;
use crate::model::code::{Code, Refusal};
use crate::model::id::{ReduceId, ShuffleKey};
use crate::model::place::Placed;
use crate::store::Store;

/// Spark's description of a merged partition: the content of its `.meta` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedMeta {
    /// Chunks; never 0.
    pub num_chunks: u32,
    /// One serialized bitmap of map indexes per chunk.
    pub bitmaps: Bytes,
}

impl Store {
    /// The bytes of one chunk.
    pub fn chunk(
        &self,
        key: &ShuffleKey,
        reduce: ReduceId,
        chunk: u32,
    ) -> Result<ChunkData, Refusal> {
        self.data(key, reduce, |segments| {
            cut(segments).nth(chunk as usize).ok_or_else(|| {
                let detail = format!("no chunk {chunk} in partition {reduce} of {key}");
                Code::Malformed.because(detail)
            })
        })
    }

    /// Number of chunks and their bitmaps, for Spark's `MergedBlockMetaRequest`.
    pub fn merged_meta(&self, key: &ShuffleKey, reduce: ReduceId) -> Result<MergedMeta, Refusal> {
        self.view(key, reduce, |generation, view| {
            let mut meta = Vec::new();
            let mut num_chunks = 0;
            for chunk in cut(view.segments) {
                write_bitmap(&chunk, &mut meta).ok_or_else(|| generation.refuse(Code::Internal))?;
                num_chunks += 1;
            }
            Ok(MergedMeta {
                num_chunks,
                bitmaps: meta.into(),
            })
        })
    }
}

/// Appends the bitmap of the chunk's map indexes; writing to memory does not fail.
pub(crate) fn write_bitmap(chunk: &[Placed], into: &mut Vec<u8>) -> Option<()> {
    let maps: RoaringBitmap = chunk
        .iter()
        .map(|placed| placed.segment.map_index.0)
        .collect();
    maps.serialize_into(into).ok()
}
