// SPDX-License-Identifier: Apache-2.0
//! The daemon as a process: its announce file, its watch over leases and disks, its memory and log,
//! and its end.

pub mod accept;
pub mod announce;
pub mod disks;
pub mod files;
pub mod leases;
pub mod log;
pub mod memory;
pub mod shutdown;
pub mod write_out;
pub mod write_threads;
