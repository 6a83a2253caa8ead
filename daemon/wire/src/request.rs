// SPDX-License-Identifier: Apache-2.0
//! Which application a request is about. A service that asks for authentication compares it with
//! the application that the connection belongs to, so that no message can be forgotten.

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

/// A message that clients send.
pub trait Request: Message {
    /// Returns the application that it is about. `None`: about none, or about all that the client
    /// may see.
    fn app(&self) -> Option<&str>;
}

/// `of_app! { Type: field.of.the.application }`.
macro_rules! of_app {
    ($($message:ident: $($field:ident).+;)*) => {
        $(impl Request for $message {
            fn app(&self) -> Option<&str> {
                Some(self.$($field).+.as_str())
            }
        })*
    };
}

of_app! {
    RenewLease: app;
    RegisterShuffle: key.shuffle.app;
    PushBatch: key.shuffle.app;
    CommitMap: key.shuffle.app;
    AbortMap: key.shuffle.app;
    SegmentLayout: key.shuffle.app;
    FetchSegments: key.shuffle.app;
    EndApplication: app;
    ReportApplication: app;
    RegisterExecutor: app;
    GetLocalDirsForExecutors: app;
    PushBlockStream: key.app;
    FinalizeShuffleMerge: key.app;
    FetchShuffleBlockChunks: app;
    FetchShuffleBlocks: app;
    OpenBlocks: app;
    DiagnoseCorruption: app;
    RemoveBlocks: app;
    RemoveShuffleMerge: key.app;
}

impl Request for ExplainApplication {
    fn app(&self) -> Option<&str> {
        Some(self.app.as_str()).filter(|app| !app.is_empty())
    }
}

impl Request for Hello {
    fn app(&self) -> Option<&str> {
        None
    }
}

impl Request for Drain {
    fn app(&self) -> Option<&str> {
        None
    }
}
