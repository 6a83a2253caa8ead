// SPDX-License-Identifier: Apache-2.0
//! Fetch: layouts, and streams over segments.

use std::collections::HashMap;
use std::ops::Range;

use lodestone_store::{Code, LaidRun, LaidSegment, MapRange, ReduceId, Refusal};
use lodestone_wire::extension::fetch::{
    self as ext, FetchSegments, SegmentLayout, SegmentLayoutReply, WantedChunk,
};
use lodestone_wire::extension::push::Crc32c;
use lodestone_wire::extension::status::Status;
use lodestone_wire::spark::fetch::StreamHandle;

use super::{Call, app_id, merge_key};
use crate::connection::streams::{Block, Source};

/// A layout's memory is that of its segments as values and as bytes; the values are a bit larger.
const LAYOUT_BYTES_PER_SEGMENT: u64 = 32 + 28;

/// Part of the layouts' memory that one of them may take.
const LAYOUT_SHARE: u64 = 2;

/// Memory that is set aside before a layout is made.
pub fn layout_memory_bytes(pool_bytes: u64) -> u64 {
    pool_bytes / LAYOUT_SHARE
}

pub(super) fn layout(call: &Call, message: SegmentLayout) -> Result<SegmentLayoutReply, Refusal> {
    let key = merge_key(call, &message.key)?;
    let range = map_range(message.map_start, message.map_end)?;
    call.service.store.check_readable(&key)?;
    let memory_bytes = layout_memory_bytes(call.service.layouts.capacity_bytes());
    let segments_max = (memory_bytes / LAYOUT_BYTES_PER_SEGMENT) as usize;
    let mut segments = 0;
    let mut partitions = Vec::with_capacity(message.reduce_ids.len());
    for reduce_id in message.reduce_ids {
        let (code, runs) = match call.service.store.layout(&key, range, ReduceId(reduce_id)) {
            Ok(runs) => (Status::Ok, runs),
            Err(refusal) if refusal.code == Code::UnknownPartition => {
                (Status::UnknownPartition, Vec::new())
            }
            Err(refusal) => return Err(refusal),
        };
        segments += runs.iter().map(|run| run.segments.len()).sum::<usize>();
        if segments > segments_max {
            let detail = format!("over {segments_max} segments in one layout: ask in parts");
            return Err(Code::TooLarge.because(detail));
        }
        partitions.push(ext::PartitionLayout {
            reduce_id,
            code,
            runs: runs.iter().map(on_the_wire).collect(),
        });
    }
    call.service.metrics.fetch_layouts_total.add(1);
    Ok(SegmentLayoutReply {
        incarnation: call.service.incarnation(),
        partitions,
    })
}

fn on_the_wire(run: &LaidRun) -> ext::LaidRun {
    let laid = |segment: &LaidSegment| ext::LaidSegment {
        map_index: segment.map_index.0,
        map_id: segment.map_id.0,
        sequence: segment.sequence,
        length: segment.length,
        records: segment.records,
        crc32c: Crc32c(segment.crc),
    };
    ext::LaidRun {
        first: run.first,
        segments: run.segments.iter().map(laid).collect(),
    }
}

pub(super) fn segments(call: &Call, message: FetchSegments) -> Result<StreamHandle, Refusal> {
    let key = merge_key(call, &message.key)?;
    call.service.store.check_readable(&key)?;
    let mut known: HashMap<u32, u32> = HashMap::new();
    let mut blocks = Vec::with_capacity(message.chunks.len());
    for wanted in &message.chunks {
        let reduce = ReduceId(wanted.reduce_id);
        let count = match known.get(&wanted.reduce_id) {
            Some(&count) => count,
            None => {
                let count = call.service.store.segment_count(&key, reduce)?;
                known.insert(wanted.reduce_id, count);
                count
            }
        };
        blocks.push(Block::Segments {
            shuffle: key.shuffle,
            merge: key.merge,
            reduce,
            places: places(wanted, count)?,
        });
    }
    let (app, attempt) = (key.app.clone(), key.attempt);
    open(
        call,
        Source {
            app,
            attempt,
            exec: String::new(),
            blocks,
        },
    )
}

/// The places of a chunk, in a partition that has `count` of them.
fn places(wanted: &WantedChunk, count: u32) -> Result<Box<[Range<u32>]>, Refusal> {
    let run = |run: &ext::SegmentRun| run.first..run.first.saturating_add(run.count);
    let places: Box<[_]> = wanted.runs.iter().map(run).collect();
    let reduce = wanted.reduce_id;
    let malformed = |what: &str| {
        let detail = format!("a chunk of partition {reduce}, which has {count} segments, {what}");
        Err(Code::Malformed.because(detail))
    };
    if places.is_empty() || places.iter().any(Range::is_empty) {
        return malformed("has an empty run");
    }
    if !places.is_sorted_by(|one, next| one.end <= next.start) {
        return malformed("has runs that are not in order");
    }
    if places.last().is_some_and(|last| last.end > count) {
        return malformed("goes beyond them");
    }
    Ok(places)
}

/// Opens a stream for a client of Spark's own protocol, which names no attempt.
pub(super) fn open_for(
    call: &Call,
    app: &lodestone_wire::AppId,
    exec: String,
    blocks: Vec<Block>,
) -> Result<StreamHandle, Refusal> {
    let app = app_id(app)?;
    open(
        call,
        Source {
            app,
            attempt: None,
            exec,
            blocks,
        },
    )
}

/// Opens a stream on the call's connection.
fn open(call: &Call, source: Source) -> Result<StreamHandle, Refusal> {
    let num_chunks = source.blocks.len() as u32;
    let stream_id = call.service.new_stream_id();
    call.streams.open(stream_id, source)?;
    call.service.metrics.fetch_streams_total.add(1);
    Ok(StreamHandle {
        stream_id,
        num_chunks,
    })
}

fn map_range(start: u32, end: u32) -> Result<MapRange, Refusal> {
    // Both came from non-negative 32-bit fields.
    MapRange::new(start.cast_signed(), end.cast_signed())
}
