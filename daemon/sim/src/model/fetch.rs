// SPDX-License-Identifier: Apache-2.0
//! Fetch: what a layout must show, and which bytes a chunk must have.

use std::ops::Range;

use lodestone_server::handler::Answer;
use lodestone_wire::extension::MergeKey;
use lodestone_wire::extension::fetch::{
    ChunkLayout, ChunkLayoutReply, FetchChunks, LaidSegment, PartitionLayout,
};
use lodestone_wire::extension::status::Status;
use lodestone_wire::spark::fetch::StreamHandle;

use super::refusal::{Judged, agree, breach, refusal, refused_or};
use super::{Laid, Model, Shuffle, Stream};

/// Where a chunk may end: `docs/protocol.md` section 4.
const CHUNK_BYTES: u64 = 2 << 20;

/// What opening a chunk must lead to.
#[derive(Debug, PartialEq)]
pub enum Chunk {
    /// The stream does not give it.
    Closed,
    /// The daemon refuses.
    Refused(Status),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// A failed write left open which segments there are.
    Open,
}

impl Model {
    pub(super) fn layout(&mut self, request: &ChunkLayout, answer: &Answer) -> Judged {
        let incarnation = self.incarnation;
        let maps = request.map_start..request.map_end;
        let found = self.finalized(&request.key, &maps);
        let expected = found.as_ref().map(|_| ()).map_err(|code| *code);
        let reply: Option<ChunkLayoutReply> = refused_or(answer, incarnation, expected)?;
        let (Some(reply), Ok(shuffle)) = (reply, found) else {
            return Ok(());
        };
        agree("incarnation", &reply.incarnation, &incarnation)?;
        let asked = reply.partitions.iter().map(|p| p.reduce_id).collect();
        agree("partitions", &request.reduce_ids, &asked)?;
        for partition in &reply.partitions {
            shuffle
                .check_partition(&maps, partition)
                .map_err(|text| format!("partition {}: {text}", partition.reduce_id))?;
        }
        match &shuffle.totals {
            Some(totals) => shuffle.check_totals(totals),
            None => Ok(()),
        }
    }

    fn finalized(&mut self, key: &MergeKey, maps: &Range<u32>) -> Result<&mut Shuffle, Status> {
        if key.incarnation != self.incarnation {
            return Err(Status::StaleIncarnation);
        }
        if maps.start > maps.end {
            return Err(Status::Malformed);
        }
        match self.shuffle(key, Status::UnknownShuffle) {
            Ok(shuffle) if shuffle.totals.is_none() => Err(Status::NotFinalized),
            other => other,
        }
    }

    pub(super) fn fetch(
        &mut self,
        connection: u64,
        request: &FetchChunks,
        answer: &Answer,
    ) -> Judged {
        let incarnation = self.incarnation;
        let maps = request.map_start..request.map_end;
        let wanted = request.chunks.iter().map(|c| (c.reduce_id, c.chunk));
        let chunks: Vec<(u32, u32)> = wanted.collect();
        let expected = match self.finalized(&request.key, &maps) {
            Err(code) => Err(code),
            Ok(shuffle) => chunks.iter().try_fold((), |(), (reduce, chunk)| {
                match shuffle.chunk(&maps, *reduce, *chunk) {
                    // What the daemon says decides; the bytes are compared when they come.
                    Chunk::Open => refusal(answer).map_or(Ok(()), |found| Err(found.code)),
                    Chunk::Refused(code) => Err(code),
                    _ => Ok(()),
                }
            }),
        };
        let handle: Option<StreamHandle> = refused_or(answer, incarnation, expected)?;
        let Some(handle) = handle else {
            return Ok(());
        };
        agree("chunks", &(handle.num_chunks as usize), &chunks.len())?;
        let fresh = self.stream_ids.insert(handle.stream_id);
        agree("a stream id that no stream had", &fresh, &true)?;
        if !chunks.is_empty() {
            let stream = Stream {
                key: request.key.clone(),
                maps: (maps.start, maps.end),
                chunks,
                next: 0,
            };
            self.streams.insert((connection, handle.stream_id), stream);
        }
        Ok(())
    }

    /// What the next chunk of a stream must be.
    pub fn open_chunk(&mut self, connection: u64, id: i64, index: i32) -> Chunk {
        let place = (connection, id);
        let Some(stream) = self.streams.get_mut(&place) else {
            return Chunk::Closed;
        };
        if usize::try_from(index) != Ok(stream.next) {
            return Chunk::Closed;
        }
        let chunk = stream.chunks.get(stream.next).copied();
        stream.next += 1;
        let (key, maps) = (stream.key.clone(), stream.maps.0..stream.maps.1);
        if stream.next == stream.chunks.len() {
            self.streams.remove(&place);
        }
        let Some((reduce, chunk)) = chunk else {
            return Chunk::Closed;
        };
        match self.finalized(&key, &maps) {
            Ok(shuffle) => shuffle.chunk(&maps, reduce, chunk),
            Err(code) => Chunk::Refused(code),
        }
    }
}

impl Shuffle {
    /// Compares a partition's layout with what was pushed, and learns which of the segments that
    /// are not sure are there.
    fn check_partition(&mut self, maps: &Range<u32>, found: &PartitionLayout) -> Judged {
        check_cuts(found)?;
        let laid = self.laid.entry(found.reduce_id).or_default();
        match found.code {
            Status::UnknownPartition => {
                agree("chunks", &found.chunks.len(), &0)?;
                let sure = laid.iter().filter(|laid| laid.sure).count();
                agree("segments of an unknown partition", &sure, &0)?;
                laid.clear();
                return Ok(());
            }
            Status::Ok if laid.is_empty() => return breach("unknown, and shown as empty"),
            code => agree("code", &code, &Status::Ok)?,
        }
        let shown = found.chunks.iter().flat_map(|chunk| &chunk.segments);
        let mut shown = shown.peekable();
        let mut missing = None;
        laid.retain_mut(|laid| {
            if !maps.contains(&laid.segment.map_index) {
                return true;
            }
            if shown.next_if(|shown| **shown == laid.segment).is_some() {
                laid.sure = true;
                return true;
            }
            if laid.sure {
                missing = missing.or(Some(laid.segment.map_index));
            }
            false
        });
        if let Some(map) = missing {
            return breach(format!("the segment of map {map} is not shown"));
        }
        match shown.next() {
            Some(shown) => breach(format!("shows what is not there: {shown:?}")),
            None if laid.is_empty() => breach("nothing is there, and it is not unknown"),
            None => Ok(()),
        }
    }

    /// What a chunk of a finalized partition must be.
    fn chunk(&self, maps: &Range<u32>, reduce: u32, chunk: u32) -> Chunk {
        let laid = self.laid.get(&reduce).map(Vec::as_slice);
        let laid = laid.unwrap_or_default();
        if laid.is_empty() {
            return Chunk::Refused(Status::UnknownPartition);
        }
        if laid.iter().any(|laid| !laid.sure) {
            return Chunk::Open;
        }
        let mut chunks: Vec<Vec<&Laid>> = Vec::new();
        let mut bytes = CHUNK_BYTES;
        for laid in laid
            .iter()
            .filter(|laid| maps.contains(&laid.segment.map_index))
        {
            if bytes >= CHUNK_BYTES {
                chunks.push(Vec::new());
                bytes = 0;
            }
            bytes += u64::from(laid.segment.length);
            chunks.last_mut().into_iter().for_each(|c| c.push(laid));
        }
        match chunks.get(chunk as usize) {
            None => Chunk::Refused(Status::Malformed),
            Some(chunk) => {
                let bytes: Vec<&[u8]> = chunk.iter().map(|laid| laid.bytes.as_ref()).collect();
                Chunk::Bytes(bytes.concat())
            }
        }
    }
}

/// Every chunk but the last reaches its size, and none does without its last segment.
fn check_cuts(partition: &PartitionLayout) -> Judged {
    let length = |segments: &[LaidSegment]| {
        let lengths = segments.iter().map(|s| u64::from(s.length));
        lengths.sum::<u64>()
    };
    for (at, chunk) in partition.chunks.iter().enumerate() {
        let Some((_, but_last)) = chunk.segments.split_last() else {
            return breach("a chunk without segments");
        };
        let is_last = at + 1 == partition.chunks.len();
        let whole = length(&chunk.segments) >= CHUNK_BYTES;
        if length(but_last) >= CHUNK_BYTES || (!whole && !is_last) {
            return breach(format!("chunk {at} is cut at the wrong place"));
        }
    }
    Ok(())
}
