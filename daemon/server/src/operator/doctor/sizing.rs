// SPDX-License-Identifier: Apache-2.0
//! What a daemon needs beside its memory, as `docs/operations.md` has it.

/// At least this; below a half GiB of memory a quarter of it, and an eighth of more.
const LEAST_BYTES: u64 = 128 << 20;
const LARGE_BYTES: u64 = 512 << 20;

/// What each connection may take that is encrypted with AES/GCM, or with TLS.
const SECRET_BYTES: u64 = 64 << 10;
const TLS_BYTES: u64 = 144 << 10;

/// How connections may be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encrypted {
    /// Not at all.
    No,
    /// With keys from a secret.
    Secret,
    /// With TLS.
    Tls,
}

/// Returns what a process needs beside this memory.
pub(super) fn beside(memory: u64) -> u64 {
    let part = if memory < LARGE_BYTES { 4 } else { 8 };
    LEAST_BYTES.max(memory / part)
}

/// Returns what these connections need in addition.
pub(super) fn of_connections(count: usize, encrypted: Encrypted) -> u64 {
    count as u64
        * match encrypted {
            Encrypted::No => 0,
            Encrypted::Secret => SECRET_BYTES,
            Encrypted::Tls => TLS_BYTES,
        }
}
