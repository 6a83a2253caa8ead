// SPDX-License-Identifier: Apache-2.0
//! The extension: section 4 of `docs/protocol.md`. One file per stage of a shuffle's life.
//!
//! Requests travel as `RpcRequest` bodies (`PushBatch`: as the `meta` of an `UploadStream`), answers as
//! `RpcResponse` bodies. Bytes after the last field are an error: fields are never added to a message.

pub mod commit;
pub mod drain;
pub mod explain;
pub mod fetch;
pub mod finalize;
pub mod hello;
pub mod lease;
pub mod push;
pub mod register;
pub mod remove;
pub mod status;

use crate::codec::record;
use crate::id::AppId;

/// The version of the extension that this crate speaks.
pub const PROTOCOL_VERSION: i32 = 3;

/// First type id of the extension; Spark's are below.
pub const FIRST_ID: u8 = 64;

/// Last type id: Java's bytes are signed, and authentication messages start with 0xEA and 0xFB.
pub const LAST_ID: u8 = 127;

record! {
    /// Which generation of which shuffle, and in which life of the daemon: the first five fields of
    /// every request about a shuffle.
    pub struct MergeKey {
        /// The application.
        pub app: AppId,
        /// Application attempt, -1 where the cluster manager has none.
        pub app_attempt: i32,
        /// Incarnation of the daemon that the client was told.
        pub incarnation: i64,
        /// The shuffle.
        pub shuffle_id: i32,
        /// Generation of the shuffle.
        pub merge_id: i32,
    }
}
