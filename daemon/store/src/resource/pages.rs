// SPDX-License-Identifier: Apache-2.0
//! Memory for tails: pages of two sizes, taken from the budget, and used again.
//!
//! Growing each tail in one piece (a `Vec`) was tried first: with thousands of tails that grow and go,
//! the allocator's holes took as much memory again as the budget allowed.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::budget::Budget;
use super::{allocator, locked};

/// Size of the first pages of a tail: what an almost empty tail wastes at most.
const SMALL_PAGE_BYTES: usize = 4 << 10;

/// Size of the pages behind those: what is sent, or copied, without a break.
const LARGE_PAGE_BYTES: usize = 64 << 10;

/// This many small pages come first.
const SMALL_PAGES: usize = 16;

/// Bytes in the small pages.
const SMALL_PART: usize = SMALL_PAGES * SMALL_PAGE_BYTES;

/// What is moved in one step when a gap is closed up: rare, so that a small buffer on the stack will do.
const MOVE_BYTES: usize = 1024;

/// Pages that nobody needed for so long are given back, also while applications are there.
const IDLE_MS: u64 = 1_800_000;

/// What is freed of so little stays with the allocator.
const WORTH_GIVING_BACK: usize = 1 << 20;

type Page = Box<[u8]>;

/// The pages that nobody uses at the moment. They are kept until [`Pages::release`], because fresh
/// memory costs the kernel more than to copy something into it; with those in use they are never more
/// than the budget's limit.
#[derive(Debug)]
pub(crate) struct Pages {
    budget: Arc<Budget>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    small: Vec<Page>,
    large: Vec<Page>,
    /// Of all pages there are, in use or not.
    bytes: usize,
    /// Of those that are free.
    free_bytes: usize,
    /// The least that was free since then: nobody needed it.
    idle_bytes: usize,
    idle_since_ms: u64,
}

/// Bytes in pages, appended at the end. The pages go back when it is dropped.
#[derive(Debug)]
pub(crate) struct PagedBytes {
    from: Arc<Pages>,
    pages: Vec<Page>,
    length: usize,
}

/// A part of one page, shared with whoever sends it.
struct Share {
    paged: Arc<PagedBytes>,
    page: usize,
    range: Range<usize>,
}

/// Where a byte is: which page, and where in it.
fn position(at: usize) -> (usize, usize) {
    match at.checked_sub(SMALL_PART) {
        None => (at / SMALL_PAGE_BYTES, at % SMALL_PAGE_BYTES),
        Some(at) => (SMALL_PAGES + at / LARGE_PAGE_BYTES, at % LARGE_PAGE_BYTES),
    }
}

/// Memory of the pages that so many bytes need.
fn capacity(length: usize) -> usize {
    match length.checked_sub(SMALL_PART) {
        None => length.next_multiple_of(SMALL_PAGE_BYTES),
        Some(rest) => SMALL_PART + rest.next_multiple_of(LARGE_PAGE_BYTES),
    }
}

/// How many pages so many bytes need.
fn pages_for(length: usize) -> usize {
    match length.checked_sub(SMALL_PART) {
        None => length.div_ceil(SMALL_PAGE_BYTES),
        Some(rest) => SMALL_PAGES + rest.div_ceil(LARGE_PAGE_BYTES),
    }
}

fn page_bytes(page: usize) -> usize {
    if page < SMALL_PAGES {
        SMALL_PAGE_BYTES
    } else {
        LARGE_PAGE_BYTES
    }
}

fn give_back(pages: Vec<Page>) {
    let bytes: usize = pages.iter().map(|page| page.len()).sum();
    drop(pages);
    if bytes >= WORTH_GIVING_BACK {
        allocator::give_back();
    }
}

impl State {
    fn free(&mut self, bytes: usize) -> &mut Vec<Page> {
        match bytes {
            LARGE_PAGE_BYTES => &mut self.large,
            _ => &mut self.small,
        }
    }

    fn take(&mut self, bytes: usize) -> Option<Page> {
        let page = self.free(bytes).pop()?;
        self.free_bytes -= page.len();
        self.idle_bytes = self.idle_bytes.min(self.free_bytes);
        Some(page)
    }

    fn give(&mut self, page: Page) {
        self.free_bytes += page.len();
        self.free(page.len()).push(page);
    }

    /// Moves free pages to `gone`, whose memory is given back without the lock.
    fn trim(&mut self, limit: u64, gone: &mut Vec<Page>) {
        while self.bytes as u64 > limit
            && let Some(page) = self
                .take(LARGE_PAGE_BYTES)
                .or_else(|| self.take(SMALL_PAGE_BYTES))
        {
            self.bytes -= page.len();
            gone.push(page);
        }
    }
}

impl Pages {
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget,
            state: Mutex::default(),
        })
    }

    /// Adds pages so that `length` bytes fit, or says that there is no memory.
    fn grow(&self, pages: &mut Vec<Page>, now: usize, length: usize) -> bool {
        let more = capacity(length) - now;
        if !self.budget.try_take_tail(more) {
            return false;
        }
        let mut left = more;
        while left > 0 {
            let page = self.page(page_bytes(pages.len()));
            left -= page.len();
            pages.push(page);
        }
        true
    }

    /// One that is free, or a fresh one. In place of that, free ones of the other size go if need be.
    fn page(&self, bytes: usize) -> Page {
        let mut gone = Vec::new();
        {
            let mut state = locked(&self.state);
            if let Some(page) = state.take(bytes) {
                return page;
            }
            state.bytes += bytes;
            state.trim(self.budget.for_pages(), &mut gone);
        }
        drop(gone);
        vec![0; bytes].into_boxed_slice()
    }

    /// Gives free pages back to the system, until there are no more pages than the limit allows.
    pub(crate) fn trim(&self) {
        let mut gone = Vec::new();
        locked(&self.state).trim(self.budget.for_pages(), &mut gone);
        give_back(gone);
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
        give_back(gone);
    }

    /// Bytes of all pages, in use or free.
    pub(crate) fn bytes(&self) -> u64 {
        locked(&self.state).bytes as u64
    }

    fn take_back(&self, pages: Vec<Page>) {
        let mut bytes = 0;
        {
            let mut state = locked(&self.state);
            for page in pages {
                bytes += page.len();
                state.give(page);
            }
        }
        self.budget.return_tail(bytes);
    }

    /// Gives all free pages back to the system.
    pub(crate) fn release(&self) {
        let mut gone = Vec::new();
        locked(&self.state).trim(0, &mut gone);
        give_back(gone);
    }

    #[cfg(test)]
    fn free_bytes(&self) -> usize {
        locked(&self.state).free_bytes
    }
}

impl PagedBytes {
    pub(crate) fn new(from: &Arc<Pages>) -> Self {
        Self {
            from: Arc::clone(from),
            pages: Vec::new(),
            length: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Copies `bytes` to the end, or says that there is no memory for them.
    pub(crate) fn try_append(&mut self, mut bytes: &[u8]) -> bool {
        let length = self.length + bytes.len();
        let now = capacity(self.length);
        if !self.from.grow(&mut self.pages, now, length) {
            return false;
        }
        let (first, mut start) = position(self.length);
        self.length = length;
        for page in self.pages.iter_mut().skip(first) {
            let room = page.get_mut(start..).unwrap_or_default();
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            if let Some(to) = room.get_mut(..now.len()) {
                to.copy_from_slice(now);
            }
            (bytes, start) = (later, 0);
        }
        true
    }

    /// Keeps only these ranges, which are in order, and closes up the gaps.
    pub(crate) fn keep(&mut self, ranges: &[Range<usize>]) {
        let mut end = 0;
        for range in ranges {
            let mut from = range.start;
            while from < range.end {
                let moved = self.move_down(from, end, range.end - from);
                from += moved;
                end += moved;
            }
        }
        self.length = end;
        let gone = self.pages.split_off(pages_for(end));
        self.from.take_back(gone);
    }

    /// Moves bytes down to `to`, as many as one step can, and says how many.
    fn move_down(&mut self, from: usize, to: usize, most: usize) -> usize {
        let mut step = [0; MOVE_BYTES];
        let ((source, start), (target, place)) = (position(from), position(to));
        let count = most
            .min(step.len())
            .min(page_bytes(source) - start)
            .min(page_bytes(target) - place);
        let bytes = self
            .pages
            .get(source)
            .and_then(|page| page.get(start..start + count));
        if let (Some(step), Some(bytes)) = (step.get_mut(..count), bytes) {
            step.copy_from_slice(bytes);
        }
        let room = self
            .pages
            .get_mut(target)
            .and_then(|page| page.get_mut(place..place + count));
        if let (Some(room), Some(step)) = (room, step.get(..count)) {
            room.copy_from_slice(step);
        }
        count
    }

    /// The bytes, page by page.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.length;
        self.pages.iter().map_while(move |page| {
            let count = rest.min(page.len());
            rest -= count;
            page.get(..count).filter(|slice| !slice.is_empty())
        })
    }

    /// A range of the bytes, shared and not copied; shorter if the range goes over the end.
    pub(crate) fn share(self: &Arc<Self>, range: Range<usize>) -> impl Iterator<Item = Bytes> {
        let end = range.end.min(self.length);
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (page, start) = position(at);
            let count = (page_bytes(page) - start).min(end - at);
            at += count;
            Some(Bytes::from_owner(Share {
                paged: Arc::clone(self),
                page,
                range: start..start + count,
            }))
        })
    }
}

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        let page = self.paged.pages.get(self.page);
        page.and_then(|page| page.get(self.range.clone()))
            .unwrap_or_default()
    }
}

impl Drop for PagedBytes {
    fn drop(&mut self) {
        self.from.take_back(std::mem::take(&mut self.pages));
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::single_range_in_vec_init,
        reason = "a list of ranges, of which there may be one"
    )]

    use super::*;

    fn pages(limit: u64) -> (Arc<Budget>, Arc<Pages>) {
        let budget = Arc::new(Budget::new(limit));
        (Arc::clone(&budget), Pages::new(budget))
    }

    #[test]
    fn bytes_come_out_as_they_went_in_over_page_boundaries() {
        let (budget, pages) = pages(1 << 20);
        let mut paged = PagedBytes::new(&pages);
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let mut so_far = 0;
        for length in [
            0, 1, 4094, 1, 4096, 5000, 52_000, 344, 65_536, 150_000, 18_928,
        ] {
            assert!(paged.try_append(&bytes[so_far..so_far + length]));
            so_far += length;
            assert_eq!(paged.len(), so_far);
            assert_eq!(paged.slices().collect::<Vec<_>>().concat(), bytes[..so_far]);
        }
        assert_eq!(so_far, bytes.len());
        assert_eq!(budget.used(), (SMALL_PART + 4 * LARGE_PAGE_BYTES) as u64);
        let paged = Arc::new(paged);
        for range in [0..1, 4095..4097, 60_000..70_000, 65_536..65_537, 0..300_000] {
            let shared: Vec<Bytes> = paged.share(range.clone()).collect();
            assert_eq!(shared.concat(), bytes[range]);
        }
        assert_eq!(paged.share(299_999..300_001).next().unwrap().len(), 1);
        assert_eq!(paged.share(300_000..300_001).count(), 0);
    }

    #[test]
    fn gaps_are_closed_up_and_their_memory_goes_back() {
        let (budget, pages) = pages(1 << 20);
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let kept: [&[Range<usize>]; 5] = [
            &[],
            &[0..300_000],
            &[1..2, 4_095..4_097, 60_000..70_000, 299_999..300_000],
            &[100..65_536, 65_536..200_000],
            &[150_000..300_000],
        ];
        for ranges in kept {
            let mut paged = PagedBytes::new(&pages);
            assert!(paged.try_append(&bytes));
            paged.keep(ranges);
            let expected: Vec<&[u8]> = ranges.iter().map(|r| &bytes[r.clone()]).collect();
            let expected = expected.concat();
            assert_eq!(paged.len(), expected.len());
            assert_eq!(paged.slices().collect::<Vec<_>>().concat(), expected);
            assert_eq!(budget.used(), capacity(expected.len()) as u64);
            assert!(paged.try_append(b"more"));
            let more = [expected.as_slice(), b"more"].concat();
            assert_eq!(paged.slices().collect::<Vec<_>>().concat(), more);
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_does_not_fit_the_budget_is_not_appended() {
        let (budget, pages) = pages(10 * SMALL_PAGE_BYTES as u64);
        let mut paged = PagedBytes::new(&pages);
        assert!(paged.try_append(&[1; 5_000]));
        assert!(!paged.try_append(&[2; 50_000]));
        assert_eq!(paged.slices().collect::<Vec<_>>().concat(), [1; 5_000]);
        assert!(paged.try_append(&[3; 3_000]));
        assert_eq!(budget.used(), 2 * SMALL_PAGE_BYTES as u64);
    }

    #[test]
    fn memory_goes_back_when_the_last_reader_let_go() {
        let (budget, pages) = pages(10 << 20);
        let mut paged = PagedBytes::new(&pages);
        assert!(paged.try_append(&[7; 1_000_000]));
        let paged = Arc::new(paged);
        let last = paged.share(999_000..1_000_000).next().unwrap();
        drop(paged);
        assert!(budget.used() >= 1_000_000);
        assert_eq!(last, vec![7; last.len()]);
        drop(last);
        assert_eq!(budget.used(), 0);
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
    fn pages_that_nobody_needed_for_half_an_hour_are_given_back() {
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
}
