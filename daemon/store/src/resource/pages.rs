// SPDX-License-Identifier: Apache-2.0
//! Memory for tails, a pool: pages of two sizes, taken from the budget, and used again.
//!
//! Another design grew each tail as one allocation (a `Vec`): with thousands of tails that grow and
//! go, the allocator's holes took as much memory again as the budget allowed.
//!
//! Pages are cut from slabs that stay, and the memory of unused pages is given back page by page.
//! In a design without slabs, freed pages were holes of the wrong size for the next ones: ten
//! thousand partitions took a fifth more memory than allowed.

use std::sync::Arc;

use bytes::BytesMut;

use super::budget::Budget;
use super::{allocator, locked};
use crate::sync::Mutex;
use allocator::SYSTEM_PAGE_BYTES;

/// Size of the first pages of a tail: the most that an almost empty tail wastes.
pub(super) const SMALL_PAGE_BYTES: usize = 4 << 10;

/// Size of the pages behind those: bytes that are sent, or copied, without a break.
pub(super) const LARGE_PAGE_BYTES: usize = 64 << 10;

/// So large that the allocator maps each slab separately, and unmaps it again.
const SLAB_BYTES: usize = 32 << 20;

/// Pages that are taken with the lock of all pages held: so many that threads seldom meet there,
/// and so few that the memory of those that make room for them is given back soon.
const PAGES_AT_ONCE: usize = 16;

/// Pages that were not needed for this long are given back, also while applications are there.
const IDLE_MS: u64 = 1_800_000;

/// A part of a tail of this length gets no more segments, unless a store has another setting: a
/// disk takes this much in one go, and in a moment.
pub const TAIL_PART_BYTES: usize = 8 << 20;

/// Its capacity is its size, its content the bytes that were appended. It must not grow.
pub(super) type Page = BytesMut;

/// The pages that are not in use at the moment. They are kept until [`Pages::release`], because
/// fresh memory costs the kernel more than a copy into it. With those in use they never exceed the
/// budget's limit.
#[derive(Debug)]
pub(crate) struct Pages {
    budget: Arc<Budget>,
    part_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    small: Vec<Page>,
    large: Vec<Page>,
    /// Pages without memory: it was given back.
    hollow_small: Vec<Page>,
    hollow_large: Vec<Page>,
    /// Memory that no page was cut from yet; the system has not filled it either.
    fresh: BytesMut,
    /// Bytes of all pages, in use or not, except hollow ones.
    bytes: usize,
    /// Bytes of those that are free.
    free_bytes: usize,
    /// The least number of free bytes since then: these were not needed.
    idle_bytes: usize,
    idle_since_ms: u64,
}

impl State {
    fn free(&mut self, bytes: usize) -> &mut Vec<Page> {
        match bytes {
            LARGE_PAGE_BYTES => &mut self.large,
            _ => &mut self.small,
        }
    }

    fn hollow(&mut self, bytes: usize) -> &mut Vec<Page> {
        match bytes {
            LARGE_PAGE_BYTES => &mut self.hollow_large,
            _ => &mut self.hollow_small,
        }
    }

    fn take(&mut self, bytes: usize) -> Option<Page> {
        let page = self.free(bytes).pop()?;
        self.free_bytes -= bytes;
        self.idle_bytes = self.idle_bytes.min(self.free_bytes);
        Some(page)
    }

    fn give(&mut self, mut page: Page) {
        page.clear();
        self.free_bytes += page.capacity();
        self.free(page.capacity()).push(page);
    }

    /// A page that gets memory when it is written to.
    fn take_hollow(&mut self, bytes: usize) -> Page {
        self.bytes += bytes;
        if let Some(page) = self.hollow(bytes).pop() {
            return page;
        }
        if self.fresh.capacity() < bytes {
            self.fresh = slab();
        }
        let rest = self.fresh.split_off(bytes);
        std::mem::replace(&mut self.fresh, rest)
    }

    /// Returns a free page, or a fresh one. To make room for a fresh one, free ones of the other
    /// size go to `gone` if necessary.
    fn page(&mut self, bytes: usize, limit: u64, gone: &mut Vec<Page>) -> Page {
        self.take(bytes).unwrap_or_else(|| {
            let page = self.take_hollow(bytes);
            self.trim(limit, gone);
            page
        })
    }

    /// Moves free pages to `gone`, whose memory is given back without the lock.
    fn trim(&mut self, limit: u64, gone: &mut Vec<Page>) {
        while self.bytes as u64 > limit
            && let Some(page) = self
                .take(LARGE_PAGE_BYTES)
                .or_else(|| self.take(SMALL_PAGE_BYTES))
        {
            self.bytes -= page.capacity();
            gone.push(page);
        }
    }

    /// Drops the slabs, if no page is in use.
    fn drop_slabs(&mut self) -> Self {
        match self.bytes == self.free_bytes {
            true => std::mem::take(self),
            false => Self::default(),
        }
    }
}

/// Returns memory to cut pages from. It begins at the start of a page of the system, as all pages
/// then do.
fn slab() -> BytesMut {
    let mut memory = BytesMut::with_capacity(SLAB_BYTES + SYSTEM_PAGE_BYTES);
    let skipped = memory.as_ptr().align_offset(SYSTEM_PAGE_BYTES);
    let mut slab = memory.split_off(skipped.min(SYSTEM_PAGE_BYTES));
    drop(slab.split_off(SLAB_BYTES));
    allocator::keep_pages_small(slab.spare_capacity_mut());
    slab
}

impl Pages {
    pub(crate) fn new(budget: Arc<Budget>, part_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            budget,
            part_bytes,
            state: Mutex::default(),
        })
    }

    /// A part of a tail of this length gets no more segments.
    pub(crate) fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    /// Adds pages of these sizes. Returns false if there is no memory for all of them.
    pub(super) fn try_add(
        &self,
        pages: &mut Vec<Page>,
        sizes: impl Iterator<Item = usize> + Clone,
    ) -> bool {
        if !self.budget.try_take_tail(sizes.clone().sum()) {
            return false;
        }
        let (mut sizes, all) = (sizes.clone(), pages.len() + sizes.count());
        while pages.len() < all {
            let mut gone = Vec::new();
            {
                let mut state = locked(&self.state);
                let limit = self.budget.for_pages();
                let some = sizes.by_ref().take(PAGES_AT_ONCE);
                pages.extend(some.map(|bytes| state.page(bytes, limit, &mut gone)));
            }
            if !gone.is_empty() {
                self.give_back(gone);
            }
        }
        true
    }

    /// Gives the memory of free pages back to the system.
    fn give_back(&self, mut gone: Vec<Page>) {
        gone.iter_mut()
            .for_each(|page| allocator::forget(page.spare_capacity_mut()));
        let mut state = locked(&self.state);
        for page in gone {
            state.hollow(page.capacity()).push(page);
        }
    }

    /// Gives free pages back to the system, until there are no more pages than the limit allows.
    pub(crate) fn trim(&self) {
        let mut gone = Vec::new();
        locked(&self.state).trim(self.budget.for_pages(), &mut gone);
        self.give_back(gone);
    }

    /// Gives pages back that were free all the time for half an hour.
    pub(crate) fn give_back_idle(&self, now_ms: u64) {
        let mut gone = Vec::new();
        {
            let mut state = locked(&self.state);
            if now_ms < state.idle_since_ms + IDLE_MS {
                return;
            }
            let busy = state.bytes - state.idle_bytes;
            state.trim(busy as u64, &mut gone);
            state.idle_since_ms = now_ms;
            state.idle_bytes = state.free_bytes;
        }
        self.give_back(gone);
    }

    /// Bytes of all pages, in use or free.
    pub(crate) fn bytes(&self) -> u64 {
        locked(&self.state).bytes as u64
    }

    pub(super) fn take_back(&self, pages: Vec<Page>) {
        let mut bytes = 0;
        {
            let mut state = locked(&self.state);
            for page in pages {
                bytes += page.capacity();
                state.give(page);
            }
        }
        self.budget.return_tail(bytes);
    }

    /// The budget that they are taken from.
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Gives all free pages back to the system.
    pub(crate) fn release(&self) {
        let slabs = locked(&self.state).drop_slabs();
        drop(slabs);
        let mut gone = Vec::new();
        locked(&self.state).trim(0, &mut gone);
        self.give_back(gone);
        allocator::give_back();
    }

    #[cfg(test)]
    fn free_bytes(&self) -> usize {
        locked(&self.state).free_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::paged::{PagedBytes, capacity};

    fn pages(limit: u64) -> (Arc<Budget>, Arc<Pages>) {
        let budget = Arc::new(Budget::new(limit, 75));
        (Arc::clone(&budget), Pages::new(budget, TAIL_PART_BYTES))
    }

    #[test]
    fn pages_of_both_sizes_together_stay_under_the_limit() {
        let limit = 2 << 20;
        let (_, pages) = pages(limit);
        let append = |bytes: usize| {
            let mut paged = PagedBytes::new(&pages);
            assert!(paged.try_append(&vec![0; bytes]));
            paged
        };
        let many: Vec<_> = (0..400).map(|_| append(SMALL_PAGE_BYTES)).collect();
        drop(many);
        let large = append(1_500_000);
        let held = capacity(large.len()) + pages.free_bytes();
        assert!(held <= limit as usize, "{held} of {limit}");
        drop(large);
        let many: Vec<_> = (0..400).map(|_| append(SMALL_PAGE_BYTES)).collect();
        let held = 400 * SMALL_PAGE_BYTES + pages.free_bytes();
        assert!(held <= limit as usize, "{held} of {limit}");
        drop(many);
    }

    #[test]
    fn pages_unused_for_half_an_hour_are_given_back() {
        let (_, pages) = pages(64 << 20);
        let append = |bytes: usize| {
            let mut paged = PagedBytes::new(&pages);
            assert!(paged.try_append(&vec![0; bytes]));
            paged
        };
        drop(append(10 << 20));
        pages.give_back_idle(IDLE_MS);
        assert_eq!(pages.free_bytes(), 10 << 20, "they were in use since");
        drop(append(4 << 20));
        pages.give_back_idle(2 * IDLE_MS - 1);
        assert_eq!(pages.free_bytes(), 10 << 20, "it is too early");
        pages.give_back_idle(2 * IDLE_MS);
        assert_eq!(pages.free_bytes(), 4 << 20, "these were needed");
        assert_eq!(pages.bytes(), 4 << 20);
        pages.give_back_idle(3 * IDLE_MS);
        assert_eq!(pages.free_bytes(), 0);
    }

    #[test]
    fn pages_are_used_again_until_they_are_released() {
        let (_, pages) = pages(64 << 20);
        let append = |bytes: usize| {
            let mut paged = PagedBytes::new(&pages);
            assert!(paged.try_append(&vec![0; bytes]));
            paged
        };
        drop(append(10 << 20));
        assert_eq!(pages.free_bytes(), 10 << 20);
        let held = append(200_000);
        assert_eq!(pages.free_bytes(), (10 << 20) - capacity(200_000));
        pages.release();
        assert_eq!(pages.free_bytes(), 0);
        drop(held);
        assert_eq!(pages.free_bytes(), capacity(200_000));
    }

    #[test]
    fn memory_that_was_given_back_takes_other_bytes() {
        let (_, pages) = pages(64 << 20);
        let append = |bytes: &[u8]| {
            let mut paged = PagedBytes::new(&pages);
            assert!(paged.try_append(bytes));
            paged
        };
        // This memory is in use all the time: the slab stays.
        let held = append(&[1; 200_000]);
        for number in 2..6 {
            let before = pages.bytes();
            let content = vec![number; 3_000_000];
            let paged = append(&content);
            assert_eq!(paged.slices().collect::<Vec<_>>().concat(), content);
            drop(paged);
            pages.release();
            assert_eq!((pages.bytes(), pages.free_bytes()), (before, 0));
        }
        assert_eq!(held.slices().collect::<Vec<_>>().concat(), [1; 200_000]);
        drop(held);
        pages.release();
        assert_eq!(pages.bytes(), 0);
        assert_eq!(locked(&pages.state).fresh.capacity(), 0, "a slab is left");
    }

    #[test]
    fn pages_of_many_slabs_do_not_overlap() {
        let (_, pages) = pages(1 << 30);
        let paged = |number: u8| {
            let mut paged = PagedBytes::new(&pages);
            (0..number).for_each(|_| assert!(paged.try_append(&vec![number; 100_001])));
            paged
        };
        let all: Vec<_> = (1..40).map(|number| (number, paged(number))).collect();
        assert!(pages.bytes() > 2 * SLAB_BYTES as u64);
        for (number, paged) in all {
            let content = paged.slices().collect::<Vec<_>>().concat();
            assert_eq!(content.len(), usize::from(number) * 100_001);
            assert!(content.iter().all(|byte| *byte == number), "{number}");
        }
    }
}
