// SPDX-License-Identifier: Apache-2.0
//! The ids and keys of the model as fields.
//!
//! ```text
//! ShuffleKey  appId, i32 appAttempt, i32 shuffleId, i32 generation
//! ```

use bytes::BytesMut;
use lodestone_model::{
    AppAttempt, AppId, GenerationId, MapId, MapIndex, ReduceId, ShuffleId, ShuffleKey,
};

use crate::codec::{Field, FieldError, Problem, Reader, number};

number!(AppAttempt(i32));
number!(ShuffleId(i32));
number!(GenerationId(i32));
number!(MapId(i64));
number!(MapIndex(u32));
number!(ReduceId(u32));

impl Field for AppId {
    const MIN_BYTES: usize = 4 + 1;

    fn put(&self, out: &mut BytesMut) {
        crate::codec::put_str(self.as_str(), out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self::new(input.str()?).map_err(Problem::BadAppId)?)
    }
}

impl Field for ShuffleKey {
    const MIN_BYTES: usize = AppId::MIN_BYTES + 3 * 4;

    fn put(&self, out: &mut BytesMut) {
        self.app.put(out);
        attempt_of(self).put(out);
        self.shuffle.put(out);
        self.generation.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            app: input.field("app")?,
            attempt: Some(input.field("app_attempt")?),
            shuffle: input.field("shuffle_id")?,
            generation: input.field("generation")?,
        })
    }
}

/// A message that has a key names the attempt, also where that is [`AppAttempt::NONE`].
pub(crate) fn attempt_of(key: &ShuffleKey) -> AppAttempt {
    debug_assert!(key.attempt.is_some(), "{key} is of any attempt");
    key.attempt.unwrap_or(AppAttempt::NONE)
}
