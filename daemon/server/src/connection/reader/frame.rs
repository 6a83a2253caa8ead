// SPDX-License-Identifier: Apache-2.0
//! The bytes of frames, with the memory and the time that they may take.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::{BufMut, BytesMut};
use lodestone_planted::{self as planted, Bug};
use lodestone_wire::{Frame, FrameDecoder};
use tokio::select;
use tokio::time::timeout;

use super::removal::Removal;
use super::{READ_BYTES, Reader};
use crate::connection::pace::Pace;
use crate::connection::socket::{Socket, is_passing, readable};
use crate::connection::{CloseReason, STALL_TIMEOUT};
use crate::service::uploads::Content;

/// Larger frames take their memory from a pool before they are read.
const SMALL_FRAME_BYTES: usize = READ_BYTES;

/// A request takes so many times its bytes, with the values that it is decoded to. The lists of
/// pushes are as large as their bytes.
const SWELLING: u64 = 4;

impl Reader {
    pub(super) async fn next_frame(&mut self) -> Result<Frame, CloseReason> {
        loop {
            match Removal::of(&self.buffer) {
                Some(Removal::Is {
                    request_id,
                    frame_bytes,
                }) => {
                    self.remove_blocks(request_id, frame_bytes).await?;
                    continue;
                }
                Some(Removal::Perhaps) => {
                    self.fill(READ_BYTES).await?;
                    continue;
                }
                None => {}
            }
            if let Some(frame) = self.decoder.next(&mut self.buffer)? {
                if self.frame.is_some() {
                    // What comes behind a large frame must not keep its memory.
                    self.buffer = BytesMut::from(&*self.buffer);
                }
                return Ok(frame);
            }
            let frame_bytes = self.decoder.frame_bytes(&self.buffer)?.unwrap_or(0);
            if frame_bytes > SMALL_FRAME_BYTES && self.frame.is_none() {
                // A client that only announces a large frame gets no memory for it.
                if self.buffer.len() < READ_BYTES {
                    self.fill(READ_BYTES).await?;
                    continue;
                }
                self.reserve_frame(frame_bytes as u64).await;
            }
            // More would not fit into the memory of a large frame.
            let room = match self.frame {
                Some(_) => frame_bytes.saturating_sub(self.buffer.len()),
                None => READ_BYTES,
            };
            self.fill(room).await?;
        }
    }

    async fn reserve_frame(&mut self, bytes: u64) {
        let (content, bytes) = match FrameDecoder::is_upload(&self.buffer) {
            true => (Content::Upload, bytes),
            false => (Content::Request, bytes * SWELLING),
        };
        // The permit first: a connection that waits for one holds no memory.
        let mut hold = self.permit().await;
        let uploads = &self.call.service.uploads;
        let incoming = uploads.reserve_frame(content, &self.requests, bytes);
        let incoming = self.socket.wait(incoming).await;
        hold.memory = incoming.reserved;
        self.frame = Some(hold);
        self.pace = Some(Pace::begin(incoming.hurry));
    }

    /// Reads something into the buffer. A connection between two requests has no buffer.
    async fn fill(&mut self, room: usize) -> Result<(), CloseReason> {
        while self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.socket.read_all();
            self.next_request().await?;
            if self.try_fill(room, CloseReason::Client)? {
                return Ok(());
            }
        }
        self.more(room).await
    }

    /// Reads more of a request into the buffer.
    pub(super) async fn more(&mut self, room: usize) -> Result<(), CloseReason> {
        loop {
            self.readable_in_time().await?;
            if self.try_fill(room, CloseReason::Truncated)? {
                return Ok(());
            }
        }
    }

    /// Reads up to so many bytes that are there into the buffer. Returns false if nothing is there.
    /// Nothing comes after the client's end, which is an error.
    fn try_fill(&mut self, room: usize, end: CloseReason) -> Result<bool, CloseReason> {
        self.buffer.reserve(room);
        match self.socket.try_read(&mut (&mut self.buffer).limit(room)) {
            Ok(0) => Err(end),
            Ok(read) => {
                self.came(read);
                Ok(true)
            }
            Err(error) if is_passing(&error) => Ok(false),
            Err(error) => Err(CloseReason::Socket(error)),
        }
    }

    /// Waits for a request. A connection may be silent for any time while its answers are made.
    async fn next_request(&self) -> Result<(), CloseReason> {
        let Some(longest) = self.place.idle_timeout() else {
            return readable(&*self.socket).await.map_err(CloseReason::Socket);
        };
        loop {
            match timeout(longest, readable(&*self.socket)).await {
                Ok(readable) => return readable.map_err(CloseReason::Socket),
                Err(_) if self.place.entry.is_idle() => return Err(CloseReason::Idle),
                Err(_) => {}
            }
        }
    }

    /// Waits for more bytes of a request.
    pub(super) async fn readable_in_time(&mut self) -> Result<(), CloseReason> {
        let socket = Arc::clone(&self.socket);
        socket.wait_to_read(self.readable_soon()).await
    }

    async fn readable_soon(&mut self) -> Result<(), CloseReason> {
        loop {
            let readable = readable(&*self.socket);
            let Some(pace) = &mut self.pace else {
                match timeout(STALL_TIMEOUT, readable).await {
                    Ok(readable) => return readable.map_err(CloseReason::Socket),
                    Err(_) if planted::is(Bug::StalledRequestKept) => continue,
                    Err(_) => return Err(CloseReason::StalledRequest),
                }
            };
            select! {
                biased;
                readable = readable => return readable.map_err(CloseReason::Socket),
                () = pace.over() => {}
            }
            if !pace.goes_on() {
                return Err(CloseReason::SlowRequest);
            }
        }
    }

    pub(super) fn came(&mut self, bytes: usize) {
        // If they are encrypted, then with the right keys: their beginning was that of a frame.
        self.place.entry.is_proved.store(true, Relaxed);
        if let Some(pace) = &mut self.pace {
            pace.came(bytes);
        }
    }
}
