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
//! `StreamResponse` and `UploadStream` have a body **after** the frame. The decoder hands out their
//! header; whoever reads the connection takes the body's bytes before it asks for the next frame.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::codec::{Field, FieldError, Problem, Reader, put_size, record};
use crate::id::AppId;

/// Bytes of the length field and the type byte.
const PREFIX_BYTES: usize = 8 + 1;

/// What a receiver is willing to take.
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

/// Bytes that are no frame, or none that the receiver takes. The connection cannot go on.
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
        /// What is wrong with it.
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
        /// Of the request.
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
        /// Of the request.
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
        /// Of the request.
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
        pub shuffle_id: i32,
        /// Its generation.
        pub merge_id: i32,
        /// The partition.
        pub reduce_id: u32,
    }
}

/// Name of each frame, at the place of its type byte.
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

/// Finds frames in the bytes of a connection.
#[derive(Debug)]
pub struct FrameDecoder {
    limits: Limits,
}

impl FrameDecoder {
    /// A decoder with the receiver's limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Length of the frame that starts at the first byte, once its nine first bytes are there.
    /// Length and type are checked here, before anyone makes room for the frame.
    pub fn frame_bytes(&self, buffered: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some((prefix, _)) = buffered.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let [length @ .., kind] = *prefix;
        let length = i64::from_be_bytes(length);
        if length < PREFIX_BYTES as i64 {
            return Err(FrameError::TooShort(length));
        }
        if length as u64 > self.limits.frame_bytes {
            return Err(FrameError::TooLong {
                length,
                limit: self.limits.frame_bytes,
            });
        }
        if usize::from(kind) >= NAMES.len() {
            return Err(FrameError::UnknownType(kind));
        }
        Ok(Some(length as usize))
    }

    /// Takes the next frame off the buffer, or leaves the buffer as it is when the frame is not
    /// complete. In-frame bodies share the buffer's memory.
    pub fn next(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        match self.frame_bytes(buffer)? {
            Some(length) if buffer.len() >= length => {
                let mut frame = buffer.split_to(length).freeze();
                frame.advance(8);
                let kind = frame.get_u8();
                self.decode(kind, frame).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn decode(&self, kind: u8, payload: Bytes) -> Result<Frame, FrameError> {
        let mut input = Reader::new(&payload);
        let frame = self
            .decode_kind(kind, &payload, &mut input)
            .map_err(|error| {
                let name = NAMES.get(usize::from(kind)).copied().unwrap_or("frame");
                let (field, problem) = error.into_parts();
                FrameError::Header {
                    frame: name,
                    field,
                    problem,
                }
            })?;
        self.check_upload(&frame)?;
        Ok(frame)
    }

    fn decode_kind(
        &self,
        kind: u8,
        payload: &Bytes,
        input: &mut Reader<'_>,
    ) -> Result<Frame, FieldError> {
        let frame = match kind {
            0 => Frame::ChunkFetchRequest(ChunkId::get(input)?),
            1 => Frame::ChunkFetchSuccess {
                chunk: ChunkId::get(input)?,
                body: rest(payload, input),
            },
            2 => Frame::ChunkFetchFailure(ChunkFailure::get(input)?),
            3 => {
                let request_id = input.field("request_id")?;
                let _ignored: i32 = input.field("body_size")?;
                Frame::RpcRequest {
                    request_id,
                    body: rest(payload, input),
                }
            }
            4 => {
                let request_id = input.field("request_id")?;
                let _ignored: i32 = input.field("body_size")?;
                Frame::RpcResponse {
                    request_id,
                    body: rest(payload, input),
                }
            }
            5 => Frame::RpcFailure(RpcFailure::get(input)?),
            6 => Frame::StreamRequest(StreamId::get(input)?),
            7 => Frame::StreamResponse(StreamHead::get(input)?),
            8 => Frame::StreamFailure(StreamFailure::get(input)?),
            9 => {
                let _ignored: i32 = input.field("body_size")?;
                Frame::OneWay {
                    body: rest(payload, input),
                }
            }
            10 => decode_upload(payload, input)?,
            11 => Frame::MergedBlockMetaRequest(MergedBlockMetaRequest::get(input)?),
            12 => Frame::MergedBlockMetaSuccess {
                request_id: input.field("request_id")?,
                num_chunks: input.field("num_chunks")?,
                body: rest(payload, input),
            },
            other => return Err(FieldError::from(Problem::UnknownValue(other)).at("type")),
        };
        match input.remaining() {
            0 => Ok(frame),
            trailing => Err(Problem::TrailingBytes(trailing).into()),
        }
    }

    fn check_upload(&self, frame: &Frame) -> Result<(), FrameError> {
        let Frame::UploadStream {
            meta, body_bytes, ..
        } = frame
        else {
            return Ok(());
        };
        let parts = [
            ("upload meta", meta.len() as u64, self.limits.meta_bytes),
            ("upload body", *body_bytes, self.limits.upload_bytes),
        ];
        match parts.into_iter().find(|(_, length, limit)| length > limit) {
            Some((part, length, limit)) => Err(FrameError::PartTooLong {
                part,
                length,
                limit,
            }),
            None => Ok(()),
        }
    }
}

fn decode_upload(payload: &Bytes, input: &mut Reader<'_>) -> Result<Frame, FieldError> {
    let request_id = input.field("request_id")?;
    let meta_length = input
        .size()
        .map_err(|problem| FieldError::from(problem).at("meta"))?;
    let start = payload.len() - input.remaining();
    input
        .take(meta_length)
        .map_err(|problem| FieldError::from(problem).at("meta"))?;
    let meta = payload.slice(start..start + meta_length);
    let body_bytes: i64 = input.field("body_byte_count")?;
    let body_bytes = u64::try_from(body_bytes)
        .map_err(|_| FieldError::from(Problem::Negative(body_bytes)).at("body_byte_count"))?;
    Ok(Frame::UploadStream {
        request_id,
        meta,
        body_bytes,
    })
}

/// What is left of the payload is the body.
fn rest(payload: &Bytes, input: &mut Reader<'_>) -> Bytes {
    let body = payload.slice(payload.len() - input.remaining()..);
    *input.rest() = &[];
    body
}

impl Frame {
    /// The frame's bytes, with an in-frame body, without an after-frame one.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::ChunkFetchRequest(chunk) => put_frame(0, chunk, &[], out),
            Self::ChunkFetchSuccess { chunk, body } => put_frame(1, chunk, body, out),
            Self::ChunkFetchFailure(failure) => put_frame(2, failure, &[], out),
            Self::RpcRequest { request_id, body } => {
                put_frame(
                    3,
                    &SizedHead {
                        request_id: *request_id,
                        size: size_of(body),
                    },
                    body,
                    out,
                );
            }
            Self::RpcResponse { request_id, body } => {
                put_frame(
                    4,
                    &SizedHead {
                        request_id: *request_id,
                        size: size_of(body),
                    },
                    body,
                    out,
                );
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
            } => {
                let head = SizedHead {
                    request_id: *request_id,
                    size: *num_chunks,
                };
                put_frame(12, &head, body, out);
            }
        }
    }

    /// [`Frame::encode`] into a buffer of its own.
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
