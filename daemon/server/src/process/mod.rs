// SPDX-License-Identifier: Apache-2.0
//! The daemon as a process: one per announce file, what memory the host has for it, and how it ends.

pub mod announce;
pub mod lighten;
pub mod log;
pub mod memory;
pub mod shutdown;
