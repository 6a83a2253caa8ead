// SPDX-License-Identifier: Apache-2.0
//! A driver registers a shuffle before its first push. The answer is `Done`.
//!
//! ```text
//! RegisterShuffle 84  appId, i32 appAttempt, i64 incarnation, i32 shuffleId, i32 generation,
//!                     i8 mode, i32 numMaps, i32 numPartitions, string format
//! ```

use lodestone_model::{Mode, ShuffleSpec};

use super::ShuffleAddress;
use crate::codec::{byte, fields, message};

message! { strict, 84;
    /// Registers a shuffle.
    pub struct RegisterShuffle {
        /// Which shuffle.
        pub key: ShuffleAddress,
        /// The description of the shuffle.
        pub spec: ShuffleSpec,
    }
}

byte!(Mode);

fields! { ShuffleSpec {
    mode: Mode,
    num_maps: u32,
    num_partitions: u32,
    format: String,
} }
