// SPDX-License-Identifier: Apache-2.0
//! Memory for tails, in pages of one size that are used again.
//!
//! Growing each tail in one piece (a `Vec`) was tried first: with thousands of tails that grow and go,
//! the allocator's holes took as much memory again as the budget allowed.

use std::sync::Mutex;

use super::locked;

/// Size of a page: what an almost empty tail wastes at most, and what is copied without a break.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Free pages that are kept beyond as many as are in use.
const SPARE_PAGES: usize = 256;

type Page = Box<[u8; PAGE_BYTES]>;

/// The pages that nobody uses at the moment, and how many are in use.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Page>,
    in_use: usize,
}

/// Bytes in pages, appended at the end.
#[derive(Debug, Default)]
pub(crate) struct PagedBytes {
    pages: Vec<Page>,
    length: usize,
}

impl Pages {
    /// Adds pages so that `bytes` fit. The caller has taken their memory from the budget.
    pub(crate) fn grow(&self, paged: &mut PagedBytes, bytes: usize) {
        let count = bytes.div_ceil(PAGE_BYTES).saturating_sub(paged.pages.len());
        {
            let mut state = locked(&self.state);
            state.in_use += count;
            let kept = state.free.len().saturating_sub(count);
            paged.pages.extend(state.free.drain(kept..));
        }
        let needed = bytes.div_ceil(PAGE_BYTES);
        while paged.pages.len() < needed {
            paged.pages.push(Box::new([0; PAGE_BYTES]));
        }
    }

    /// Takes the pages back, and gives free ones to the allocator when they are more than those in use.
    pub(crate) fn take_back(&self, mut paged: PagedBytes) {
        let surplus = {
            let mut state = locked(&self.state);
            assert!(
                state.in_use >= paged.pages.len(),
                "more pages returned than given"
            );
            state.in_use -= paged.pages.len();
            state.free.append(&mut paged.pages);
            let kept = state.free.len().min(state.in_use + SPARE_PAGES);
            state.free.split_off(kept)
        };
        drop(surplus);
    }

    #[cfg(test)]
    fn free(&self) -> usize {
        locked(&self.state).free.len()
    }
}

impl PagedBytes {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Memory of the pages.
    pub(crate) fn capacity(&self) -> usize {
        self.pages.len() * PAGE_BYTES
    }

    /// Copies `bytes` to the end; there must be pages for them.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        assert!(
            self.length + bytes.len() <= self.capacity(),
            "pages come before bytes"
        );
        let first = self.length / PAGE_BYTES;
        let mut start = self.length % PAGE_BYTES;
        self.length += bytes.len();
        for page in self.pages.iter_mut().skip(first) {
            let room = page.get_mut(start..).unwrap_or_default();
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            if let Some(to) = room.get_mut(..now.len()) {
                to.copy_from_slice(now);
            }
            (bytes, start) = (later, 0);
        }
    }

    /// The bytes, page by page.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.length;
        self.pages.iter().map_while(move |page| {
            let count = rest.min(PAGE_BYTES);
            rest -= count;
            page.get(..count).filter(|slice| !slice.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_over_page_boundaries() {
        let pages = Pages::default();
        let mut paged = PagedBytes::default();
        let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
        let mut so_far = 0;
        for length in [0, 1, 4094, 1, 4096, 5000, 6808] {
            pages.grow(&mut paged, so_far + length);
            paged.append(&bytes[so_far..so_far + length]);
            so_far += length;
            assert_eq!(paged.len(), so_far);
            assert_eq!(paged.slices().collect::<Vec<_>>().concat(), bytes[..so_far]);
        }
        assert_eq!((so_far, paged.capacity()), (20_000, 5 * PAGE_BYTES));
    }

    #[test]
    fn pages_are_used_again_and_surplus_goes_back() {
        let pages = Pages::default();
        let mut large = PagedBytes::default();
        pages.grow(&mut large, 1_000 * PAGE_BYTES);
        pages.take_back(large);
        assert_eq!(pages.free(), SPARE_PAGES);
        let mut small = PagedBytes::default();
        pages.grow(&mut small, 10 * PAGE_BYTES);
        assert_eq!(pages.free(), SPARE_PAGES - 10);
        pages.take_back(small);
        assert_eq!(pages.free(), SPARE_PAGES);
    }
}
