// SPDX-License-Identifier: Apache-2.0
//! The extension: section 4 of `docs/protocol.md`. One file per stage of a shuffle's life.
//!
//! Requests travel as `RpcRequest` bodies (`PushBatch`: as the `meta` of an `UploadStream`),
//! answers as `RpcResponse` bodies. Bytes after the last field are an error: fields are never added
//! to a message.

pub mod commit;
pub mod drain;
pub mod explain;
pub mod fetch;
pub mod hello;
pub mod lease;
pub mod push;
pub mod register;
pub mod remove;
pub mod status;

use bytes::BytesMut;
use lodestone_model::ShuffleKey;

use crate::codec::{Field, FieldError, Reader};
use crate::id::attempt_of;

/// The version of the extension that this crate speaks.
pub const PROTOCOL_VERSION: i32 = 8;

/// First type id of the extension; Spark's are below.
pub const FIRST_ID: u8 = 64;

/// Last type id: Java's bytes are signed, and authentication messages start with 0xEA and 0xFB.
pub const LAST_ID: u8 = 127;

/// One generation of one shuffle, at one incarnation of the daemon: the first five fields of every
/// request about a shuffle.
///
/// ```text
/// ShuffleAddress  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 generation
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShuffleAddress {
    /// The generation of the shuffle. Messages of the extension name an attempt.
    pub shuffle: ShuffleKey,
    /// Incarnation of the daemon that the client expects.
    pub incarnation: i64,
}

impl Field for ShuffleAddress {
    const MIN_BYTES: usize = ShuffleKey::MIN_BYTES + 8;

    fn put(&self, out: &mut BytesMut) {
        self.shuffle.app.put(out);
        attempt_of(&self.shuffle).put(out);
        self.incarnation.put(out);
        self.shuffle.shuffle.put(out);
        self.shuffle.generation.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        let (app, attempt) = (input.field("app")?, Some(input.field("app_attempt")?));
        let incarnation = input.field("incarnation")?;
        let shuffle = ShuffleKey {
            app,
            attempt,
            shuffle: input.field("shuffle_id")?,
            generation: input.field("generation")?,
        };
        Ok(Self {
            shuffle,
            incarnation,
        })
    }
}
