// SPDX-License-Identifier: Apache-2.0
//! The stages of a shuffle's life, one file for each, and what operators ask about it.

pub(crate) mod commit;
pub(crate) mod drain;
pub(crate) mod fetch;
pub(crate) mod holdings;
pub(crate) mod lease;
pub(crate) mod push;
pub(crate) mod register;
pub(crate) mod remove;
