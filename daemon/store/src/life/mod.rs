// SPDX-License-Identifier: Apache-2.0
//! The stages of a shuffle's life, as the requests that bring them about.

pub(crate) mod commit;
pub(crate) mod drain;
pub(crate) mod fetch;
pub(crate) mod push;
pub(crate) mod register;
pub(crate) mod remove;
