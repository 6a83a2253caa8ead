// SPDX-License-Identifier: Apache-2.0
//! What of a partition is in memory.

use std::ops::Range;
use std::sync::Arc;

use crate::resource::paged::PagedBytes;
use crate::resource::pages::Pages;

/// Once the partition is finalized readers share it.
#[derive(Debug, Default)]
pub(super) struct Tail(Option<Arc<PagedBytes>>);

impl Tail {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |paged| paged.len())
    }

    /// Readers have taken all of it.
    pub(super) fn mark_read(&self) {
        self.0.iter().for_each(|paged| paged.mark_read());
    }

    pub(super) fn was_read(&self) -> bool {
        self.0.as_ref().is_some_and(|paged| paged.was_read())
    }

    /// Its bytes, in order.
    pub(super) fn slices(&self) -> Vec<&[u8]> {
        self.0.iter().flat_map(|paged| paged.slices()).collect()
    }

    /// Copies `bytes` to the end, or says that there is no memory, or that it is shared already.
    pub(super) fn try_append(&mut self, pages: &Arc<Pages>, bytes: &[u8]) -> bool {
        let paged = self
            .0
            .get_or_insert_with(|| Arc::new(PagedBytes::new(pages)));
        Arc::get_mut(paged).is_some_and(|paged| paged.try_append(bytes))
    }

    /// Keeps only these ranges, or says that it cannot: readers share it.
    pub(super) fn try_keep(&mut self, ranges: &[Range<usize>]) -> bool {
        let Some(paged) = self.0.as_mut() else {
            return ranges.is_empty();
        };
        Arc::get_mut(paged)
            .map(|paged| paged.keep(ranges))
            .is_some()
    }

    pub(super) fn shared(&self) -> Option<Arc<PagedBytes>> {
        self.0.clone()
    }

    /// Its bytes, which leave it.
    pub(super) fn take(&mut self) -> Option<Arc<PagedBytes>> {
        self.0.take()
    }
}
