// SPDX-License-Identifier: Apache-2.0
//! What Spark's own push has merged, as readers get it: each map in the answer to the driver is in
//! one chunk, once, byte for byte, and nothing else is.

use std::ops::Range;

use bytes::Bytes;
use lodestone_model::{GenerationId, MergeStatus, ReduceId, ShuffleId, ShuffleKey};
use lodestone_server::handler::Answer;
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::fetch::{FetchShuffleBlockChunks, StreamHandle};
use roaring::RoaringBitmap;

use super::refusal::{Judged, agree, breach};
use super::spark_push::Part;
use super::{Chunk, Model, Source, Stream, decoded};

/// A chunk of a merged partition.
#[derive(Clone, Debug)]
pub(super) struct MergedChunk {
    shuffle: ShuffleId,
    generation: GenerationId,
    reduce: ReduceId,
    chunk: u32,
}

/// The files of a merged partition, which executors on the host read themselves.
#[derive(Debug, Default)]
pub struct MergedFiles {
    /// Blocks.
    pub data: Vec<u8>,
    /// Offsets of chunks.
    pub index: Vec<u8>,
    /// Maps of chunks.
    pub meta: Vec<u8>,
}

/// Returns true if the bytes are one of the byte strings of each block, in any order.
pub fn consists_of(bytes: &[u8], blocks: &[Vec<Bytes>]) -> bool {
    fn fits(bytes: &[u8], rest: &mut Vec<&Vec<Bytes>>) -> bool {
        if rest.is_empty() {
            return bytes.is_empty();
        }
        for at in 0..rest.len() {
            let block = rest.remove(at);
            let found = block.iter().any(|one| {
                let behind = bytes.strip_prefix(one.as_ref());
                behind.is_some_and(|behind| fits(behind, rest))
            });
            rest.insert(at, block);
            if found {
                return true;
            }
        }
        false
    }
    fits(bytes, &mut blocks.iter().collect())
}

impl Model {
    fn part(
        &mut self,
        shuffle: ShuffleId,
        generation: GenerationId,
        reduce: ReduceId,
    ) -> Option<(&MergeStatus, &mut Part)> {
        let merge = self.pushed.shuffles.get_mut(&shuffle)?;
        let statuses = merge.end.as_ref()?;
        let status = statuses.iter().find(|one| one.reduce_id == reduce)?;
        let part = merge.partitions.get_mut(&reduce)?;
        (merge.generation == generation).then_some((status, part))
    }

    /// Judges the answer to a question about the chunks of a merged partition.
    pub fn merged_meta(
        &mut self,
        request: &MergedBlockMetaRequest,
        answer: &Result<(u32, Bytes), String>,
        is_troubled: bool,
    ) -> Judged {
        let (shuffle, generation) = (request.shuffle_id, request.shuffle_merge_id);
        let part = self.part(shuffle, generation, request.reduce_id);
        let is_merged = part.is_some();
        let (Some((status, part)), Ok((count, bitmaps))) = (part, answer) else {
            let agrees = is_merged == answer.is_ok();
            return agree("chunks of what is merged", &(agrees || is_troubled), &true);
        };
        let chunks = bitmaps_of(bitmaps)?;
        agree("bitmaps", &chunks.len(), &(*count as usize))?;
        check_maps(&chunks, &status.maps)?;
        if let Some(before) = &part.chunks {
            agree("chunks", &chunks, before)?;
        }
        part.chunks = Some(chunks);
        Ok(())
    }

    /// Checks the files of a partition that was finalized. `files` finds them.
    pub fn merged_files(
        &mut self,
        key: &ShuffleKey,
        files: impl Fn(ReduceId) -> Option<MergedFiles>,
    ) -> Judged {
        let merge = self.pushed.shuffles.get(&key.shuffle);
        let end = merge.and_then(|merge| merge.end.clone());
        for status in end.unwrap_or_default() {
            let reduce = status.reduce_id;
            let Some((_, part)) = self.part(key.shuffle, key.generation, reduce) else {
                continue;
            };
            let Some(files) = files(reduce) else {
                return breach(format!(
                    "a file of the merged partition {reduce} is missing"
                ));
            };
            part.check_files(&files, &status.maps)
                .map_err(|text| format!("files of the merged partition {reduce}: {text}"))?;
        }
        Ok(())
    }

    pub(super) fn fetch_merged(
        &mut self,
        connection: u64,
        request: &[u8],
        answer: &Answer,
    ) -> Judged {
        let request: FetchShuffleBlockChunks = decoded(request)?;
        let (shuffle, generation) = (request.shuffle_id, request.shuffle_merge_id);
        let merge = self.pushed.shuffles.get(&shuffle);
        let is_there = merge.is_some_and(|one| one.generation == generation && one.end.is_some());
        let Answer::Response(bytes) = answer else {
            return agree("merged chunks are there", &is_there, &false);
        };
        agree("merged chunks are there", &is_there, &true)?;
        let handle: StreamHandle = decoded(bytes)?;
        let chunks = request.chunks.iter().flat_map(|(reduce, chunks)| {
            chunks.iter().map(|&chunk| MergedChunk {
                shuffle,
                generation,
                reduce: *reduce,
                chunk,
            })
        });
        let chunks: Vec<_> = chunks.collect();
        agree("chunks", &(handle.num_chunks as usize), &chunks.len())?;
        let fresh = self.stream_ids.insert(handle.stream_id);
        agree("a stream id that no stream had", &fresh, &true)?;
        let source = Source::Pushed(chunks);
        let stream = Stream { source, next: 0 };
        self.streams.insert((connection, handle.stream_id), stream);
        Ok(())
    }

    /// Returns what a chunk of a merged partition must be.
    pub(super) fn merged_chunk(&mut self, wanted: &MergedChunk) -> Chunk {
        let part = self.part(wanted.shuffle, wanted.generation, wanted.reduce);
        let chunks = part.as_ref().and_then(|(_, part)| part.chunks.as_ref());
        let maps = chunks.and_then(|chunks| chunks.get(wanted.chunk as usize));
        match (maps, &part) {
            (Some(maps), Some((_, part))) => Chunk::Merged(part.blocks_of(maps)),
            _ => Chunk::NotMerged,
        }
    }
}

impl Part {
    fn check_files(&self, files: &MergedFiles, maps: &RoaringBitmap) -> Judged {
        let chunks = bitmaps_of(&files.meta)?;
        check_maps(&chunks, maps)?;
        let (offsets, rest) = files.index.as_chunks();
        agree("bytes behind the offsets", &rest.len(), &0)?;
        let offsets = offsets.iter().map(|one| u64::from_be_bytes(*one) as usize);
        let offsets: Vec<_> = offsets.collect();
        agree("offsets", &offsets.len(), &(chunks.len() + 1))?;
        let ranges = offsets.iter().zip(offsets.iter().skip(1));
        for ((&start, &end), maps) in ranges.zip(&chunks) {
            let range: Range<usize> = start..end;
            let blocks = self.blocks_of(maps);
            let bytes = files.data.get(range);
            if !bytes.is_some_and(|bytes| consists_of(bytes, &blocks)) {
                return breach(format!("{start}..{end} has other bytes than were pushed"));
            }
        }
        Ok(())
    }
}

/// Each map is in one chunk.
fn check_maps(chunks: &[RoaringBitmap], maps: &RoaringBitmap) -> Judged {
    let sum: u64 = chunks.iter().map(RoaringBitmap::len).sum();
    let all = chunks
        .iter()
        .fold(RoaringBitmap::new(), |all, one| all | one);
    agree("maps of the chunks", &all, maps)?;
    agree("maps of the chunks, each once", &sum, &maps.len())
}

fn bitmaps_of(mut bytes: &[u8]) -> Judged<Vec<RoaringBitmap>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let one = RoaringBitmap::deserialize_from(&mut bytes);
        all.push(one.map_err(|error| format!("a bitmap of a chunk: {error}"))?);
    }
    Ok(all)
}
