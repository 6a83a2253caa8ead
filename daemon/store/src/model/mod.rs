// SPDX-License-Identifier: Apache-2.0
//! The nouns of the store: ids, status codes, segments, chunks. No I/O, no locks, no clock.

pub(crate) mod chunk;
pub(crate) mod code;
pub(crate) mod id;
pub(crate) mod ledger;
pub(crate) mod segment;
