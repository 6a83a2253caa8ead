// SPDX-License-Identifier: Apache-2.0
//! Requests that are carried out on the thread that reads them, because the hand-over to another
//! thread takes longer than they do. Their [`Call`] must not wait: what would have to wait is
//! handed over in the end.

use lodestone_model::Code;
use lodestone_wire::{Message, extension as ext, spark};

use super::{Answer, Call, Upload, fetch, opened, originals, push};

/// A longer request is not carried out on the thread that reads it: see [`rpc_now`].
const SHORT_REQUEST_BYTES: usize = 16 << 10;

/// A longer upload is not merged on the thread that reads it: it takes about as long as the
/// hand-over to another one.
const SHORT_UPLOAD_BYTES: usize = 128 << 10;

/// Carries out an RPC that is short, and has no need to wait. `None`: [`rpc`](super::rpc) has to
/// carry it out.
pub fn rpc_now(call: &Call, body: &[u8]) -> Option<Answer> {
    if body.len() > SHORT_REQUEST_BYTES {
        return None;
    }
    let answer = match *body.first()? {
        ext::fetch::SegmentLayout::ID => {
            let layout = fetch::layout_now(call, body)?;
            return Some(Answer::Response(layout.to_bytes()));
        }
        ext::fetch::FetchSegments::ID => opened(call, body, fetch::segments),
        spark::originals::FetchShuffleBlocks::ID => opened(call, body, originals::shuffle_blocks),
        spark::originals::OpenBlocks::ID => opened(call, body, originals::open_blocks),
        _ => return None,
    };
    answer.ok()
}

/// Merges an upload that is short, if it has no need to wait. An error says what became of its
/// first segments, and [`upload`](super::upload) has to merge the rest.
pub fn upload_now(call: &Call, upload: &Upload, body: &[u8]) -> Result<Answer, Vec<Code>> {
    if body.len() > SHORT_UPLOAD_BYTES {
        return Err(Vec::new());
    }
    match upload {
        Upload::Batch(batch) => {
            push::batch_now(call, batch, body).map(|reply| Answer::Response(reply.to_bytes()))
        }
        Upload::Block(block) => push::block(call, block, body)
            .map(|reply| Answer::Response(reply.to_bytes()))
            .map_err(|_| Vec::new()),
    }
}
