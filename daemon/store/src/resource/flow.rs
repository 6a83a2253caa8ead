// SPDX-License-Identifier: Apache-2.0
//! The writes to a disk that are under way. Only a limited number of threads writes to one disk at
//! a time. A disk is stalled if no write makes progress for [`STALL_MS`]: the threads in a system
//! call there cannot be helped, but no others follow them, and the waiting ones go to another disk.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::PoisonError;
use std::time::Duration;

use super::clock::Clock;
use super::locked;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use crate::sync::{Condvar, Mutex};

/// No write made progress for this long: far more than a disk in use needs for a piece, and less
/// than clients wait for the service.
pub(crate) const STALL_MS: u64 = 10_000;

/// Threads that write to all disks together. More would not write any faster. As many again may
/// wait for their turn.
const WRITERS: usize = 32;

/// The most threads that write to one disk. As many may wait.
const WRITERS_PER_DISK: usize = 16;

/// The most pushes to one disk of executors that wait. The server lets no more have threads.
const PUSHES_MAX: usize = 32;

/// The most that wait for one disk and cannot retry. If it hangs, they and all others there must
/// leave threads to other disks.
const IN_LINE_MAX: usize = 16;

/// No write made progress for this long. A journal that is committed takes less, and clients wait
/// longer for their answers. Those that wait for the disk with much memory leave it to others
/// ([`Flow::is_slow`]).
const SLOW_MS: u64 = 3_000;

/// How often a waiting thread checks whether the disk is stalled.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Flow {
    writers_max: usize,
    writers: AtomicUsize,
    /// No further request with a body begins to write while those that write have bodies of so
    /// many bytes: a disk that hangs keeps them.
    bodies_max: u64,
    bodies: AtomicU64,
    /// Time of the last progress, or of the beginning of a write while no other was under way.
    progress_ms: AtomicU64,
    waiting: Mutex<Waiting>,
    ended: Condvar,
}

/// Who waits for a turn. None takes the place of one of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Callers that may retry. With those that write there are twice as many as may write.
    Short,
    /// Pushes to a disk of executors. They waited before they had a thread.
    Pushes,
    /// Callers that cannot retry.
    Finalizes,
}

/// Threads that wait for a turn.
#[derive(Debug, Default)]
struct Waiting {
    short: usize,
    pushes: usize,
    finalizes: usize,
    /// Bytes of the bodies that they hold.
    bodies: u64,
    /// Those with bodies, in the order in which they came: few write, so others would overtake one
    /// again and again.
    in_order: VecDeque<u64>,
    last: u64,
}

impl Waiting {
    fn count(&mut self, line: Line) -> &mut usize {
        match line {
            Line::Short => &mut self.short,
            Line::Pushes => &mut self.pushes,
            Line::Finalizes => &mut self.finalizes,
        }
    }

    /// Returns the number of the one that waits.
    fn enter(&mut self, line: Line, body: u64) -> u64 {
        *self.count(line) += 1;
        self.bodies += body;
        self.last += 1;
        if body > 0 {
            self.in_order.push_back(self.last);
        }
        self.last
    }

    fn leave(&mut self, line: Line, number: u64, body: u64) {
        *self.count(line) -= 1;
        self.bodies -= body;
        self.in_order.retain(|other| *other != number);
    }

    /// True if no one with a body came before.
    fn is_first(&self, number: Option<u64>) -> bool {
        self.in_order.front().copied() == number || self.in_order.is_empty()
    }

    fn all(&self) -> usize {
        self.short + self.pushes + self.finalizes
    }
}

/// A write that is under way.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    flow: &'a Flow,
    clock: &'a dyn Clock,
    /// Bytes of the body that its request holds.
    body: u64,
    /// Its end is no progress.
    only_asks: bool,
}

impl Flow {
    /// Returns the flow of one of this many disks.
    pub(crate) fn new(disks: usize) -> Self {
        Self::with_bodies(disks, u64::MAX)
    }

    /// Returns a flow like `new`, of which the requests that write hold so many bytes of bodies.
    pub(crate) fn with_bodies(disks: usize, bodies_max: u64) -> Self {
        Self {
            writers_max: (WRITERS / disks.max(1)).clamp(1, WRITERS_PER_DISK),
            writers: 0.into(),
            bodies_max,
            bodies: 0.into(),
            progress_ms: 0.into(),
            waiting: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    pub(crate) fn is_stalled(&self, clock: &dyn Clock) -> bool {
        self.stands_still_for(STALL_MS, clock)
    }

    /// True if the disk may hang: no write makes progress for a while.
    pub(crate) fn is_slow(&self, clock: &dyn Clock) -> bool {
        self.stands_still_for(SLOW_MS, clock)
    }

    fn stands_still_for(&self, time_ms: u64, clock: &dyn Clock) -> bool {
        self.writers.load(SeqCst) > 0
            && clock.now_ms().saturating_sub(self.progress_ms.load(SeqCst)) >= time_ms
    }

    /// True if no thread writes or waits.
    pub(crate) fn is_idle(&self) -> bool {
        let waiting = locked(&self.waiting);
        waiting.all() + self.writers.load(SeqCst) == 0
    }

    /// Waits for a turn, as long as the writes under way make progress. Fails at once if too many
    /// wait already: the caller may retry.
    pub(crate) fn begin<'a>(&'a self, clock: &'a dyn Clock) -> io::Result<Writing<'a>> {
        self.begin_in(Line::Short, clock)
    }

    /// Waits like `begin`, in one of the lines.
    pub(crate) fn begin_in<'a>(
        &'a self,
        line: Line,
        clock: &'a dyn Clock,
    ) -> io::Result<Writing<'a>> {
        self.begin_with(line, 0, clock)
    }

    /// Waits like `begin_in`, for a request that holds a body of so many bytes. Fails if the disk
    /// is slow, and there are more of such bytes here than those that write may hold.
    pub(crate) fn begin_with<'a>(
        &'a self,
        line: Line,
        body: u64,
        clock: &'a dyn Clock,
    ) -> io::Result<Writing<'a>> {
        let mut waiting = locked(&self.waiting);
        let mut number = None;
        loop {
            let is_first = body == 0 || waiting.is_first(number);
            let waits = number.is_some();
            let outcome = match self.is_stalled(clock) {
                true => Some(Err(io::Error::other(Stalled))),
                false if is_first && self.has_turn(body) => Some(Ok(())),
                false if !waits && *waiting.count(line) >= self.waiting_max(line) => {
                    return Err(ErrorKind::ResourceBusy.into());
                }
                false if body > 0 && self.holds_too_much(&waiting, waits, body, clock) => {
                    Some(Err(ErrorKind::ResourceBusy.into()))
                }
                false => None,
            };
            if let Some(outcome) = outcome {
                if let Some(number) = number {
                    waiting.leave(line, number, body);
                    self.wake(&waiting);
                }
                outcome?;
                break;
            }
            if !waits {
                number = Some(waiting.enter(line, body));
            }
            let waited = self.ended.wait_timeout(waiting, LOOK);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let writing = Writing {
            flow: self,
            clock,
            body,
            only_asks: false,
        };
        if self.writers.load(SeqCst) == 0 {
            writing.got_on();
        }
        self.writers.fetch_add(1, SeqCst);
        self.bodies.fetch_add(body, SeqCst);
        Ok(writing)
    }

    /// Wakes the next one. Which one that is, those with bodies find out themselves.
    fn wake(&self, waiting: &Waiting) {
        match waiting.in_order.is_empty() {
            true => self.ended.notify_one(),
            false => self.ended.notify_all(),
        }
    }

    /// How many may wait in a line, while nobody else begins or ends a write. Bodies may let few
    /// write: as many more wait in the short one, with those that were there before.
    fn waiting_max(&self, line: Line) -> usize {
        match line {
            Line::Short => 2 * self.writers_max - self.writers.load(SeqCst).min(self.writers_max),
            Line::Pushes => PUSHES_MAX,
            Line::Finalizes => IN_LINE_MAX,
        }
    }

    /// True if one more may write. A body of any size gets its turn.
    fn has_turn(&self, body: u64) -> bool {
        let has_memory = body == 0 || self.bodies.load(SeqCst) < self.bodies_max;
        has_memory && self.writers.load(SeqCst) < self.writers_max
    }

    /// True if the disk is slow, and a request that waits with its body would hold memory that is
    /// for other disks.
    fn holds_too_much(&self, waiting: &Waiting, waits: bool, body: u64, clock: &dyn Clock) -> bool {
        let others = waiting.bodies - if waits { body } else { 0 };
        let held = self.bodies.load(SeqCst).saturating_add(others);
        held >= self.bodies_max && self.is_slow(clock)
    }
}

impl Writing<'_> {
    pub(crate) fn got_on(&self) {
        self.flow.progress_ms.store(self.clock.now_ms(), SeqCst);
    }

    /// Uses the turn for a question, or for something else that a disk may do while its writes
    /// hang: the end is no progress.
    pub(crate) fn only_asking(mut self) -> Self {
        self.only_asks = true;
        self
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.only_asks {
            self.got_on();
        }
        let waiting = locked(&self.flow.waiting);
        self.flow.writers.fetch_sub(1, SeqCst);
        self.flow.bodies.fetch_sub(self.body, SeqCst);
        self.flow.wake(&waiting);
    }
}

/// No write makes progress. This is no failure of the disk, which may work again the next moment.
#[derive(Debug, thiserror::Error)]
#[error("nothing was written for {} s", STALL_MS / 1000)]
pub(crate) struct Stalled;

impl Stalled {
    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

#[cfg(test)]
mod tests;
