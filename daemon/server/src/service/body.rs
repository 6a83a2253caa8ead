// SPDX-License-Identifier: Apache-2.0
//! Memory for the bodies of uploads, used again.
//!
//! Megabytes that the allocator takes fresh from the system come as zeroed pages, one fault for
//! every 4 KiB: that cost more than merging.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;

/// Bodies up to this size are left to the allocator, which keeps memory of this size at hand
/// itself.
const SMALL_BYTES: usize = 64 << 10;

/// Larger bodies are rare: the plugin's batches have at most this size by default.
const LARGE_BYTES: usize = 4 << 20;

/// The memory that no upload uses at the moment, in powers of two.
#[derive(Debug)]
pub struct BodyPool {
    /// The memory that was used last is at the end: some of it may still be in the processor's
    /// cache.
    free: Mutex<VecDeque<BytesMut>>,
    /// Bytes of free memory that are kept.
    kept_bytes: usize,
}

/// The body of one upload. Its memory goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct PooledBody {
    memory: BytesMut,
    pool: Arc<BodyPool>,
}

/// The size of the memory that a body of this length gets.
pub(crate) fn memory_bytes(length: usize) -> usize {
    if is_kept(length) {
        length.next_power_of_two()
    } else {
        length
    }
}

fn is_kept(length: usize) -> bool {
    SMALL_BYTES < length && length <= LARGE_BYTES
}

impl BodyPool {
    /// Keeps no more free memory than this.
    pub fn new(kept_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::default(),
            kept_bytes,
        })
    }

    /// The most that is kept.
    pub fn limit_bytes(&self) -> u64 {
        self.kept_bytes as u64
    }

    /// Returns the bytes that are kept now.
    pub fn used_bytes(&self) -> u64 {
        total(&self.free()) as u64
    }

    /// An empty body with memory for this length.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> PooledBody {
        let bytes = memory_bytes(length);
        let used_before = {
            let mut free = self.free();
            let at = free.iter().rposition(|memory| memory.capacity() == bytes);
            at.and_then(|at| free.remove(at))
        };
        PooledBody {
            memory: used_before.unwrap_or_else(|| BytesMut::with_capacity(bytes)),
            pool: Arc::clone(self),
        }
    }

    /// Keeps this memory, and drops memory that was not used for the longest time.
    fn put_back(&self, mut memory: BytesMut) {
        if !is_kept(memory.capacity()) {
            return;
        }
        memory.clear();
        let mut surplus = Vec::new();
        let mut free = self.free();
        free.push_back(memory);
        let mut total = total(&free);
        while total > self.kept_bytes
            && let Some(oldest) = free.pop_front()
        {
            total -= oldest.capacity();
            surplus.push(oldest);
        }
        // To give megabytes back to the system takes a while: not while others wait.
        drop(free);
        drop(surplus);
    }

    /// A panic of another thread cannot leave the list half changed.
    fn free(&self) -> MutexGuard<'_, VecDeque<BytesMut>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn total(free: &VecDeque<BytesMut>) -> usize {
    free.iter().map(BytesMut::capacity).sum()
}

impl PooledBody {
    /// To be filled up to its length; never grows beyond its memory.
    pub(crate) fn memory(&mut self) -> &mut BytesMut {
        &mut self.memory
    }
}

impl Deref for PooledBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for PooledBody {
    fn drop(&mut self) {
        self.pool.put_back(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn used(pool: &Arc<BodyPool>, lengths: &[usize]) -> Vec<*const u8> {
        let taken: Vec<_> = lengths.iter().map(|&length| pool.take(length)).collect();
        taken.iter().map(|body| body.memory.as_ptr()).collect()
    }

    #[test]
    fn memory_that_was_used_is_used_again_for_a_body_of_about_the_size() {
        let pool = BodyPool::new(64 * MIB);
        let first = used(&pool, &[3 * MIB]);
        assert_eq!(used(&pool, &[2 * MIB + 1]), first);
        assert_eq!(pool.take(MIB).memory.capacity(), MIB);
        assert_eq!(used(&pool, &[4 * MIB]), first);
    }

    #[test]
    fn only_the_agreed_memory_is_kept_and_the_last_used_first() {
        let pool = BodyPool::new(8 * MIB);
        let kept = || -> Vec<_> {
            let free = pool.free();
            free.iter().map(|memory| memory.capacity() / MIB).collect()
        };
        used(&pool, &[4 * MIB, 4 * MIB, 4 * MIB]);
        assert_eq!(kept(), [4, 4]);
        used(&pool, &[MIB, MIB]);
        assert_eq!(kept(), [4, 1, 1]);
        used(&pool, &[10, SMALL_BYTES, LARGE_BYTES + 1]);
        assert_eq!(kept(), [4, 1, 1], "smaller and larger ones are not kept");
    }

    #[test]
    fn a_body_gets_the_smallest_power_of_two_that_holds_it() {
        assert_eq!(memory_bytes(10), 10);
        assert_eq!(memory_bytes(SMALL_BYTES), SMALL_BYTES);
        assert_eq!(memory_bytes(SMALL_BYTES + 1), 2 * SMALL_BYTES);
        assert_eq!(memory_bytes(2 * SMALL_BYTES), 2 * SMALL_BYTES);
        assert_eq!(memory_bytes(LARGE_BYTES), LARGE_BYTES);
        assert_eq!(memory_bytes(LARGE_BYTES + 1), LARGE_BYTES + 1);
    }
}
