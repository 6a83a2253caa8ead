// SPDX-License-Identifier: Apache-2.0
//! Push: batches of the plugin, single blocks of Spark.

use lodestone_model::{AppId, Code, Refusal};
use lodestone_planted::{self as planted, Bug};
use lodestone_store::Batch;
use lodestone_wire::Message;
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::push::{MAX_SEGMENTS, PushBatch, PushBatchReply};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};

use super::{Call, commit, decode, generation};

/// A batch of more segments is not taken on the thread that reads it: however short they are, each
/// takes locks and a place in an index, and other connections wait for the thread meanwhile.
const SEGMENTS_AT_ONCE: usize = 1024;

/// The message before a block of Spark's has an id of an application, of at most 256 bytes, and six
/// numbers. A longer one would hold memory for lists of segments while it waits for its disk.
const BLOCK_META_BYTES: usize = 1 << 10;

/// An upload whose `meta` was understood.
#[derive(Debug)]
pub enum Upload {
    /// A batch of the plugin.
    Batch(PushBatch),
    /// A block of Spark.
    Block(PushBlockStream),
}

impl Upload {
    /// Returns the application that it belongs to.
    pub fn app(&self) -> &AppId {
        match self {
            Self::Batch(batch) => &batch.key.shuffle.app,
            Self::Block(block) => &block.key.app,
        }
    }

    /// Returns the memory that its answer needs, if it is large: a byte for each segment.
    pub fn answer_memory(&self) -> Option<u64> {
        let bytes = match self {
            Self::Batch(batch) => batch.segments.len() as u64,
            Self::Block(_) => 0,
        };
        (bytes > SEGMENTS_AT_ONCE as u64).then_some(bytes)
    }
}

/// Checks everything that can be checked before the body is read.
pub(super) fn admit(call: &Call, meta: &[u8], body_bytes: u64) -> Result<Upload, Refusal> {
    match meta.first() {
        Some(&PushBatch::ID) => {
            let batch: PushBatch = decode(call, meta)?;
            call.service
                .store
                .check_push(generation(call, &batch.key)?)?;
            let segments = batch.segments.len();
            if segments > MAX_SEGMENTS {
                let detail = format!("{segments} segments in a batch, at most {MAX_SEGMENTS}");
                return Err(Code::TooLarge.because(detail));
            }
            let sum: u64 = batch
                .segments
                .iter()
                .map(|segment| u64::from(segment.length))
                .sum();
            if sum != body_bytes {
                let detail = format!("segments of {sum} bytes in a body of {body_bytes}");
                return Err(Code::Malformed.because(detail));
            }
            Ok(Upload::Batch(batch))
        }
        Some(&PushBlockStream::ID) if meta.len() > BLOCK_META_BYTES => {
            let (bytes, most) = (meta.len(), BLOCK_META_BYTES);
            let detail = format!("{bytes} bytes before a block, at most {most}");
            Err(Code::Malformed.because(detail))
        }
        Some(&PushBlockStream::ID) => {
            let block: PushBlockStream = decode(call, meta)?;
            call.service.store.check_application(&block.key.app)?;
            Ok(Upload::Block(block))
        }
        other => Err(Code::Malformed.because(format!("message {other:?} is no upload"))),
    }
}

/// Takes a batch. Its first segments got the codes `before` when it was tried without waiting.
pub(super) fn batch(
    call: &Call,
    batch: &PushBatch,
    body: &[u8],
    before: &[Code],
) -> Result<PushBatchReply, Refusal> {
    let mut codes = take(call, batch, body)?;
    settle(&mut codes, before);
    let is_committed = batch.is_whole && are_taken(&codes) && commits(call, batch);
    Ok(reply(call, body, codes, is_committed))
}

/// Keeps the codes of segments that were taken before: they are repetitions now, or were not looked
/// at because the whole batch has to wait.
fn settle(codes: &mut [Code], before: &[Code]) {
    for (code, &earlier) in codes.iter_mut().zip(before) {
        if matches!(code, Code::Duplicate | Code::Overloaded) {
            *code = earlier;
        }
    }
}

/// Takes a batch without waiting. An error has the codes of the segments that were taken: then
/// [`batch`] has to take the others, or to say why it refuses them.
pub(super) fn batch_now(
    call: &Call,
    batch: &PushBatch,
    body: &[u8],
) -> Result<PushBatchReply, Vec<Code>> {
    // A commit waits for the attempt.
    if batch.is_whole || batch.segments.len() > SEGMENTS_AT_ONCE {
        return Err(Vec::new());
    }
    let mut codes = take(call, batch, body).unwrap_or_default();
    let taken = codes.iter().filter(|&&code| is_taken(code)).count();
    if codes.is_empty() || taken < codes.len() {
        codes.truncate(taken);
        return Err(codes);
    }
    Ok(reply(call, body, codes, false))
}

fn take(call: &Call, batch: &PushBatch, body: &[u8]) -> Result<Vec<Code>, Refusal> {
    let key = generation(call, &batch.key)?;
    let of_store = Batch {
        map_index: batch.map_index,
        map_id: batch.map_id,
        first_segment: batch.first_segment,
        segments: &batch.segments,
        body,
    };
    call.service.store.push_batch_if(call.wait, key, &of_store)
}

fn reply(call: &Call, body: &[u8], mut codes: Vec<Code>, is_committed: bool) -> PushBatchReply {
    if planted::is(Bug::OneCodeForAll)
        && let Some(&first) = codes.first()
    {
        codes.fill(first);
    }
    count_upload(call, body);
    codes.iter().for_each(|&code| count_segment(call, code));
    PushBatchReply {
        incarnation: call.service.incarnation(),
        is_committed,
        codes,
    }
}

fn are_taken(codes: &[Code]) -> bool {
    codes.iter().copied().all(is_taken)
}

fn is_taken(code: Code) -> bool {
    matches!(code, Code::Ok | Code::Duplicate)
}

/// Commits the attempt of a batch that is all of it. A client whose attempt does not commit asks
/// for it in a message of its own, and gets the reason.
fn commits(call: &Call, batch: &PushBatch) -> bool {
    let message = CommitMap {
        key: batch.key.clone(),
        map_index: batch.map_index,
        map_id: batch.map_id,
        pushed: batch.ledger(),
    };
    commit::map(call, message).is_ok()
}

/// Prepares the first push to a partition: `None` if the block may follow.
pub(super) fn begin_block(
    call: &Call,
    block: &PushBlockStream,
) -> Result<Option<BlockPushReturnCode>, Refusal> {
    match call.service.store.begin_push(&block.key, block.reduce_id)? {
        Code::Ok => Ok(None),
        code => block_answer(call, block, code).map(Some),
    }
}

pub(super) fn block(
    call: &Call,
    block: &PushBlockStream,
    body: &[u8],
) -> Result<BlockPushReturnCode, Refusal> {
    let (key, map_index, reduce) = (&block.key, block.map_index, block.reduce_id);
    let store = &call.service.store;
    let code = store.push_block_if(call.wait, key, map_index, reduce, body)?;
    count_upload(call, body);
    block_answer(call, block, code)
}

fn block_answer(
    call: &Call,
    block: &PushBlockStream,
    code: Code,
) -> Result<BlockPushReturnCode, Refusal> {
    let (key, map_index, reduce) = (&block.key, block.map_index, block.reduce_id);
    count_segment(call, code);
    let code = match code {
        Code::Ok | Code::Duplicate => PushCode::Success,
        Code::TooLate => PushCode::TooLate,
        Code::StaleGeneration => PushCode::Stale,
        Code::StaleAttempt => PushCode::TooOldAttempt,
        other => return Err(other.because(format!("the block was not merged: {other}"))),
    };
    let failure_block_id = match code {
        PushCode::Success => String::new(),
        _ => format!(
            "shufflePush_{}_{}_{map_index}_{reduce}",
            key.shuffle, key.generation
        ),
    };
    Ok(BlockPushReturnCode {
        code,
        failure_block_id,
    })
}

fn count_upload(call: &Call, body: &[u8]) {
    call.service.metrics.push_requests_total.inc();
    call.service
        .metrics
        .push_bytes_total
        .inc_by(body.len() as u64);
}

fn count_segment(call: &Call, code: Code) {
    let metrics = &call.service.metrics;
    match code {
        Code::Ok => drop(metrics.merge_segments_total.inc()),
        Code::Duplicate => drop(metrics.merge_duplicates_total.inc()),
        _ => metrics.count_rejected(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_merged_before_a_wait_is_not_refused_after_it() {
        let before = [Code::Ok, Code::Duplicate, Code::Ok];
        let mut waits_no_longer = [Code::Overloaded; 4];
        settle(&mut waits_no_longer, &before);
        let [taken @ .., rest] = waits_no_longer;
        assert_eq!((taken, rest), (before, Code::Overloaded));
        let mut again = [Code::Duplicate, Code::Duplicate, Code::TooLate, Code::Ok];
        settle(&mut again, &before);
        assert_eq!(again, [Code::Ok, Code::Duplicate, Code::TooLate, Code::Ok]);
    }
}
