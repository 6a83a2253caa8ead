// SPDX-License-Identifier: Apache-2.0
//! The system's memory: memory that is given back to it, and freed memory that the allocator keeps.
//! All `unsafe` code is here.

use std::mem::MaybeUninit;

/// Memory is taken and given back in multiples of this. (If the system has larger pages, less is
/// given back.)
pub(crate) const SYSTEM_PAGE_BYTES: usize = 4096;

/// The system must not use huge pages for this memory: it would fill again what was given back of
/// it (decision 15).
pub(crate) fn keep_pages_small(memory: &mut [MaybeUninit<u8>]) {
    advise(memory, libc::MADV_NOHUGEPAGE);
}

/// Gives memory back to the system; its content is lost. It can be used again.
pub(crate) fn forget(memory: &mut [MaybeUninit<u8>]) {
    advise(memory, libc::MADV_DONTNEED);
}

#[expect(unsafe_code, reason = "a system call")]
fn advise(memory: &mut [MaybeUninit<u8>], advice: libc::c_int) {
    // SAFETY: the range is borrowed for us alone, and no code assumes anything about its content,
    // which one of the two advices above changes. The system refuses a range that is not of whole
    // pages, and advice that it does not know: then nothing changes.
    unsafe {
        libc::madvise(memory.as_mut_ptr().cast(), memory.len(), advice);
    }
}

/// Gives memory that was freed back to the system. The heaps of glibc shrink only at their end: one
/// page in use there holds gigabytes of free ones.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a call of the C library")]
pub(crate) fn give_back() {
    // SAFETY: the call takes no pointer, may be made from any thread at any time, and locks each
    // heap while it works on it. Memory in use is not touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries do so by themselves, or cannot.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn give_back() {}
