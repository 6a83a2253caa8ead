// SPDX-License-Identifier: Apache-2.0
//! The system's allocator, and what it keeps of what was freed.

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
