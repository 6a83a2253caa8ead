// SPDX-License-Identifier: Apache-2.0
//! Merged chunks as Spark's own readers ask for them.

use bytes::Bytes;
use lodestone_model::{AppId, GenerationId, Refusal, ShuffleId, ShuffleKey};
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::fetch::{FetchShuffleBlockChunks, StreamHandle};

use super::Call;
use super::fetch::{NotOpened, open, source_for};
use super::room::answer_memory_most;
use crate::streams::StreamItem;
use crate::streams::items::Items;

/// Spark's readers name no attempt.
fn key(app: AppId, shuffle: ShuffleId, generation: GenerationId) -> ShuffleKey {
    ShuffleKey {
        app,
        attempt: None,
        shuffle,
        generation,
    }
}

pub(super) fn block_chunks(
    call: &Call,
    message: FetchShuffleBlockChunks,
) -> Result<StreamHandle, Refusal> {
    let (shuffle, generation) = (message.shuffle_id, message.shuffle_merge_id);
    // There is no list of chunks of a shuffle that nobody registered.
    let key = key(message.app.clone(), shuffle, generation);
    call.service.store.check_readable(&key)?;
    let pairs = message
        .chunks
        .iter()
        .flat_map(|(reduce, chunks)| chunks.iter().map(move |chunk| (*reduce, *chunk)));
    let item = |(reduce, chunk)| StreamItem::Merged {
        shuffle,
        generation,
        reduce,
        chunk,
    };
    let items = Items::Mixed(pairs.map(item).collect());
    let source = source_for(message.app, message.exec_id, items)?;
    // Spark reads the originals in place of chunks that are refused.
    open(call, source).map_err(NotOpened::refusal)
}

/// A map index in the bitmap of its chunk, in a buffer that grows and in the frame, if each index
/// takes a container of the bitmap.
const MAP_BYTES: u64 = 64;

fn key_of(request: &MergedBlockMetaRequest) -> ShuffleKey {
    let (shuffle, generation) = (request.shuffle_id, request.shuffle_merge_id);
    key(request.app.clone(), shuffle, generation)
}

/// Memory for the bitmaps, and for the answer that contains them.
pub(super) fn meta_memory(call: &Call, request: &MergedBlockMetaRequest) -> u64 {
    let store = &call.service.store;
    let segments = store.segments_at_most(&key_of(request), &[request.reduce_id]);
    (segments as u64 * MAP_BYTES).min(answer_memory_most(call))
}

pub(super) fn meta(call: &Call, request: &MergedBlockMetaRequest) -> Result<(u32, Bytes), Refusal> {
    let key = key_of(request);
    // In a buffer that grows to twice their size, and in the frame.
    let most_bytes = answer_memory_most(call) / 3;
    let store = &call.service.store;
    let meta = store.merged_meta(&key, request.reduce_id, most_bytes as usize)?;
    Ok((meta.num_chunks, meta.bitmaps))
}
