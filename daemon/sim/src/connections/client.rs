// SPDX-License-Identifier: Apache-2.0
//! Frames over a connection, as a client sends and receives them.

use bytes::{Bytes, BytesMut};
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::frame::{ChunkFailure, ChunkId};
use lodestone_wire::{Frame, FrameDecoder, Limits, Message};

use super::wire::ClientEnd;

/// The client of one connection. It sends a request after the answer to the one before.
#[derive(Debug)]
pub(super) struct Client {
    end: ClientEnd,
    decoder: FrameDecoder,
    buffer: BytesMut,
    requests: i64,
}

/// The connection ended before the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

impl Client {
    pub(super) fn new(end: ClientEnd) -> Self {
        Self {
            end,
            decoder: FrameDecoder::new(Limits {
                frame_bytes: 64 << 20,
                ..Limits::SERVER
            }),
            buffer: BytesMut::new(),
            requests: 0,
        }
    }

    /// Sends a request and waits for its answer. An error text if the daemon says that it failed.
    pub(super) async fn rpc(&mut self, body: &Bytes) -> Result<Result<Bytes, String>, Ended> {
        self.requests += 1;
        let request = Frame::RpcRequest {
            request_id: self.requests,
            body: body.clone(),
        };
        self.send(&request.to_bytes()).await?;
        self.answer().await
    }

    /// Pushes a batch and waits for its answer.
    pub(super) async fn push(
        &mut self,
        batch: &PushBatch,
        body: &[u8],
    ) -> Result<Result<Bytes, String>, Ended> {
        self.requests += 1;
        self.send(&upload(self.requests, batch, body.len())).await?;
        self.send(body).await?;
        self.answer().await
    }

    /// Takes a chunk of a stream.
    pub(super) async fn chunk(
        &mut self,
        stream_id: i64,
        chunk_index: i32,
    ) -> Result<Result<Bytes, String>, Ended> {
        let asked = ChunkId {
            stream_id,
            chunk_index,
        };
        self.send(&Frame::ChunkFetchRequest(asked).to_bytes())
            .await?;
        match self.frame().await? {
            Frame::ChunkFetchSuccess { chunk, body } if chunk == asked => Ok(Ok(body)),
            Frame::ChunkFetchFailure(ChunkFailure { chunk, error }) if chunk == asked => {
                Ok(Err(error))
            }
            other => Ok(Err(format!("the daemon sent {other:?} for a chunk"))),
        }
    }

    /// Sends bytes of any kind.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), Ended> {
        self.end.send(bytes).await.then_some(()).ok_or(Ended)
    }

    /// Takes nothing until the daemon closes the connection.
    pub(super) async fn closed(&self) {
        self.end.closed().await;
    }

    async fn answer(&mut self) -> Result<Result<Bytes, String>, Ended> {
        match self.frame().await? {
            Frame::RpcResponse { request_id, body } if request_id == self.requests => Ok(Ok(body)),
            Frame::RpcFailure(failure) if failure.request_id == self.requests => {
                Ok(Err(failure.error))
            }
            other => Ok(Err(format!(
                "the daemon sent {other:?} for request {}",
                self.requests
            ))),
        }
    }

    async fn frame(&mut self) -> Result<Frame, Ended> {
        loop {
            match self.decoder.next(&mut self.buffer) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                // The next answer shows it: no frame comes out of these bytes.
                Err(error) => {
                    return Ok(Frame::StreamFailure(lodestone_wire::frame::StreamFailure {
                        name: "no frame".to_owned(),
                        error: error.to_string(),
                    }));
                }
            }
            if !self.end.receive(&mut self.buffer).await {
                return Err(Ended);
            }
        }
    }
}

/// The announcement of a batch.
pub(super) fn upload(request_id: i64, batch: &PushBatch, body_bytes: usize) -> Bytes {
    Frame::UploadStream {
        request_id,
        meta: batch.to_bytes(),
        body_bytes: body_bytes as u64,
    }
    .to_bytes()
}
