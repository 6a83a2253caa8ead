// SPDX-License-Identifier: Apache-2.0
//! Uploads: pushes whose bytes follow their request.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use tokio::select;

use super::push::{self, Waiting};
use super::{READ_BYTES, Reader, answer_frame, at_once, send};
use crate::connection::pace::Pace;
use crate::connection::socket::Socket;
use crate::connection::socket::is_passing;
use crate::connection::{CloseReason, Hold};
use crate::handler::{self, Answer, Upload};
use crate::metrics::stopwatch::Stopwatch;
use crate::service::block_memory::AtDisk;
use crate::service::body::{PooledBody, memory_bytes};
use crate::service::pool::Reserved;
use crate::service::uploads::Incoming;

/// So many bytes of an upload, or all, have come before memory is reserved for the rest. A client
/// that only announces an upload gets none.
const FIRST_BYTES: usize = 16 << 10;

/// The memory of an upload.
struct Memory {
    incoming: Incoming,
    at_disk: Option<AtDisk>,
    /// What a long answer has.
    reply: Option<Reserved>,
}

impl Reader {
    pub(super) async fn upload(
        &mut self,
        request_id: i64,
        meta: Bytes,
        body_bytes: u64,
    ) -> Result<(), CloseReason> {
        let stopwatch = Stopwatch::start();
        // This is not above the limit of the frame decoder, which is far below any address space.
        let length = body_bytes as usize;
        let upload = match handler::admit_upload(&self.call, &meta, body_bytes) {
            Ok(upload) => upload,
            Err(answer) => {
                drop(meta);
                self.forget_frame();
                return self.refuse(request_id, answer, body_bytes).await;
            }
        };
        self.place.entry.client.is_of(upload.app());
        // The list of segments is decoded, and takes as much.
        let meta_bytes = meta.len();
        drop(meta);
        // Until its first bytes have come, a connection is idle: it makes way for others. A long
        // list keeps its memory, and goes on, until there is memory for all.
        while self.buffer.len() < length.min(FIRST_BYTES) {
            self.more(READ_BYTES).await?;
        }
        let mut hold = self.permit().await;
        let mut before = None;
        // What is here, and is merged at once, needs no other memory. But nothing of a long list is
        // merged before it has its memory: without that, it is refused as a whole.
        if self.pace.is_none()
            && let Some(body) = self.buffer.get(..length)
        {
            match at_once(|| handler::upload_now(&self.now, &upload, body))? {
                Ok(answer) => {
                    self.buffer.advance(length);
                    self.merged(request_id, answer, stopwatch, hold);
                    return Ok(());
                }
                Err(codes) => before = Some(codes),
            }
        }
        let bytes = (memory_bytes(length) + meta_bytes) as u64;
        let memory = match self.memory(&upload, bytes).await? {
            Ok(memory) => memory,
            Err(answer) => {
                drop(upload);
                return self.refuse_late(request_id, answer, body_bytes, hold).await;
            }
        };
        let at_disk = memory
            .at_disk
            .map(|at_disk| (at_disk.memory, at_disk.hurries));
        let (room, hurries_at_disk) = at_disk.unzip();
        hold.memory = memory.incoming.reserved;
        let pace = Pace::begin_at_disk(memory.incoming.hurry, hurries_at_disk);
        self.pace = Some(pace.of_length(length, self.buffer.len()));
        let body = self.body(length).await?;
        self.pace = None;
        let tried = before.map_or_else(
            || at_once(|| handler::upload_now(&self.now, &upload, &body)),
            |codes| Ok(Err(codes)),
        );
        let before = match tried? {
            Ok(answer) => {
                drop(body);
                self.merged(request_id, answer, stopwatch, hold);
                return Ok(());
            }
            Err(codes) => codes,
        };
        let waiting = Waiting {
            upload,
            body,
            before,
            room,
        };
        self.merge_later(request_id, waiting, memory.reply, stopwatch, hold);
        Ok(())
    }

    /// Merges an upload on a thread that may wait.
    fn merge_later(
        &self,
        request_id: i64,
        waiting: Waiting,
        reply: Option<Reserved>,
        stopwatch: Stopwatch,
        mut hold: Hold,
    ) {
        let (call, outbound) = (self.call.clone(), self.outbound.clone());
        tokio::spawn(async move {
            let service = Arc::clone(&call.service);
            let answer = push::push(call, waiting).await;
            service.metrics.push_seconds.observe(stopwatch.seconds());
            hold.memory = Vec::from_iter(reply);
            let answer = answer.and_then(|answer| answer_frame(request_id, answer));
            send(&outbound, answer, hold);
        });
    }

    /// Waits for the memory of an upload. An answer refuses it.
    async fn memory(
        &mut self,
        upload: &Upload,
        bytes: u64,
    ) -> Result<Result<Memory, Answer>, CloseReason> {
        let block = push::room(&self.call, upload, &self.uploads, bytes);
        Ok(match self.socket.wait(block).await? {
            Err(answer) => Err(answer),
            Ok(Some(block)) => Ok(Memory {
                incoming: block.incoming,
                at_disk: Some(block.at_disk),
                reply: None,
            }),
            Ok(None) => match self.upload_room(upload, bytes).await {
                None => Err(handler::upload_without_room(&self.call, upload)),
                Some((incoming, reply)) => Ok(Memory {
                    incoming,
                    at_disk: None,
                    reply,
                }),
            },
        })
    }

    /// Waits for the memory of an upload, after that of a long answer. A long list of segments has
    /// memory of its own, for which others may wait too: `None` if they do and that takes too long.
    async fn upload_room(
        &mut self,
        upload: &Upload,
        bytes: u64,
    ) -> Option<(Incoming, Option<Reserved>)> {
        let uploads = &self.call.service.uploads;
        let room = self.socket.wait(async {
            let reply = match upload.answer_memory() {
                Some(bytes) => Some(self.replies.reserve(bytes).await),
                None => None,
            };
            let incoming = uploads.reserve(upload.app(), &self.uploads, bytes);
            (incoming.await, reply)
        });
        let Some(pace) = &mut self.pace else {
            return Some(room.await);
        };
        pace.begin_again();
        tokio::pin!(room);
        loop {
            select! {
                biased;
                room = &mut room => return Some(room),
                () = pace.over() => {}
            }
            if pace.is_hurried() {
                return None;
            }
            pace.begin_again();
        }
    }

    /// Refuses an upload that has begun. Its list of segments was dropped: the bytes may come
    /// slowly.
    async fn refuse_late(
        &mut self,
        request_id: i64,
        answer: Answer,
        body_bytes: u64,
        mut hold: Hold,
    ) -> Result<(), CloseReason> {
        hold.memory.clear();
        self.frame = Some(hold);
        self.refuse(request_id, answer, body_bytes).await
    }

    /// Answers an upload that is not merged, when its bytes have come.
    async fn refuse(
        &mut self,
        request_id: i64,
        answer: Answer,
        body_bytes: u64,
    ) -> Result<(), CloseReason> {
        self.pace = None;
        self.discard(body_bytes).await?;
        let hold = self.permit().await;
        send(&self.outbound, answer_frame(request_id, answer), hold);
        Ok(())
    }

    /// Answers an upload that was merged at once.
    fn merged(&self, request_id: i64, answer: Answer, stopwatch: Stopwatch, mut hold: Hold) {
        let metrics = &self.call.service.metrics;
        metrics.push_seconds.observe(stopwatch.seconds());
        hold.memory.clear();
        send(&self.outbound, answer_frame(request_id, answer), hold);
    }

    /// Reads an upload's body, straight into memory of its size.
    async fn body(&mut self, length: usize) -> Result<PooledBody, CloseReason> {
        let mut body = self.call.service.body_pool.take(length);
        let memory = body.memory();
        memory.put(self.buffer.split_to(self.buffer.len().min(length)));
        while memory.len() < length {
            self.readable_in_time().await?;
            let missing = length - memory.len();
            match self.socket.try_read(&mut (&mut *memory).limit(missing)) {
                Ok(0) => return Err(CloseReason::Truncated),
                Ok(read) => self.came(read),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
        Ok(body)
    }

    /// Gives back the memory of the frame.
    fn forget_frame(&mut self) {
        if let Some(hold) = &mut self.frame {
            hold.memory.clear();
        }
    }

    /// Reads so many bytes and forgets them.
    pub(super) async fn discard(&mut self, body_bytes: u64) -> Result<(), CloseReason> {
        let mut missing = body_bytes;
        loop {
            let here = (self.buffer.len() as u64).min(missing);
            drop(self.buffer.split_to(here as usize));
            missing -= here;
            if missing == 0 {
                return Ok(());
            }
            self.more(READ_BYTES).await?;
        }
    }
}
