// SPDX-License-Identifier: Apache-2.0
//! The memory that requests need for their answers, and for the lists of their streams.

use std::time::Duration;

use lodestone_model::AppId;
use lodestone_wire::extension as ext;
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::{Message, spark};

use super::{Call, decode, explain, fetch, finalize, merged, originals, register};

/// Up to this size, answers that are made at once, and others than layouts, need no memory of a
/// pool: a connection has 64 in work.
pub(super) const SMALL_ANSWER_BYTES: u64 = 16 << 10;

/// A request of this size holds no memory for which others wait.
const SHORT_REQUEST_BYTES: usize = 16 << 10;

/// A longer question is not looked at on the thread that reads it.
const LONG_QUESTION_BYTES: usize = 64 << 10;

/// The part of the memory for answers that one connection may hold.
pub const SHARE_OF_ANSWERS: u64 = 8;

/// Part of the memory for answers that one of them may take: the share of an application has room
/// for it beside answers that are not read.
const LARGEST_ANSWER: u64 = 2;

/// What a layout, or an answer about merged partitions, takes at most.
pub(super) fn answer_memory_most(call: &Call) -> u64 {
    call.service.layouts.capacity_bytes() / LARGEST_ANSWER
}

pub(super) fn answers_of_connection(call: &Call) -> u64 {
    call.service.layouts.capacity_bytes() / SHARE_OF_ANSWERS
}

/// Returns the application of a request, if it names one, and the memory that its answer needs, if
/// it may be large.
pub fn answer_memory(call: &Call, body: &[u8]) -> Option<(Option<AppId>, u64)> {
    // A malformed request gets a small answer.
    let (app, bytes) = match *body.first()? {
        ext::fetch::SegmentLayout::ID => {
            fetch::check_layout(call, body).ok()?;
            let request: ext::fetch::SegmentLayout = decode(call, body).ok()?;
            let bytes = fetch::layout_memory(call, &request);
            return Some((Some(request.key.shuffle.app), bytes));
        }
        ext::explain::ExplainApplication::ID => {
            let request: ext::explain::ExplainApplication = decode(call, body).ok()?;
            (
                AppId::new(&request.app).ok(),
                explain::memory(call, &request),
            )
        }
        spark::register::GetLocalDirsForExecutors::ID if body.len() > LONG_QUESTION_BYTES => {
            let app = spark::register::GetLocalDirsForExecutors::app_of(body)?;
            call.check_app(app.as_str()).ok()?;
            (Some(app), register::local_dirs_memory_most(call))
        }
        spark::register::GetLocalDirsForExecutors::ID => {
            let request: spark::register::GetLocalDirsForExecutors = decode(call, body).ok()?;
            let bytes = register::local_dirs_memory(call, &request);
            (Some(request.app), bytes)
        }
        spark::finalize::FinalizeShuffleMerge::ID => {
            let request: spark::finalize::FinalizeShuffleMerge = decode(call, body).ok()?;
            let bytes = finalize::memory(call, &request);
            (Some(request.key.app), bytes)
        }
        _ => return None,
    };
    (bytes > SMALL_ANSWER_BYTES).then_some((app, bytes))
}

/// True for a request that names many partitions, or ends a shuffle: its answer takes long to
/// measure.
pub fn is_long(body: &[u8]) -> bool {
    let ends_a_shuffle = body.first() == Some(&spark::finalize::FinalizeShuffleMerge::ID);
    ends_a_shuffle || body.len() > SHORT_REQUEST_BYTES
}

/// Returns how long a request waits for the memory of its answer. A long one holds memory for which
/// others wait in line. Spark's driver waits for the statuses of all services for 10 s
/// (`spark.shuffle.push.results.timeout`), and then goes on without those that are missing.
pub fn answer_timeout(body: &[u8]) -> Duration {
    match is_long(body) {
        true => Duration::from_secs(5),
        false => Duration::MAX,
    }
}

/// Returns how long a request waits for the memory of the list of its stream. Lodestone's plugin
/// takes a service for lost that does not answer for 5 s (`spark.lodestone.request.timeout`).
pub fn room_timeout(body: &[u8]) -> Duration {
    match body.first() {
        Some(&ext::fetch::FetchSegments::ID) => Duration::from_secs(2),
        _ => Duration::from_secs(30),
    }
}

/// Returns the application of a request for a stream, and the memory that the list of the stream
/// needs.
pub fn list_memory(call: &Call, body: &[u8]) -> Option<(AppId, u64)> {
    let source = match *body.first()? {
        ext::fetch::FetchSegments::ID => Ok(fetch::of_segments(decode(call, body).ok()?)),
        spark::originals::FetchShuffleBlocks::ID => originals::of_blocks(decode(call, body).ok()?),
        spark::originals::OpenBlocks::ID => originals::of_names(decode(call, body).ok()?),
        _ => return None,
    };
    let source = source.ok()?;
    Some((source.app, source.items.memory() as u64))
}

/// Returns the application of a request for the maps in the chunks of a merged partition, and the
/// memory that its answer needs, if it may be large.
pub fn merged_meta_memory(
    call: &Call,
    request: &MergedBlockMetaRequest,
) -> Option<(Option<AppId>, u64)> {
    call.check_app(request.app.as_str()).ok()?;
    let bytes = merged::meta_memory(call, request);
    (bytes > SMALL_ANSWER_BYTES).then(|| (Some(request.app.clone()), bytes))
}
