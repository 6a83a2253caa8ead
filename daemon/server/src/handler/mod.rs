// SPDX-License-Identifier: Apache-2.0
//! Dispatch: which handler takes which message, and how refusals travel. Handlers may
//! block (they call the store) and run on a lane, except those that must not wait ([`Call::wait`]).

mod at_once;
mod commit;
mod drain;
mod explain;
mod fetch;
mod finalize;
mod hello;
mod keys;
mod lease;
mod measure;
mod merged;
mod originals;
pub mod places;
mod push;
mod refuse;
mod register;
mod remove;
mod room;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lodestone_model::{AppId, Code, Refusal, spark_id};
use lodestone_planted::{self as planted, Bug};
use lodestone_store::Wait;
use lodestone_wire::extension as ext;
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::frame::MergedBlockMetaRequest;
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::push::PushBlockStream;
use lodestone_wire::{DecodeError, Message, Request, spark};

use crate::service::Service;
use crate::service::connection_share::ConnectionShare;
use crate::service::lanes::Kind;
use crate::service::pool::Reserved;
use crate::service::shared_pool::PART_OF_CONNECTION;
use crate::streams::SharedStreams;

pub use at_once::{rpc_now, upload_now};
use fetch::NotOpened;
use keys::{check_incarnation, generation};
pub use push::Upload;
use refuse::{count_refusal, fail, refuse, upload_refusal};
pub use refuse::{
    malformed, upload_to_a_disk_that_hangs, upload_without_room, without_room, without_stream,
};
pub use remove::{NAMES_AT_ONCE, Removal, blocks_by_place, remove_some, removed};
use room::answers_of_connection;
pub use room::{
    SHARE_OF_ANSWERS, answer_memory, answer_timeout, is_long, list_memory, merged_meta_memory,
    room_timeout,
};

/// The means of a handler.
#[derive(Debug, Clone)]
pub struct Call {
    /// Shared by all connections.
    pub service: Arc<Service>,
    /// The streams of this connection.
    pub streams: SharedStreams,
    /// Number of the connection, for the log.
    pub connection: u64,
    /// The connection's share of the memory for lists of streams.
    pub list_share: ConnectionShare,
    /// Memory that a request has waited for, for the list of its stream.
    pub reserved: Arc<Mutex<Option<Vec<Reserved>>>>,
    /// Whether the handler may wait.
    pub wait: Wait,
    /// The application that the client has proved to be of; `None` if nobody asked.
    pub principal: Option<AppId>,
}

impl Call {
    /// For the requests of one connection.
    pub fn new(service: &Arc<Service>, connection: u64) -> Self {
        Self {
            service: Arc::clone(service),
            streams: planted::shared(Bug::StreamsShared).unwrap_or_default(),
            connection,
            list_share: service.lists.connection_share(PART_OF_CONNECTION),
            reserved: Arc::default(),
            wait: Wait::InTime,
            principal: None,
        }
    }

    /// For the requests of a client of this application.
    #[must_use]
    pub fn of(self, principal: Option<AppId>) -> Self {
        Self { principal, ..self }
    }

    /// Refuses a request about another application than the client's. The plugin adds the number of
    /// its driver to the id of an application; secrets are of the id.
    fn check_app(&self, app: &str) -> Result<(), Refusal> {
        match &self.principal {
            Some(own) if own.as_str() != app && own.as_str() != spark_id(app) => {
                let detail = format!("the client has authenticated as {own}, not as {app}");
                Err(Code::Malformed.because(detail))
            }
            _ => Ok(()),
        }
    }

    fn waiting(&self, wait: Wait) -> Self {
        Self {
            wait,
            ..self.clone()
        }
    }

    /// For requests that are carried out on a thread of the disk for which they wait.
    #[must_use]
    pub fn at_its_disk(&self) -> Self {
        self.waiting(Wait::AtItsDisk)
    }

    /// For requests that are carried out on threads of this kind.
    #[must_use]
    pub fn on_thread_of(self, kind: Kind) -> Self {
        match kind {
            Kind::Question => Self {
                wait: Wait::Question,
                ..self
            },
            _ => self,
        }
    }

    /// For requests that are carried out on the thread that reads them.
    #[must_use]
    pub fn without_waiting(&self) -> Self {
        self.waiting(Wait::Never)
    }

    /// For requests that have waited for their turn, and are tried again before they take a thread.
    #[must_use]
    pub fn again_without_waiting(&self) -> Self {
        self.waiting(Wait::NeverAgain)
    }
}

/// The answer to an RPC or an upload.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Body of an `RpcResponse`.
    Response(Bytes),
    /// Text of an `RpcFailure`.
    Failure(String),
    /// None: the connection closes, and Spark repeats the request on another one.
    Close,
}

/// There is no answer yet, because there is no memory for the list of a stream. The request may
/// wait for it. If it does not come, [`without_stream`] makes the answer.
#[derive(Debug)]
pub struct NoRoom(pub Refusal);

/// Returns the kind of an RPC, by its first byte.
pub fn kind(body: &[u8]) -> Kind {
    let Some(&id) = body.first() else {
        return Kind::Control;
    };
    match id {
        ext::commit::CommitMap::ID
        | ext::fetch::SegmentLayout::ID
        | ext::fetch::FetchSegments::ID
        | spark::fetch::FetchShuffleBlockChunks::ID => Kind::Question,
        spark::finalize::FinalizeShuffleMerge::ID => Kind::Push,
        // An abort waits for the locks of partitions that are written.
        ext::commit::AbortMap::ID => Kind::Abort,
        spark::remove::RemoveBlocks::ID => Kind::Removal,
        spark::register::RegisterExecutor::ID => Kind::Registration,
        spark::originals::DiagnoseCorruption::ID => Kind::Diagnosis,
        _ => Kind::Control,
    }
}

/// Carries out an RPC; not `RemoveBlocks`, whose parts need turns at their disks.
pub fn rpc(call: &Call, body: &[u8]) -> Result<Answer, NoRoom> {
    use ext::remove as ext_remove;
    use ext::{commit as ext_commit, explain as ext_explain, fetch as ext_fetch};
    let Some(&id) = body.first() else {
        return Ok(Answer::Failure("empty request".to_owned()));
    };
    if let Err(refusal) = measure::check(body) {
        return Ok(without_stream(call, body, &refusal));
    }
    Ok(match id {
        ext::hello::Hello::ID => extension(call, body, hello::hello),
        ext::lease::RenewLease::ID => extension(call, body, lease::renew),
        ext::register::RegisterShuffle::ID => extension(call, body, register::shuffle),
        ext_commit::CommitMap::ID => extension(call, body, commit::map),
        ext_commit::AbortMap::ID => extension(call, body, commit::abort),
        ext_fetch::SegmentLayout::ID => match fetch::check_layout(call, body) {
            Ok(()) => extension(call, body, fetch::layout),
            Err(refusal) => refuse(call, &refusal),
        },
        ext_fetch::FetchSegments::ID => stream(call, body, fetch::segments)?,
        ext_remove::EndApplication::ID => extension(call, body, remove::application),
        ext_explain::ReportApplication::ID => extension(call, body, explain::report),
        ext_explain::ExplainApplication::ID => extension(call, body, explain::application),
        ext::drain::Drain::ID => refuse(call, &drain::not_here()),
        spark::register::RegisterExecutor::ID => answered_empty(call, body, register::executor),
        spark::register::GetLocalDirsForExecutors::ID => answered(call, body, register::local_dirs),
        spark::finalize::FinalizeShuffleMerge::ID => answered(call, body, finalize::shuffle),
        spark::fetch::FetchShuffleBlockChunks::ID => answered(call, body, merged::block_chunks),
        spark::originals::FetchShuffleBlocks::ID => stream(call, body, originals::shuffle_blocks)?,
        spark::originals::OpenBlocks::ID => stream(call, body, originals::open_blocks)?,
        spark::originals::DiagnoseCorruption::ID => answered(call, body, originals::diagnose),
        // With secrets, they get here only after the handshake.
        spark::authenticate::SaslMessage::ID | spark::authenticate::AuthMessage::ID => {
            Answer::Failure(
                "this service has no secrets (`secrets` in its configuration), or the client has \
                 authenticated before, and it asks for authentication (spark.authenticate)"
                    .to_owned(),
            )
        }
        id if (ext::FIRST_ID..=ext::LAST_ID).contains(&id) => refuse(
            call,
            &Code::Malformed.because(format!("message {id} is no request")),
        ),
        _ => fail(
            call,
            &Code::Malformed.because(format!("unknown message type: {id}")),
        ),
    })
}

/// Answers the question who is here, which needs no secret. `None`: it is another request.
pub fn greet(call: &Call, body: &[u8]) -> Option<Answer> {
    let is_greeting = body.first() == Some(&ext::hello::Hello::ID);
    is_greeting.then(|| extension(call, body, hello::hello))
}

/// Carries out a request of an operator, who is on this host.
pub fn operator(call: &Call, body: &[u8]) -> Answer {
    match body.first() {
        Some(&ext::drain::Drain::ID) => extension(call, body, drain::drain),
        Some(&ext::remove::EndApplication::ID) => extension(call, body, remove::ended_application),
        other => {
            let detail = format!("message {other:?} is no request of an operator");
            refuse(call, &Code::Malformed.because(detail))
        }
    }
}

/// Returns true if an operator had the daemon leave by this request, and may know it by the answer.
pub fn leaves(request: &[u8], answer: &Answer) -> bool {
    drain::leaves(request, answer)
}

/// Carries out a request that has no answer.
pub fn one_way(call: &Call, body: &[u8]) {
    let done = match body.first() {
        Some(&spark::remove::RemoveShuffleMerge::ID) => {
            decode(call, body).and_then(|message| remove::shuffle(call, message))
        }
        other => Err(Code::Malformed.because(format!("one-way message {other:?} is unknown"))),
    };
    if let Err(refusal) = done {
        count_refusal(call, &refusal);
    }
}

/// Looks at an upload before its body is read.
pub fn admit_upload(call: &Call, meta: &[u8], body_bytes: u64) -> Result<Upload, Answer> {
    let admitted = if body_bytes > call.service.uploads.most_bytes() {
        let detail = format!("a body of {body_bytes} bytes is over 7/32 of --memory");
        Err(Code::TooLarge.because(detail))
    } else {
        push::admit(call, meta, body_bytes)
    };
    let id = meta.first().copied().unwrap_or_default();
    admitted.map_err(|refusal| upload_refusal(call, id, &refusal))
}

/// Merges an upload, of which the first segments got these codes before.
pub fn upload(call: &Call, upload: &Upload, body: &[u8], before: &[Code]) -> Answer {
    match upload {
        Upload::Batch(batch) => push::batch(call, batch, body, before)
            .map(|reply| Answer::Response(reply.to_bytes()))
            .unwrap_or_else(|refusal| upload_refusal(call, PushBatch::ID, &refusal)),
        Upload::Block(block) => push::block(call, block, body)
            .map(|reply| Answer::Response(reply.to_bytes()))
            .unwrap_or_else(|refusal| upload_refusal(call, PushBlockStream::ID, &refusal)),
    }
}

/// Prepares the first block of a partition of Spark's own push. An answer refuses the block.
pub fn begin_block(call: &Call, block: &PushBlockStream) -> Option<Answer> {
    match push::begin_block(call, block) {
        Ok(reply) => reply.map(|reply| Answer::Response(reply.to_bytes())),
        Err(refusal) => Some(upload_refusal(call, PushBlockStream::ID, &refusal)),
    }
}

/// Answers which maps are in the chunks of a merged partition.
pub fn merged_meta(call: &Call, request: &MergedBlockMetaRequest) -> Result<(u32, Bytes), String> {
    let own = call.check_app(request.app.as_str());
    own.and_then(|()| merged::meta(call, request))
        .map_err(|refusal| {
            count_refusal(call, &refusal);
            refusal.detail
        })
}

/// Decodes a request. Refuses one about an application that is not the client's.
fn decode<M: Request>(call: &Call, body: &[u8]) -> Result<M, Refusal> {
    let decoded = M::from_bytes(body);
    let message =
        decoded.map_err(|error: DecodeError| Code::Malformed.because(error.to_string()))?;
    match message.app() {
        Some(app) => call.check_app(app).map(|()| message),
        None => Ok(message),
    }
}

fn response<M: Request, A: Message>(
    call: &Call,
    body: &[u8],
    handle: fn(&Call, M) -> Result<A, Refusal>,
) -> Result<Answer, Refusal> {
    let answer = handle(call, decode(call, body)?)?;
    Ok(Answer::Response(answer.to_bytes()))
}

/// A message of the extension: refusals are coded.
fn extension<M: Request, A: Message>(
    call: &Call,
    body: &[u8],
    handle: fn(&Call, M) -> Result<A, Refusal>,
) -> Answer {
    response(call, body, handle).unwrap_or_else(|refusal| refuse(call, &refusal))
}

/// A message of Spark's: refusals are failures with a text.
fn answered<M: Request, A: Message>(
    call: &Call,
    body: &[u8],
    handle: fn(&Call, M) -> Result<A, Refusal>,
) -> Answer {
    response(call, body, handle).unwrap_or_else(|refusal| fail(call, &refusal))
}

/// A request for a stream.
fn stream<M: Request>(
    call: &Call,
    body: &[u8],
    handle: fn(&Call, M) -> Result<StreamHandle, NotOpened>,
) -> Result<Answer, NoRoom> {
    opened(call, body, handle).or_else(|not_opened| match not_opened {
        NotOpened::NoRoom(refusal) => Err(NoRoom(refusal)),
        NotOpened::Refused(refusal) => Ok(without_stream(call, body, &refusal)),
    })
}

fn opened<M: Request>(
    call: &Call,
    body: &[u8],
    handle: fn(&Call, M) -> Result<StreamHandle, NotOpened>,
) -> Result<Answer, NotOpened> {
    let handle = handle(call, decode(call, body)?)?;
    Ok(Answer::Response(handle.to_bytes()))
}

fn answered_empty<M: Request>(
    call: &Call,
    body: &[u8],
    handle: fn(&Call, M) -> Result<(), Refusal>,
) -> Answer {
    match decode(call, body).and_then(|message| handle(call, message)) {
        Ok(()) => Answer::Response(Bytes::new()),
        Err(refusal) => fail(call, &refusal),
    }
}
