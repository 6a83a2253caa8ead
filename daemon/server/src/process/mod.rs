// SPDX-License-Identifier: Apache-2.0
//! The daemon as a process: one per announce file, and how it ends.

pub mod announce;
pub mod shutdown;
