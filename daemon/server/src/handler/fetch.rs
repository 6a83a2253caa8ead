// SPDX-License-Identifier: Apache-2.0
//! Fetch: layouts, and streams over segments.

use std::sync::PoisonError;

use lodestone_model::{AppId, Code, MapRange, Refusal, check_name};
use lodestone_planted::{self as planted, Bug};
use lodestone_wire::extension::fetch::{
    FetchSegments, PartitionLayout, SegmentLayout, SegmentLayoutReply,
};
use lodestone_wire::spark::fetch::StreamHandle;

use super::room::{SMALL_ANSWER_BYTES, answer_memory_most};
use super::{Call, decode, generation};
use crate::streams::Memory;
use crate::streams::items::Items;
use crate::streams::source::Source;

/// A layout needs memory for its segments as values and as bytes; the values are a bit larger.
const LAYOUT_BYTES_PER_SEGMENT: u64 = 32 + 28;

/// What a layout needs for each partition beside that.
const LAYOUT_BYTES_PER_PARTITION: u64 = 128;

/// A name, and some numbers.
const LAYOUT_REQUEST_BYTES: u64 = 1024;

/// Refuses a request for more partitions than the memory for one layout allows, before it is
/// decoded.
pub(super) fn check_layout(call: &Call, request: &[u8]) -> Result<(), Refusal> {
    let most = answer_memory_most(call) / LAYOUT_BYTES_PER_PARTITION;
    let bytes = LAYOUT_REQUEST_BYTES + most * size_of::<u32>() as u64;
    if request.len() as u64 > bytes {
        let detail = format!("over {most} partitions in one layout: ask in parts");
        return Err(Code::TooLarge.because(detail));
    }
    Ok(())
}

/// Memory that is set aside before a layout is made. The few segments that come meanwhile are not
/// counted.
pub(super) fn layout_memory(call: &Call, message: &SegmentLayout) -> u64 {
    let (key, reduces) = (&message.key.shuffle, &message.reduce_ids);
    let segments = call.service.store.segments_at_most(key, reduces) as u64;
    let partitions = reduces.len() as u64 * LAYOUT_BYTES_PER_PARTITION;
    (segments * LAYOUT_BYTES_PER_SEGMENT + partitions).min(answer_memory_most(call))
}

/// Makes a layout that needs no memory of a pool, like other small answers, and need not wait.
pub(super) fn layout_now(call: &Call, request: &[u8]) -> Option<SegmentLayoutReply> {
    let message: SegmentLayout = decode(call, request).ok()?;
    let least = message.reduce_ids.len() as u64 * LAYOUT_BYTES_PER_PARTITION;
    // To look for many partitions takes long, too.
    let is_short =
        least <= SMALL_ANSWER_BYTES && layout_memory(call, &message) <= SMALL_ANSWER_BYTES;
    is_short.then(|| layout(call, message).ok()).flatten()
}

pub(super) fn layout(call: &Call, message: SegmentLayout) -> Result<SegmentLayoutReply, Refusal> {
    let key = generation(call, &message.key)?;
    let range = MapRange::new(message.map_start, message.map_end)?;
    let format = match call.service.store.readable_format(key) {
        Err(_) if planted::is(Bug::UnknownShuffleReadAsEmpty) => String::new(),
        format => format?,
    };
    let segments_max = (answer_memory_most(call) / LAYOUT_BYTES_PER_SEGMENT) as usize;
    let mut segments = 0;
    let mut partitions = Vec::with_capacity(message.reduce_ids.len());
    for reduce_id in message.reduce_ids {
        let (code, runs) = match call
            .service
            .store
            .layout_if(call.wait, key, range, reduce_id)
        {
            Ok(runs) => (Code::Ok, runs),
            Err(refusal) if has_nothing(&refusal) => (code_of_nothing(), Vec::new()),
            Err(refusal) => return Err(refusal),
        };
        segments += runs.iter().map(|run| run.segments.len()).sum::<usize>();
        if segments > segments_max {
            let detail = format!("over {segments_max} segments in one layout: ask in parts");
            return Err(Code::TooLarge.because(detail));
        }
        partitions.push(PartitionLayout {
            reduce_id,
            code,
            runs,
        });
    }
    call.service.metrics.fetch_layouts_total.inc();
    Ok(SegmentLayoutReply {
        incarnation: call.service.incarnation(),
        format,
        partitions,
    })
}

/// True if the partition has nothing, in a shuffle that may be read.
fn has_nothing(refusal: &Refusal) -> bool {
    match refusal.code {
        Code::UnknownPartition => true,
        Code::UnknownShuffle => planted::is(Bug::UnknownShuffleReadAsEmpty),
        _ => false,
    }
}

/// A reader must never take nothing for a partition that is empty.
fn code_of_nothing() -> Code {
    match planted::is(Bug::UnknownPartitionReadAsEmpty) {
        true => Code::Ok,
        false => Code::UnknownPartition,
    }
}

/// A stream that was not opened.
pub(super) enum NotOpened {
    Refused(Refusal),
    /// There is no memory for its list now.
    NoRoom(Refusal),
}

impl NotOpened {
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) | Self::NoRoom(refusal) => refusal,
        }
    }
}

impl From<Refusal> for NotOpened {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(super) fn segments(call: &Call, message: FetchSegments) -> Result<StreamHandle, NotOpened> {
    let key = generation(call, &message.key)?;
    call.service.store.check_readable(key)?;
    for wanted in &message.chunks {
        let store = &call.service.store;
        store.check_slots(call.wait, key, wanted.reduce_id, &wanted.runs)?;
    }
    open(call, of_segments(message))
}

pub(super) fn of_segments(message: FetchSegments) -> Source {
    let FetchSegments { key, chunks } = message;
    let key = key.shuffle;
    let wanted = chunks.into_iter();
    let wanted = wanted.map(|chunk| (chunk.reduce_id, chunk.runs));
    Source {
        items: Items::segments(key.shuffle, key.generation, wanted),
        app: key.app,
        attempt: key.attempt,
        exec: String::new(),
    }
}

/// What a client of Spark's own protocol asks for, which names no attempt.
pub(super) fn source_for(app: AppId, exec: String, items: Items) -> Result<Source, Refusal> {
    check_name("an executor id", &exec)?;
    Ok(Source {
        app,
        attempt: None,
        exec,
        items,
    })
}

/// Opens a stream on the call's connection.
pub(super) fn open(call: &Call, source: Source) -> Result<StreamHandle, NotOpened> {
    let num_chunks = source.items.count() as u32;
    let stream_id = call.service.new_stream_id();
    let reserved = call
        .reserved
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let (lists, share) = (&call.service.lists, &call.list_share);
    let mut has_room = true;
    let memory = |app: &AppId, bytes| {
        let memory = reserved.or_else(|| lists.try_reserve(app, share.wanted(), bytes));
        has_room = memory.is_some();
        let memory = share.count(lists, Some(app), bytes, memory?);
        Some(Box::new(memory) as Memory)
    };
    let opened = call.streams.open(stream_id, source, memory);
    opened.map_err(|refusal| match has_room {
        true => NotOpened::Refused(refusal),
        false => NotOpened::NoRoom(refusal),
    })?;
    call.service.metrics.fetch_streams_total.inc();
    Ok(StreamHandle {
        stream_id,
        num_chunks,
    })
}
