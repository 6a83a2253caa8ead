// SPDX-License-Identifier: Apache-2.0
//! What of a partition is in memory.

use bytes::Bytes;

use crate::resource::pages::PagedBytes;

/// A tail that would reach this size is written out.
pub const WRITE_OUT_BYTES: usize = 256 * 1024;

pub(super) enum Tail {
    Growing(PagedBytes),
    /// After finalize: readers share it.
    Frozen(Bytes),
}

impl Tail {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Growing(paged) => paged.len(),
            Self::Frozen(bytes) => bytes.len(),
        }
    }

    /// Its bytes, if they are final.
    pub(super) fn frozen(&self) -> Option<Bytes> {
        match self {
            Self::Growing(_) => None,
            Self::Frozen(bytes) => Some(bytes.clone()),
        }
    }

    /// Its bytes, in order.
    pub(super) fn slices(&self) -> Vec<&[u8]> {
        match self {
            Self::Growing(paged) => paged.slices().collect(),
            Self::Frozen(bytes) => vec![bytes],
        }
    }
}
