// SPDX-License-Identifier: Apache-2.0
//! The index of a partition: its segments, their slots, and the chunks of Spark's own protocol. It
//! differs by kind of shuffle. No I/O, no locks, no clock.

pub(crate) mod chunk;
mod chunk_starts;
pub(crate) mod kind;
pub(crate) mod segment;
pub(crate) mod slot;
