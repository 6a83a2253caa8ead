// SPDX-License-Identifier: Apache-2.0
//! Frames out of the bytes of a connection.

use bytes::{Buf, Bytes, BytesMut};

use super::{
    ChunkFailure, ChunkId, Frame, FrameError, Limits, MergedBlockMetaRequest, NAMES, PREFIX_BYTES,
    RpcFailure, StreamFailure, StreamHead, StreamId,
};
use crate::codec::{Field, FieldError, Problem, Reader};

/// The type bytes of an `RpcRequest` and of an `UploadStream`.
const REQUEST: u8 = 3;
const UPLOAD: u8 = 10;

/// Bytes of an `RpcRequest` before its body: prefix, request id, size of the body.
pub const REQUEST_HEAD_BYTES: usize = PREFIX_BYTES + 8 + 4;

/// An `RpcRequest` of which not all has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BegunRequest {
    /// Length of the frame.
    pub frame_bytes: u64,
    /// The id of the request, and the type id of its message, if they have come.
    pub ids: Option<(i64, u8)>,
}

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

    /// Returns the length of the frame that starts at the first byte, once its first nine bytes are
    /// there. Length and type are checked here, before memory is reserved for the frame.
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

    /// Returns what is known of the `RpcRequest` that starts at the first byte; `None` if another
    /// frame does, or the first nine bytes are not there.
    pub fn begun_request(buffered: &[u8]) -> Option<BegunRequest> {
        let (prefix, rest) = buffered.split_first_chunk::<PREFIX_BYTES>()?;
        let [length @ .., kind] = *prefix;
        let frame_bytes = u64::try_from(i64::from_be_bytes(length)).ok()?;
        let ids = || {
            let id = i64::from_be_bytes(*rest.first_chunk()?);
            Some((id, *buffered.get(REQUEST_HEAD_BYTES)?))
        };
        (kind == REQUEST).then(|| BegunRequest {
            frame_bytes,
            ids: ids(),
        })
    }

    /// Returns true if an `UploadStream` starts at the first byte, once its first nine bytes are
    /// there.
    pub fn is_upload(buffered: &[u8]) -> bool {
        let prefix = buffered.first_chunk::<PREFIX_BYTES>();
        prefix.is_some_and(|[.., kind]| *kind == UPLOAD)
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
            REQUEST => {
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
            UPLOAD => decode_upload(payload, input)?,
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

/// The rest of the payload is the body.
fn rest(payload: &Bytes, input: &mut Reader<'_>) -> Bytes {
    let body = payload.slice(payload.len() - input.remaining()..);
    *input.rest() = &[];
    body
}
