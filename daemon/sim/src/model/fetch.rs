// SPDX-License-Identifier: Apache-2.0
//! Fetch: the segments that a layout must show, and the bytes that a chunk must have.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use lodestone_model::{Code, LaidSegment};
use lodestone_server::handler::Answer;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::fetch::{
    FetchSegments, PartitionLayout, SegmentLayout, SegmentLayoutReply, WantedChunk,
};
use lodestone_wire::spark::fetch::StreamHandle;

use super::merged::MergedChunk;
use super::originals::Block;
use super::refusal::{Judged, agree, refused_or};
use super::{AttemptState, Laid, Model, Original, Shuffle, Source, Stream};

/// The right result of opening a chunk.
#[derive(Debug, PartialEq)]
pub enum Chunk {
    /// The stream does not give it.
    Closed,
    /// The daemon refuses.
    Refused(Code),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// These bytes, if a failed write did not drop any of them; or a refusal, with ABORTED.
    Doubtful(Vec<u8>),
    /// One of these.
    Original(Vec<Original>),
    /// One of the byte strings of each of these blocks, in any order.
    Merged(Vec<Vec<Bytes>>),
    /// Nothing that Spark's own push merged: any refusal.
    NotMerged,
}

impl Model {
    pub(super) fn layout(&mut self, request: &SegmentLayout, answer: &Answer) -> Judged {
        let incarnation = self.incarnation;
        let maps = request.map_start..request.map_end;
        let found = match maps.start > maps.end {
            true if request.key.incarnation == incarnation => Err(Code::Malformed),
            _ => self.shuffle(&request.key, Code::UnknownShuffle),
        };
        let expected = found.as_ref().map(|_| ()).map_err(|code| *code);
        let format = found
            .as_ref()
            .map_or("", |shuffle| &shuffle.format)
            .to_owned();
        let reply: Option<SegmentLayoutReply> = refused_or(answer, incarnation, expected)?;
        let (Some(reply), Ok(shuffle)) = (reply, found) else {
            return Ok(());
        };
        agree("incarnation", &reply.incarnation, &incarnation)?;
        agree("format", &reply.format, &format)?;
        let asked = reply.partitions.iter().map(|p| p.reduce_id).collect();
        agree("partitions", &request.reduce_ids, &asked)?;
        let mut dropped = 0;
        for partition in &reply.partitions {
            dropped += shuffle
                .check_partition(&maps, partition)
                .map_err(|text| format!("partition {}: {text}", partition.reduce_id))?;
        }
        self.dropped += dropped;
        Ok(())
    }

    pub(super) fn fetch(
        &mut self,
        connection: u64,
        request: &FetchSegments,
        answer: &Answer,
    ) -> Judged {
        let incarnation = self.incarnation;
        let chunks = &request.chunks;
        let expected = match self.shuffle(&request.key, Code::UnknownShuffle) {
            Err(code) => Err(code),
            Ok(shuffle) => chunks.iter().try_for_each(|wanted| {
                match shuffle.chunk(wanted) {
                    // The refusal comes only when the chunk is taken.
                    Chunk::Refused(Code::Aborted) => Ok(()),
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
            let source = Source::Merged {
                key: request.key.clone(),
                chunks: chunks.clone(),
            };
            let stream = Stream { source, next: 0 };
            self.streams.insert((connection, handle.stream_id), stream);
        }
        Ok(())
    }

    /// Returns what the next chunk of a stream must be.
    pub fn open_chunk(&mut self, connection: u64, id: i64, index: i32) -> Chunk {
        let stream_key = (connection, id);
        let Some(stream) = self.streams.get_mut(&stream_key) else {
            return Chunk::Closed;
        };
        if usize::try_from(index) != Ok(stream.next) {
            return Chunk::Closed;
        }
        let wanted = stream.source.get(stream.next);
        stream.next += 1;
        if stream.next == stream.source.count() {
            self.streams.remove(&stream_key);
        }
        match wanted {
            Some(Wanted::Merged(key, wanted)) => match self.shuffle(&key, Code::UnknownShuffle) {
                Ok(shuffle) => shuffle.chunk(&wanted),
                Err(code) => Chunk::Refused(code),
            },
            Some(Wanted::Original(app, exec, block)) => self.original((&app, &exec), &block),
            Some(Wanted::Pushed(chunk)) => self.merged_chunk(&chunk),
            None => Chunk::Closed,
        }
    }
}

/// An item of a stream.
enum Wanted {
    Merged(ShuffleAddress, WantedChunk),
    Original(String, String, Block),
    Pushed(MergedChunk),
}

impl Source {
    fn count(&self) -> usize {
        match self {
            Self::Merged { chunks, .. } => chunks.len(),
            Self::Originals { blocks, .. } => blocks.len(),
            Self::Pushed(chunks) => chunks.len(),
        }
    }

    fn get(&self, at: usize) -> Option<Wanted> {
        match self {
            Self::Merged { key, chunks } => {
                let chunk = chunks.get(at)?.clone();
                Some(Wanted::Merged(key.clone(), chunk))
            }
            Self::Originals { app, exec, blocks } => {
                let block = blocks.get(at)?.clone();
                Some(Wanted::Original(app.clone(), exec.clone(), block))
            }
            Self::Pushed(chunks) => chunks.get(at).cloned().map(Wanted::Pushed),
        }
    }
}

impl Shuffle {
    /// Compares a partition's layout with the committed attempts, and finds out which of the unsure
    /// segments are there. Returns how many are not.
    fn check_partition(&mut self, maps: &Range<u32>, found: &PartitionLayout) -> Judged<u64> {
        let laid = self.laid.entry(found.reduce_id).or_default();
        if laid.is_empty() {
            agree("runs", &found.runs.len(), &0)?;
            agree("code", &found.code, &Code::UnknownPartition)?;
            return Ok(0);
        }
        agree("code", &found.code, &Code::Ok)?;
        let mut dropped = 0;
        let attempts = &self.attempts;
        let may_be_shown = |laid: &Laid| {
            let id = (laid.segment.map_index, laid.segment.map_id);
            let attempt = attempts.get(&id);
            let committed = attempt.is_some_and(|one| one.state == AttemptState::Committed);
            committed && !laid.gone && maps.contains(&laid.segment.map_index.0)
        };
        let runs = found.runs.iter();
        let shown: BTreeMap<u32, &LaidSegment> = runs
            .flat_map(|run| (run.first..).zip(&run.segments))
            .collect();
        for (slot, laid) in (0..).zip(laid.iter_mut()) {
            if !laid.sure && may_be_shown(laid) {
                laid.gone = !shown.contains_key(&slot);
                laid.sure = true;
                dropped += u64::from(laid.gone);
            }
        }
        check_runs(laid, may_be_shown, found)?;
        let expected = laid
            .iter()
            .filter(|laid| may_be_shown(laid))
            .map(|laid| &laid.segment);
        let shown = found.runs.iter().flat_map(|run| &run.segments);
        agree("segments", &shown.collect::<Vec<_>>(), &expected.collect())?;
        Ok(dropped)
    }

    /// Returns what a chunk of a partition must be.
    fn chunk(&self, wanted: &WantedChunk) -> Chunk {
        let laid = self.laid.get(&wanted.reduce_id).map(Vec::as_slice);
        let laid = laid.unwrap_or_default();
        if laid.is_empty() {
            return Chunk::Refused(Code::UnknownPartition);
        }
        let slots = wanted.runs.iter().map(|run| {
            let first = run.first as usize;
            first..first + run.count as usize
        });
        let slots: Vec<Range<usize>> = slots.collect();
        let in_order = slots.is_sorted_by(|one, next| one.end <= next.start);
        if slots.is_empty() || slots.iter().any(Range::is_empty) || !in_order {
            return Chunk::Refused(Code::Malformed);
        }
        let segments = slots.into_iter().map(|slots| laid.get(slots));
        match segments.collect::<Option<Vec<&[Laid]>>>() {
            None => Chunk::Refused(Code::Malformed),
            Some(segments) if segments.iter().copied().flatten().any(|laid| laid.gone) => {
                Chunk::Refused(Code::Aborted)
            }
            Some(segments) => {
                let segments = segments.concat();
                let bytes: Vec<&[u8]> = segments.iter().map(|laid| laid.bytes.as_ref()).collect();
                match segments.iter().all(|laid| laid.sure) {
                    true => Chunk::Bytes(bytes.concat()),
                    false => Chunk::Doubtful(bytes.concat()),
                }
            }
        }
    }
}

/// Checks that each run starts at its first segment, and ends where the next segment is not shown.
fn check_runs(laid: &[Laid], is_shown: impl Fn(&Laid) -> bool, found: &PartitionLayout) -> Judged {
    let shown = (0_u32..).zip(laid).filter(|(_, laid)| is_shown(laid));
    let mut expected: Vec<(u32, usize)> = Vec::new();
    for (slot, _) in shown {
        match expected.last_mut() {
            Some((first, count)) if *first + *count as u32 == slot => *count += 1,
            _ => expected.push((slot, 1)),
        }
    }
    let runs = found.runs.iter().map(|run| (run.first, run.segments.len()));
    agree("slots", &runs.collect(), &expected)
}
