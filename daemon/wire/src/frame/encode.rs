// SPDX-License-Identifier: Apache-2.0
//! Frames into bytes.

use bytes::{BufMut, Bytes, BytesMut};

use super::{ChunkId, Frame, PREFIX_BYTES};
use crate::codec::{Field, put_size, record};

impl Frame {
    /// Encodes the frame, with an in-frame body and without an after-frame one.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::ChunkFetchRequest(chunk) => put_frame(0, chunk, &[], out),
            Self::ChunkFetchSuccess { chunk, body } => put_frame(1, chunk, body, out),
            Self::ChunkFetchFailure(failure) => put_frame(2, failure, &[], out),
            Self::RpcRequest { request_id, body } => {
                put_sized(3, *request_id, size_of(body), body, out);
            }
            Self::RpcResponse { request_id, body } => {
                put_sized(4, *request_id, size_of(body), body, out);
            }
            Self::RpcFailure(failure) => put_frame(5, failure, &[], out),
            Self::StreamRequest(stream) => put_frame(6, stream, &[], out),
            Self::StreamResponse(head) => put_frame(7, head, &[], out),
            Self::StreamFailure(failure) => put_frame(8, failure, &[], out),
            Self::OneWay { body } => put_frame(9, &size_of(body), body, out),
            Self::UploadStream {
                request_id,
                meta,
                body_bytes,
            } => {
                let header_bytes = 8 + 4 + meta.len() + 8;
                put_prefix(10, header_bytes as u64, out);
                out.put_i64(*request_id);
                put_size(meta.len(), out);
                out.put_slice(meta);
                out.put_u64(*body_bytes);
            }
            Self::MergedBlockMetaRequest(request) => put_frame(11, request, &[], out),
            Self::MergedBlockMetaSuccess {
                request_id,
                num_chunks,
                body,
            } => put_sized(12, *request_id, *num_chunks, body, out),
        }
    }

    /// Encodes the frame into a buffer of its own.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.encode(&mut out);
        out.freeze()
    }
}

record! {
    /// A request id, and a length or count.
    struct SizedHead {
        request_id: i64,
        size: u32,
    }
}

/// The bytes before the body of a `ChunkFetchSuccess`, for bodies that are not in memory.
pub fn chunk_fetch_success_head(chunk: ChunkId, body_bytes: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + ChunkId::MIN_BYTES);
    put_prefix(1, ChunkId::MIN_BYTES as u64 + body_bytes, &mut out);
    chunk.put(&mut out);
    out.freeze()
}

fn size_of(body: &Bytes) -> u32 {
    debug_assert!(
        i32::try_from(body.len()).is_ok(),
        "a body fits the size field"
    );
    body.len() as u32
}

fn put_sized(kind: u8, request_id: i64, size: u32, body: &[u8], out: &mut BytesMut) {
    put_frame(kind, &SizedHead { request_id, size }, body, out);
}

fn put_prefix(kind: u8, payload_bytes: u64, out: &mut BytesMut) {
    out.put_u64(PREFIX_BYTES as u64 + payload_bytes);
    out.put_u8(kind);
}

fn put_frame(kind: u8, head: &impl Field, body: &[u8], out: &mut BytesMut) {
    let start = out.len();
    out.reserve(PREFIX_BYTES + 32 + body.len());
    put_prefix(kind, 0, out);
    head.put(out);
    out.put_slice(body);
    let length = (out.len() - start) as u64;
    if let Some(field) = out.get_mut(start..start + 8) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}
