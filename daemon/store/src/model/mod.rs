// SPDX-License-Identifier: Apache-2.0
//! The nouns of the store: ids, status codes, attempts, segments, their places, chunks. No I/O, no locks, no clock.

pub(crate) mod attempt;
pub(crate) mod chunk;
pub(crate) mod code;
pub(crate) mod id;
pub(crate) mod ledger;
pub(crate) mod mode;
pub(crate) mod place;
pub(crate) mod segment;
