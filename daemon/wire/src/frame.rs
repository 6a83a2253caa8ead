// SPDX-License-Identifier: Apache-2.0
//! The outer framing: section 2 of `docs/protocol.md`.
//!
//! ```text
//! i64 frameLength    counts itself, the type byte, the header fields, and an in-frame body
//! i8  type
//! ... header fields
//! ... body
//! ```
//!
//! `StreamResponse` and `UploadStream` have a body **after** the frame. The decoder returns their
//! header; the reader of the connection takes the bytes of the body before it asks for the next
//! frame.

use bytes::Bytes;
use lodestone_model::{AppId, GenerationId, ReduceId, ShuffleId};

use crate::codec::{Problem, record};

mod decode;
mod encode;

pub use decode::{BegunRequest, FrameDecoder, REQUEST_HEAD_BYTES};
pub use encode::chunk_fetch_success_head;

/// Bytes of the length field and the type byte.
const PREFIX_BYTES: usize = 8 + 1;

/// The limits of a receiver.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Frame, without an after-frame body.
    pub frame_bytes: u64,
    /// `meta` of an `UploadStream`.
    pub meta_bytes: u64,
    /// Body of an `UploadStream`.
    pub upload_bytes: u64,
}

impl Limits {
    /// The server's limits.
    pub const SERVER: Self = Self {
        frame_bytes: 8 << 20,
        meta_bytes: 4 << 20,
        upload_bytes: 64 << 20,
    };
}

/// Bytes that are no frame, or a frame that the receiver does not take. The connection cannot
/// continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length does not even cover itself and the type.
    #[error("frame length {0} is below the minimum of 9")]
    TooShort(i64),
    /// The frame is over the limit.
    #[error("frame length {length} is over the limit of {limit}")]
    TooLong {
        /// Length claimed.
        length: i64,
        /// Limit of the receiver.
        limit: u64,
    },
    /// The type byte names no message.
    #[error("frame type {0} is unknown")]
    UnknownType(u8),
    /// A header field is wrong.
    #[error("{frame}: {field} {problem}")]
    Header {
        /// Name of the frame.
        frame: &'static str,
        /// Name of the field.
        field: &'static str,
        /// The problem.
        problem: Problem,
    },
    /// A part of the frame is over its own limit.
    #[error("{part} of {length} bytes is over the limit of {limit}")]
    PartTooLong {
        /// Which part.
        part: &'static str,
        /// Its length.
        length: u64,
        /// Limit of the receiver.
        limit: u64,
    },
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Asks for the next chunk of a stream.
    ChunkFetchRequest(ChunkId),
    /// A chunk.
    ChunkFetchSuccess {
        /// Which chunk.
        chunk: ChunkId,
        /// Its bytes.
        body: Bytes,
    },
    /// There is no such chunk.
    ChunkFetchFailure(ChunkFailure),
    /// A request, to be answered with the same id.
    RpcRequest {
        /// Chosen by the client.
        request_id: i64,
        /// A message of [`crate::spark`] or [`crate::extension`].
        body: Bytes,
    },
    /// The answer to a request or an upload.
    RpcResponse {
        /// Id of the request.
        request_id: i64,
        /// A message, or empty.
        body: Bytes,
    },
    /// The request failed.
    RpcFailure(RpcFailure),
    /// Asks for a chunk as a stream.
    StreamRequest(StreamId),
    /// The stream's bytes follow this frame.
    StreamResponse(StreamHead),
    /// There is no such stream.
    StreamFailure(StreamFailure),
    /// A request without an answer.
    OneWay {
        /// A message.
        body: Bytes,
    },
    /// A request with a large body, which follows this frame.
    UploadStream {
        /// Chosen by the client.
        request_id: i64,
        /// A message.
        meta: Bytes,
        /// Bytes of the body.
        body_bytes: u64,
    },
    /// Asks which maps are in the chunks of a merged partition.
    MergedBlockMetaRequest(MergedBlockMetaRequest),
    /// The bitmaps, one for each chunk.
    MergedBlockMetaSuccess {
        /// Id of the request.
        request_id: i64,
        /// Chunks.
        num_chunks: u32,
        /// Concatenated bitmaps.
        body: Bytes,
    },
}

record! {
    /// A chunk of a stream.
    #[derive(Copy)]
    pub struct ChunkId {
        /// The stream.
        pub stream_id: i64,
        /// Index in the stream.
        pub chunk_index: i32,
    }
}

record! {
    /// Why there is no chunk.
    pub struct ChunkFailure {
        /// Which chunk.
        pub chunk: ChunkId,
        /// For the client's log.
        pub error: String,
    }
}

record! {
    /// Why a request failed.
    pub struct RpcFailure {
        /// Id of the request.
        pub request_id: i64,
        /// For the client's log.
        pub error: String,
    }
}

record! {
    /// Name of a stream; `<streamId>_<chunkIndex>` for chunks.
    pub struct StreamId {
        /// The name.
        pub name: String,
    }
}

record! {
    /// Announces the bytes of a stream.
    pub struct StreamHead {
        /// The name.
        pub name: String,
        /// Bytes that follow the frame.
        pub byte_count: i64,
    }
}

record! {
    /// Why there is no stream.
    pub struct StreamFailure {
        /// The name.
        pub name: String,
        /// For the client's log.
        pub error: String,
    }
}

record! {
    /// Which merged partition.
    pub struct MergedBlockMetaRequest {
        /// Chosen by the client.
        pub request_id: i64,
        /// The application.
        pub app: AppId,
        /// The shuffle.
        pub shuffle_id: ShuffleId,
        /// Its generation.
        pub shuffle_merge_id: GenerationId,
        /// The partition.
        pub reduce_id: ReduceId,
    }
}

/// Name of each frame, at the index of its type byte.
const NAMES: [&str; 13] = [
    "ChunkFetchRequest",
    "ChunkFetchSuccess",
    "ChunkFetchFailure",
    "RpcRequest",
    "RpcResponse",
    "RpcFailure",
    "StreamRequest",
    "StreamResponse",
    "StreamFailure",
    "OneWayMessage",
    "UploadStream",
    "MergedBlockMetaRequest",
    "MergedBlockMetaSuccess",
];
