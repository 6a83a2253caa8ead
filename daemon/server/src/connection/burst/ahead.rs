// SPDX-License-Identifier: Apache-2.0
//! Advice to the kernel about the files of a chunk.

use lodestone_store::{ChunkData, Part};

/// The kernel gets an announcement for file ranges of this size or more, and reads them in one go
/// instead of in steps of its read-ahead window. If a chunk has several ranges, smaller ones are
/// announced too, so that the disk can read them in its own order.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// Announces the ranges of a chunk that is about to be sent.
pub(super) fn read_ahead(data: &ChunkData) {
    let is_file = |part: &&Part| matches!(part, Part::File { .. });
    let several = data.parts.iter().filter(is_file).nth(1).is_some();
    for part in &data.parts {
        if let Part::File {
            file,
            offset,
            length,
        } = part
            && (several || *length >= READ_AHEAD_BYTES)
            && let Some(fd) = file.fd()
        {
            // Only advice: its errors do not matter.
            let advice = rustix::fs::Advice::WillNeed;
            let _ = rustix::fs::fadvise(fd, *offset, std::num::NonZeroU64::new(*length), advice);
        }
    }
}
