// SPDX-License-Identifier: Apache-2.0
//! The nouns that the wire and the store share. Each is defined once and passes from a message to
//! the store, and back, without a copy.
//!
//! `lodestone-wire` says where their fields stand in a message, `lodestone-store` what happens to
//! them. This crate knows neither of the two: no bytes, no I/O, no locks.

mod code;
mod id;
mod ledger;
mod load;
mod numbered;
mod segment;
mod shuffle;
mod suspect;

pub use code::{Code, Refusal};
pub use id::{
    AppAttempt, AppId, BadAppId, GenerationId, MapId, MapIndex, MapRange, ReduceId, ShuffleId,
    ShuffleKey, check_name, is_path_segment, spark_id,
};
pub use ledger::{Ledger, mix};
pub use load::{HeldData, Load, State};
pub use segment::{Crc32c, LaidRun, LaidSegment, Segment, SegmentRun};
pub use shuffle::{MergeStatus, Mode, ShuffleSpec};
pub use suspect::{Cause, SuspectBlock};
