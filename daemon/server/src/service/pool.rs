// SPDX-License-Identifier: Apache-2.0
//! Memory that requests take before they have a use for it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Granularity of a pool: a semaphore counts in 32 bits, which is too little for bytes of memory.
const UNIT_BYTES: u64 = 1024;

/// Memory that requests share. A request that finds it empty waits, first come, first served. A
/// clone is the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    semaphore: Arc<Semaphore>,
    units: u32,
}

/// Memory taken from a pool, given back when dropped.
#[derive(Debug)]
pub struct Reserved(OwnedSemaphorePermit);

impl Pool {
    /// A pool of this size.
    pub fn new(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        Self {
            semaphore: Arc::new(Semaphore::new(units as usize)),
            units,
        }
    }

    /// The size of the pool. Nothing larger can ever be reserved.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.units) * UNIT_BYTES
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        self.capacity_bytes() - self.semaphore.available_permits() as u64 * UNIT_BYTES
    }

    /// A pool that has this part of its size.
    pub fn share(&self, part: u64) -> Self {
        Self::new(self.capacity_bytes() / part)
    }

    /// True if something of it is reserved, or may be soon: there is another handle to it.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.semaphore) > 1
    }

    /// Takes memory that is free now, and for which nobody waits.
    pub fn try_reserve(&self, bytes: u64) -> Option<Reserved> {
        let units = units_of(bytes).min(self.units);
        let permit = Arc::clone(&self.semaphore).try_acquire_many_owned(units);
        permit.ok().map(Reserved)
    }

    /// Waits for the memory. More than the pool has is cut to all of it.
    pub async fn reserve(&self, bytes: u64) -> Reserved {
        let units = units_of(bytes).min(self.units);
        match Arc::clone(&self.semaphore).acquire_many_owned(units).await {
            Ok(permit) => Reserved(permit),
            Err(_) => unreachable!("the semaphore is never closed"),
        }
    }
}

impl Reserved {
    /// Gives back the memory above `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self
            .0
            .num_permits()
            .saturating_sub(units_of(bytes) as usize);
        drop(self.0.split(surplus));
    }
}

fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}
