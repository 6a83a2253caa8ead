// SPDX-License-Identifier: Apache-2.0
//! Messages of Spark's External Shuffle Service, 3.5 to 4.x: section 3 of `docs/protocol.md`.
//! Decoders ignore bytes after the last field, as Spark's do.

pub mod authenticate;
pub mod fetch;
pub mod finalize;
pub mod originals;
pub mod push;
pub mod register;
pub mod remove;

/// The executor id with which Spark asks for merged data.
pub const MERGER_EXECUTOR: &str = "shuffle-push-merger";
