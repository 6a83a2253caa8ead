// SPDX-License-Identifier: Apache-2.0
//! Which application a request is about. A service that asks for authentication compares it with
//! the application that the connection belongs to. This list is the only place where a message
//! becomes a [`Request`], and handlers decode only requests; `tidy` refuses any other call of
//! `from_bytes` in the server. A test of the server sends each of [`REQUESTS`] with the application
//! of another client, so that an entry which names no application, or a wrong one, fails there.
//! (`RemoveBlocks` comes in parts, and `MergedBlockMetaRequest` is a frame: handlers look at their
//! applications themselves, and the test sends both.)

use crate::codec::Message;
use crate::extension::commit::{AbortMap, CommitMap};
use crate::extension::drain::Drain;
use crate::extension::explain::{ExplainApplication, ReportApplication};
use crate::extension::fetch::{FetchSegments, SegmentLayout};
use crate::extension::hello::Hello;
use crate::extension::lease::RenewLease;
use crate::extension::push::PushBatch;
use crate::extension::register::RegisterShuffle;
use crate::extension::remove::EndApplication;
use crate::spark::fetch::FetchShuffleBlockChunks;
use crate::spark::finalize::FinalizeShuffleMerge;
use crate::spark::originals::{DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks};
use crate::spark::push::PushBlockStream;
use crate::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};
use crate::spark::remove::{RemoveBlocks, RemoveShuffleMerge};

/// A message that clients send. Only the list below makes one.
pub trait Request: Message + listed::Listed {
    /// Returns the application that it is about. `None`: about none, or about all that the client
    /// may see.
    fn app(&self) -> Option<&str>;
}

mod listed {
    /// Is in the list of requests.
    pub trait Listed {}
}

/// `requests! { Type(request): the application of the request; }`.
macro_rules! requests {
    ($($message:ident($request:ident): $app:expr;)*) => {
        /// The name of each request.
        pub const REQUESTS: &[&str] = &[$($message::NAME),*];

        $(impl listed::Listed for $message {}

        impl Request for $message {
            fn app(&self) -> Option<&str> {
                let $request = self;
                $app
            }
        })*
    };
}

requests! {
    Hello(_request): None;
    // An operator's, who has no secret.
    Drain(_request): None;
    ExplainApplication(request): Some(request.app.as_str()).filter(|app| !app.is_empty());
    RenewLease(request): Some(request.app.as_str());
    RegisterShuffle(request): Some(request.key.shuffle.app.as_str());
    PushBatch(request): Some(request.key.shuffle.app.as_str());
    CommitMap(request): Some(request.key.shuffle.app.as_str());
    AbortMap(request): Some(request.key.shuffle.app.as_str());
    SegmentLayout(request): Some(request.key.shuffle.app.as_str());
    FetchSegments(request): Some(request.key.shuffle.app.as_str());
    EndApplication(request): Some(request.app.as_str());
    ReportApplication(request): Some(request.app.as_str());
    RegisterExecutor(request): Some(request.app.as_str());
    GetLocalDirsForExecutors(request): Some(request.app.as_str());
    PushBlockStream(request): Some(request.key.app.as_str());
    FinalizeShuffleMerge(request): Some(request.key.app.as_str());
    FetchShuffleBlockChunks(request): Some(request.app.as_str());
    FetchShuffleBlocks(request): Some(request.app.as_str());
    OpenBlocks(request): Some(request.app.as_str());
    DiagnoseCorruption(request): Some(request.app.as_str());
    RemoveBlocks(request): Some(request.app.as_str());
    RemoveShuffleMerge(request): Some(request.key.app.as_str());
}
