// SPDX-License-Identifier: Apache-2.0
//! Frames and messages of the Lodestone protocol, to bytes and back. No I/O, no runtime.
//!
//! The specification is `docs/protocol.md`; golden bytes are in `protocol/vectors`.
//!
//! * [`frame`]: the outer framing, shared with Spark: section 2.
//! * [`spark`]: messages of Spark's External Shuffle Service: section 3.
//! * [`extension`]: messages of Lodestone's own, ids from 64 up: section 4.
//!
//! `lodestone-model` defines ids, codes and segments, and messages are decoded into its types. A
//! [`Message`] is one byte of type id and then its fields in order. The decoder checks all that
//! comes from the network: it compares each length and count with the bytes that remain, before it
//! allocates anything. Decoding a payload of `n` bytes allocates at most
//! [`codec::MAX_AMPLIFICATION`] times `n` bytes.

pub mod codec;
pub mod extension;
pub mod frame;
pub mod spark;

mod id;
mod request;

pub use codec::{DecodeError, Message, Problem};
pub use frame::{Frame, FrameDecoder, FrameError, Limits};
pub use request::{REQUESTS, Request};
