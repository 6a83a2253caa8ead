// SPDX-License-Identifier: Apache-2.0
//! Requests that get one answer.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lodestone_model::AppId;
use lodestone_wire::Frame;
use lodestone_wire::frame::{MergedBlockMetaRequest, RpcFailure};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::blocks::remove_blocks;
use super::{Reader, answer_frame, at_once, carry_out, send};
use crate::connection::table::ConnectionTable;
use crate::connection::watched::Watched;
use crate::connection::{CloseReason, Hold, Outbound};
use crate::handler::{self, Answer, Call, NoRoom};
use crate::service::connection_share::ConnectionShare;
use crate::service::lanes::Kind;
use crate::service::pool::Reserved;

impl Reader {
    pub(super) async fn rpc(&mut self, request_id: i64, body: Bytes) {
        let mut hold = self.permit().await;
        match at_once(|| handler::rpc_now(&self.now, &body)) {
            Ok(None) => {}
            Ok(Some(answer)) => {
                hold.memory.clear();
                return send(&self.outbound, answer_frame(request_id, answer), hold);
            }
            Err(reason) => return send(&self.outbound, Err(reason), hold),
        }
        let body = match hold.memory.is_empty() {
            true => self.kept(&body, &mut hold).await,
            false => body,
        };
        let (call, outbound) = (self.call.clone(), self.outbound.clone());
        let (answers, socket) = (self.answers.clone(), Arc::clone(&self.socket));
        let table = self.place.table();
        tokio::spawn(async move {
            // The memory of the frame, which is free when the request is carried out.
            let frame = std::mem::take(&mut hold.memory);
            let needed = match answer_memory(&call, &body).await {
                Ok(needed) => needed,
                Err(reason) => return send(&outbound, Err(reason), hold),
            };
            if let Some((app, bytes)) = needed {
                let longest = handler::answer_timeout(&body);
                let room = socket.wait(answer_room(&call, &socket, app, &answers, bytes));
                match timeout(longest, room).await {
                    Ok(Some(reserved)) => hold.memory = reserved,
                    Ok(None) => return,
                    Err(_) => {
                        let answer = handler::without_room(&call, &body);
                        return send(&outbound, answer_frame(request_id, answer), hold);
                    }
                }
            }
            let answer = rpc_with_room(call, body, frame, &table).await;
            let answer = answer.and_then(|answer| answer_frame(request_id, answer));
            send_in_room(&outbound, answer, hold);
        });
    }

    /// Returns a request that has to wait, with memory of its own size: it would keep the buffer in
    /// which it came, with room for others. The client's own part of the memory comes first, and is
    /// all that it waits for: requests of others hold none of it.
    async fn kept(&self, body: &[u8], hold: &mut Hold) -> Bytes {
        let bytes = body.len() as u64;
        let uploads = &self.call.service.uploads;
        let free = self.own.try_reserve(bytes);
        let free = free.or_else(|| uploads.try_request(bytes));
        let memory = match free {
            Some(memory) => memory,
            None => self.socket.wait(self.own.reserve(bytes)).await,
        };
        hold.memory.push(memory);
        Bytes::copy_from_slice(body)
    }

    pub(super) async fn merged_meta(&mut self, request: MergedBlockMetaRequest) {
        let mut hold = self.permit().await;
        hold.memory.clear();
        let (call, outbound) = (self.call.clone(), self.outbound.clone());
        let (answers, socket) = (self.answers.clone(), Arc::clone(&self.socket));
        tokio::spawn(async move {
            if let Some((app, bytes)) = handler::merged_meta_memory(&call, &request) {
                let room = answer_room(&call, &socket, app, &answers, bytes);
                match socket.wait(room).await {
                    Some(reserved) => hold.memory = reserved,
                    None => return,
                }
            }
            let request_id = request.request_id;
            let answer = carry_out(call, Kind::Question, move |call| {
                handler::merged_meta(call, &request)
            })
            .await;
            let frame = answer.map(|answer| match answer {
                Ok((num_chunks, body)) => Frame::MergedBlockMetaSuccess {
                    request_id,
                    num_chunks,
                    body,
                }
                .to_bytes(),
                Err(error) => Frame::RpcFailure(RpcFailure { request_id, error }).to_bytes(),
            });
            send_in_room(&outbound, frame, hold);
        });
    }
}

/// Hands an answer to the writer. Its memory was reserved for the most that it could be.
fn send_in_room(
    outbound: &mpsc::Sender<Outbound>,
    answer: Result<Bytes, CloseReason>,
    mut hold: Hold,
) {
    let size = answer.as_ref().map_or(0, Bytes::len) as u64;
    hold.memory
        .iter_mut()
        .for_each(|memory| memory.shrink_to(size));
    send(outbound, answer, hold);
}

/// Returns the application and the memory of an answer. What takes long to count is not counted on
/// a thread that serves connections.
async fn answer_memory(
    call: &Call,
    body: &Bytes,
) -> Result<Option<(Option<AppId>, u64)>, CloseReason> {
    if !handler::is_long(body) {
        return Ok(handler::answer_memory(call, body));
    }
    // A finalize does not stand in the line of pushes for this: only its work does.
    let asked = body.clone();
    carry_out(call.clone(), Kind::Question, move |call| {
        handler::answer_memory(call, &asked)
    })
    .await
}

/// Waits for the memory of an answer, first for its shares: a client that does not read waits for
/// itself. `None` if the connection ends: requests of connections that ended must not pile up.
async fn answer_room(
    call: &Call,
    socket: &Watched,
    app: Option<AppId>,
    share: &ConnectionShare,
    bytes: u64,
) -> Option<Vec<Reserved>> {
    let layouts = &call.service.layouts;
    let reserved = async {
        let reserved = match &app {
            Some(app) => layouts.reserve(app, share.wanted(), bytes).await,
            None => layouts.reserve_for_unknown(share.wanted(), bytes).await,
        };
        if share.held_bytes() == 0 {
            socket.holds_answers();
        }
        share.count(layouts, app.as_ref(), bytes, reserved)
    };
    let ended = call.streams.room().ended();
    tokio::select! {
        biased;
        reserved = reserved => Some(reserved),
        () = ended => None,
    }
}

/// Carries out a request. If there is no memory for the list of its stream, the request waits until
/// other streams end, and is carried out again. To refuse it would close the connection, which ends
/// the requests of all tasks, or make the reader take originals.
async fn rpc_with_room(
    call: Call,
    mut body: Bytes,
    mut frame: Vec<Reserved>,
    table: &ConnectionTable,
) -> Result<Answer, CloseReason> {
    let mut refusal = match rpc(&call, body.clone()).await? {
        Err(NoRoom(refusal)) => refusal,
        Ok(answer) => return Ok(answer),
    };
    if let Some(reserved) = room_for(&call, &mut body, &mut frame, table).await? {
        let call = Call {
            reserved: Arc::new(Mutex::new(Some(reserved))),
            ..call.clone()
        };
        match rpc(&call, body.clone()).await? {
            Err(NoRoom(again)) => refusal = again,
            Ok(answer) => return Ok(answer),
        }
    }
    Ok(handler::without_stream(&call, &body, &refusal))
}

/// Waits for the memory of a list. Meanwhile connections make way whose clients have stopped with
/// open streams. `None`: too many requests wait, it takes too long, or the connection ends.
async fn room_for(
    call: &Call,
    body: &mut Bytes,
    frame: &mut Vec<Reserved>,
    table: &ConnectionTable,
) -> Result<Option<Vec<Reserved>>, CloseReason> {
    let room = call.streams.room();
    let memory = call.service.uploads.try_small(body.len() as u64);
    let (Some(_waits), Some(memory)) = (room.wait(), memory) else {
        return Ok(None);
    };
    // The body may be a part of a larger buffer, and other frames may need the memory of its frame.
    *body = Bytes::copy_from_slice(body);
    *frame = vec![memory];
    let longest = handler::room_timeout(body);
    let (kind, asked) = (handler::kind(body), body.clone());
    let needed = carry_out(call.clone(), kind, move |call| {
        handler::list_memory(call, &asked)
    })
    .await?;
    let Some((app, bytes)) = needed else {
        return Ok(None);
    };
    let reserved = call
        .service
        .lists
        .reserve(&app, call.list_share.wanted(), bytes);
    tokio::select! {
        biased;
        reserved = timeout(longest, reserved) => Ok(reserved.ok()),
        () = room.ended() => Ok(None),
        never = table.end_stopped_readers() => match never {},
    }
}

async fn rpc(call: &Call, body: Bytes) -> Result<Result<Answer, NoRoom>, CloseReason> {
    let kind = handler::kind(&body);
    let places = match kind {
        Kind::Removal => return remove_blocks(call, body).await.map(Ok),
        // The directories of a registration are looked up in the table of mounts.
        Kind::Registration | Kind::Diagnosis => {
            let (call, asked) = (call.clone(), body.clone());
            carry_out(call, kind, move |call| handler::places::of(call, &asked)).await?
        }
        _ => Vec::new(),
    };
    let (service, call) = (Arc::clone(&call.service), call.clone().on_thread_of(kind));
    let work = move || handler::rpc(&call, &body);
    let done = service.lanes.run_at(kind, &places, work).await;
    done.map_err(|_| CloseReason::Panic)
}
