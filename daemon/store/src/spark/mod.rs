// SPDX-License-Identifier: Apache-2.0
//! The part of the store for Spark's own protocol: executors and their directories, pushes without
//! map ids, merged files under Spark's names, original shuffle files.

pub(crate) mod chunks;
pub(crate) mod diagnose;
pub(crate) mod executors;
pub(crate) mod finalize;
pub(crate) mod gone;
pub(crate) mod originals;
mod places;
pub(crate) mod push;
pub(crate) mod registrations;
pub(crate) mod remove;
