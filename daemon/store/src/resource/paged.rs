// SPDX-License-Identifier: Apache-2.0
//! Bytes that grow at their end, in pages of the pool. Senders share them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::pages::{LARGE_PAGE_BYTES, Page, Pages, SMALL_PAGE_BYTES};
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// This many small pages come first.
const SMALL_PAGES: usize = 16;

/// Bytes in the small pages.
const SMALL_PART: usize = SMALL_PAGES * SMALL_PAGE_BYTES;

/// Bytes that are moved in one step when a gap is closed: this is rare, so a small buffer on the
/// stack is enough.
const MOVE_BYTES: usize = 1024;

/// Bytes in pages, appended at the end. The pages go back when it is dropped.
#[derive(Debug)]
pub(crate) struct PagedBytes {
    from: Arc<Pages>,
    pages: Vec<Page>,
    length: usize,
    /// True if readers have taken all of it: the budget counts it so.
    was_read: AtomicBool,
}

/// A part of one page, shared with its sender.
struct PageSlice {
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

/// Returns the memory of the pages that this many bytes need.
pub(super) fn capacity(length: usize) -> usize {
    match length.checked_sub(SMALL_PART) {
        None => length.next_multiple_of(SMALL_PAGE_BYTES),
        Some(rest) => SMALL_PART + rest.next_multiple_of(LARGE_PAGE_BYTES),
    }
}

/// Returns how many pages this many bytes need.
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

impl PagedBytes {
    pub(crate) fn new(from: &Arc<Pages>) -> Self {
        Self {
            from: Arc::clone(from),
            pages: Vec::new(),
            length: 0,
            was_read: AtomicBool::new(false),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Readers have taken all of it.
    pub(crate) fn mark_read(&self) {
        if !self.was_read.swap(true, Relaxed) {
            self.from.budget().count_read(capacity(self.length));
        }
    }

    pub(crate) fn was_read(&self) -> bool {
        self.was_read.load(Relaxed)
    }

    /// Called before the bytes change.
    fn unmark_read(&mut self) {
        if std::mem::take(self.was_read.get_mut()) {
            self.from.budget().uncount_read(capacity(self.length));
        }
    }

    /// Copies `bytes` to the end. Returns false if there is no memory for them.
    pub(crate) fn try_append(&mut self, mut bytes: &[u8]) -> bool {
        self.unmark_read();
        let length = self.length + bytes.len();
        let missing = (self.pages.len()..pages_for(length)).map(page_bytes);
        if !self.from.try_add(&mut self.pages, missing) {
            return false;
        }
        let (first, _) = position(self.length);
        self.length = length;
        for page in self.pages.iter_mut().skip(first) {
            let room = page.capacity() - page.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            page.extend_from_slice(now);
            bytes = later;
        }
        true
    }

    /// Keeps only these ranges, which are in order, and closes up the gaps.
    pub(crate) fn keep(&mut self, ranges: &[Range<usize>]) {
        self.unmark_read();
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
        let full: usize = (1..self.pages.len()).map(|page| page_bytes(page - 1)).sum();
        if let Some(last) = self.pages.last_mut() {
            last.truncate(end - full);
        }
        self.from.take_back(gone);
    }

    /// Moves bytes down to `to`, as many as one step can, and returns how many.
    fn move_down(&mut self, from: usize, to: usize, most: usize) -> usize {
        let mut step = [0; MOVE_BYTES];
        let ((source, start), (target, to_offset)) = (position(from), position(to));
        let count = most
            .min(step.len())
            .min(page_bytes(source) - start)
            .min(page_bytes(target) - to_offset);
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
            .and_then(|page| page.get_mut(to_offset..to_offset + count));
        if let (Some(room), Some(step)) = (room, step.get(..count)) {
            room.copy_from_slice(step);
        }
        count
    }

    /// The bytes, page by page.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pages.iter().map(|page| page.as_ref())
    }

    /// Returns a range of the bytes, shared and not copied; shorter if the range goes beyond the
    /// end.
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
            Some(Bytes::from_owner(PageSlice {
                paged: Arc::clone(self),
                page,
                range: start..start + count,
            }))
        })
    }
}

impl AsRef<[u8]> for PageSlice {
    fn as_ref(&self) -> &[u8] {
        let page = self.paged.pages.get(self.page);
        page.and_then(|page| page.get(self.range.clone()))
            .unwrap_or_default()
    }
}

impl Drop for PagedBytes {
    fn drop(&mut self) {
        self.unmark_read();
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
    use crate::resource::budget::Budget;
    use crate::resource::pages::TAIL_PART_BYTES;

    fn pages(limit: u64) -> (Arc<Budget>, Arc<Pages>) {
        let budget = Arc::new(Budget::new(limit, 75));
        (Arc::clone(&budget), Pages::new(budget, TAIL_PART_BYTES))
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
    fn bytes_that_do_not_fit_the_budget_are_not_appended() {
        let (budget, pages) = pages(10 * SMALL_PAGE_BYTES as u64);
        let mut paged = PagedBytes::new(&pages);
        assert!(paged.try_append(&[1; 5_000]));
        assert!(!paged.try_append(&[2; 50_000]));
        assert_eq!(paged.slices().collect::<Vec<_>>().concat(), [1; 5_000]);
        assert!(paged.try_append(&[3; 3_000]));
        assert_eq!(budget.used(), 2 * SMALL_PAGE_BYTES as u64);
    }

    #[test]
    fn memory_goes_back_when_the_last_reader_drops_it() {
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
    fn read_bytes_count_as_room_until_they_change_or_go() {
        let (budget, pages) = pages(4 << 20);
        let mut paged = PagedBytes::new(&pages);
        assert!(paged.try_append(&[1; 3 << 20]));
        assert!(budget.is_nearly_short());
        paged.mark_read();
        paged.mark_read();
        assert!(!budget.is_scarce());
        assert!(paged.try_append(b"more"));
        assert!(budget.is_nearly_short(), "nobody has read what came since");
        paged.mark_read();
        paged.keep(&[0..3 << 20]);
        assert!(budget.is_nearly_short(), "it is another one now");
        paged.mark_read();
        drop(paged);
        let mut other = PagedBytes::new(&pages);
        assert!(other.try_append(&[1; 3 << 20]));
        assert!(budget.is_nearly_short(), "that room was given back once");
    }
}
