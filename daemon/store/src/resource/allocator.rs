// SPDX-License-Identifier: Apache-2.0
//! The system's memory: what is given back to it, and what the allocator keeps of what was freed. All that is
//! `unsafe` is here.

use std::mem::MaybeUninit;

/// Memory is taken and given back in multiples of this. (Where pages of the system are longer, what is given
/// back is less.)
pub(crate) const SYSTEM_PAGE_BYTES: usize = 4096;

/// Pages of this memory are touched one by one, and none by itself: with huge ones it would fill again what
/// was given back of it (decision 15).
pub(crate) fn keep_pages_small(memory: &mut [MaybeUninit<u8>]) {
    advise(memory, libc::MADV_NOHUGEPAGE);
}

/// Gives memory back to the system; what is in it is gone. It can be used again.
pub(crate) fn forget(memory: &mut [MaybeUninit<u8>]) {
    advise(memory, libc::MADV_DONTNEED);
}

#[expect(unsafe_code, reason = "a system call")]
fn advise(memory: &mut [MaybeUninit<u8>], advice: libc::c_int) {
    // SAFETY: the range is borrowed for us alone, and nothing is assumed of its content, which one of the two
    // advices above changes. What is not one of whole pages is refused, as is advice that the system does not
    // know: then all stays as it was.
    unsafe {
        libc::madvise(memory.as_mut_ptr().cast(), memory.len(), advice);
    }
}

/// Gives memory that was freed back to the system. The heaps of glibc shrink by themselves only where
/// they end: one page in use there holds gigabytes of free ones.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a call of the C library")]
pub(crate) fn give_back() {
    // SAFETY: the call takes no pointer, may be made from any thread at any time, and locks each heap
    // while it works on it. Memory in use is not touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries do so by themselves, or cannot.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn give_back() {}
