// SPDX-License-Identifier: Apache-2.0
//! What Spark's own protocol needs of the store: executors and their directories, pushes without
//! map ids, merged files under Spark's names, original shuffle files.

pub(crate) mod chunks;
pub(crate) mod diagnose;
pub(crate) mod executors;
pub(crate) mod finalize;
pub(crate) mod originals;
pub(crate) mod push;
pub(crate) mod registrations;
