// SPDX-License-Identifier: Apache-2.0
//! How busy a service is, and what would be lost with it.

use crate::numbered::numbered;

numbered! {
    /// Whether a service takes new work.
    pub enum State {
        /// At least one disk takes writes.
        Serving = 0,
        /// Nothing new is taken, because an operator drains the service.
        Draining = 1,
        /// No disk has room.
        DiskFull = 2,
        /// No disk works.
        DiskFailed = 3,
    }
}

/// How busy a service is: a driver chooses services by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Whether it takes new work.
    pub state: State,
    /// Bytes of the budget in use.
    pub memory_used: u64,
    /// The budget.
    pub memory_limit: u64,
    /// Bytes free on its disks.
    pub disk_free: u64,
    /// Size of its disks in bytes.
    pub disk_total: u64,
    /// Open connections.
    pub connections: u32,
    /// Registered shuffles.
    pub shuffles: u32,
}

/// What a service holds and no other process has. Merged shuffles are not counted: executors have
/// their originals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldData {
    /// Whether nothing new is taken.
    pub draining: bool,
    /// Remote shuffles.
    pub shuffles: u32,
    /// Applications that have remote shuffles.
    pub applications: u32,
    /// Bytes of remote shuffles.
    pub bytes: u64,
    /// Those of them that are only in memory.
    pub unwritten_bytes: u64,
    /// Executors of Spark's own protocol whose directories exist: the service reads their blocks
    /// for readers.
    pub executors: u32,
    /// When the last lease of those applications ends, if no driver renews it.
    pub lease_left_ms: u64,
}

impl HeldData {
    /// Returns true if the service holds nothing that a client could miss.
    pub fn is_nothing(&self) -> bool {
        self.shuffles == 0 && self.executors == 0
    }
}
