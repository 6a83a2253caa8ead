// SPDX-License-Identifier: Apache-2.0
//! The writes to a disk that are under way. Only a limited number of threads writes to one disk at
//! a time. A disk is stalled if no write makes progress for [`STALL_MS`]: the threads in a system
//! call there cannot be helped, but no others follow them, and the waiting ones go to another disk.

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

/// How often a waiting thread checks whether the disk is stalled.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Flow {
    writers_max: usize,
    writers: AtomicUsize,
    /// Time of the last progress, or of the beginning of a write while no other was under way.
    progress_ms: AtomicU64,
    waiting: Mutex<Waiting>,
    ended: Condvar,
}

/// Who waits for a turn. None takes the place of one of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Callers that may retry, of which as many wait as write.
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
}

impl Waiting {
    fn count(&mut self, line: Line) -> &mut usize {
        match line {
            Line::Short => &mut self.short,
            Line::Pushes => &mut self.pushes,
            Line::Finalizes => &mut self.finalizes,
        }
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
    /// Its end is no progress.
    only_asks: bool,
}

impl Flow {
    /// Returns the flow of one of this many disks.
    pub(crate) fn new(disks: usize) -> Self {
        Self {
            writers_max: (WRITERS / disks.max(1)).clamp(1, WRITERS_PER_DISK),
            writers: 0.into(),
            progress_ms: 0.into(),
            waiting: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    pub(crate) fn is_stalled(&self, clock: &dyn Clock) -> bool {
        self.writers.load(SeqCst) > 0
            && clock.now_ms().saturating_sub(self.progress_ms.load(SeqCst)) >= STALL_MS
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
        let waiting_max = match line {
            Line::Short => self.writers_max,
            Line::Pushes => PUSHES_MAX,
            Line::Finalizes => IN_LINE_MAX,
        };
        let mut waiting = locked(&self.waiting);
        let mut waits = false;
        loop {
            let outcome = match self.is_stalled(clock) {
                true => Some(Err(io::Error::other(Stalled))),
                false if self.writers.load(SeqCst) < self.writers_max => Some(Ok(())),
                false if !waits && *waiting.count(line) >= waiting_max => {
                    return Err(ErrorKind::ResourceBusy.into());
                }
                false => None,
            };
            if let Some(outcome) = outcome {
                *waiting.count(line) -= usize::from(waits);
                outcome?;
                break;
            }
            *waiting.count(line) += usize::from(!waits);
            waits = true;
            let waited = self.ended.wait_timeout(waiting, LOOK);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let writing = Writing {
            flow: self,
            clock,
            only_asks: false,
        };
        if self.writers.load(SeqCst) == 0 {
            writing.got_on();
        }
        self.writers.fetch_add(1, SeqCst);
        Ok(writing)
    }
}

impl Writing<'_> {
    pub(crate) fn got_on(&self) {
        self.flow.progress_ms.store(self.clock.now_ms(), SeqCst);
    }

    /// Uses the turn for a question that a disk may answer while its writes hang: the answer is no
    /// progress.
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
        let _waiting = locked(&self.flow.waiting);
        self.flow.writers.fetch_sub(1, SeqCst);
        self.flow.ended.notify_one();
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
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::resource::clock::ManualClock;

    #[test]
    fn a_disk_is_stalled_when_nothing_gets_on_and_well_as_soon_as_something_does() {
        let clock = ManualClock::default();
        let flow = Flow::new(1);
        clock.advance_ms(5 * STALL_MS);
        assert!(!flow.is_stalled(&clock), "nobody writes");
        let first = flow.begin(&clock).unwrap();
        clock.advance_ms(STALL_MS - 1);
        assert!(!flow.is_stalled(&clock));
        // A write that begins beside one that hangs is no progress.
        let second = flow.begin(&clock).unwrap();
        clock.advance_ms(1);
        assert!(flow.is_stalled(&clock));
        second.got_on();
        assert!(!flow.is_stalled(&clock));
        clock.advance_ms(STALL_MS);
        assert!(flow.is_stalled(&clock));
        drop(first);
        assert!(!flow.is_stalled(&clock));
        drop(second);
        clock.advance_ms(STALL_MS);
        assert!(!flow.is_stalled(&clock));
    }

    #[test]
    fn a_disk_that_answers_questions_while_its_writes_hang_is_stalled() {
        let clock = ManualClock::default();
        let flow = Flow::new(1);
        let _hangs = flow.begin(&clock).unwrap();
        clock.advance_ms(STALL_MS - 1);
        drop(flow.begin(&clock).unwrap().only_asking());
        clock.advance_ms(1);
        assert!(flow.is_stalled(&clock), "pushes would hang there, too");
    }

    #[test]
    fn a_writer_is_refused_at_once_if_as_many_wait_as_may_write() {
        let clock = ManualClock::default();
        let flow = Flow::new(WRITERS);
        let first = flow.begin(&clock).unwrap();
        thread::scope(|scope| {
            let (flow, clock) = (&flow, &clock);
            let second = scope.spawn(move || flow.begin(clock).map(drop).unwrap());
            while waiting(flow) == 0 {
                thread::yield_now();
            }
            let refused = flow.begin(clock).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
            drop(first);
            second.join().unwrap();
        });
        assert_eq!(waiting(&flow), 0);
        drop(flow.begin(&clock).unwrap());
    }

    #[test]
    fn those_that_wait_in_line_take_no_place_of_a_writer_that_may_be_refused() {
        let clock = ManualClock::default();
        let flow = Flow::new(WRITERS);
        let first = flow.begin(&clock).unwrap();
        thread::scope(|scope| {
            let (flow, clock) = (&flow, &clock);
            let in_line = scope.spawn(move || flow.begin_in(Line::Finalizes, clock).map(drop));
            while waiting(flow) == 0 {
                thread::yield_now();
            }
            let limited = scope.spawn(move || flow.begin(clock).map(drop));
            while waiting(flow) == 1 && !limited.is_finished() {
                thread::yield_now();
            }
            drop(first);
            assert!(in_line.join().unwrap().is_ok());
            assert!(limited.join().unwrap().is_ok(), "it is refused");
        });
        assert_eq!(waiting(&flow), 0);
    }

    #[test]
    fn those_that_cannot_retry_leave_threads_to_other_disks() {
        let clock = ManualClock::default();
        let flow = Flow::new(WRITERS);
        let first = flow.begin(&clock).unwrap();
        thread::scope(|scope| {
            let (flow, clock) = (&flow, &clock);
            for _ in 0..IN_LINE_MAX {
                scope.spawn(move || flow.begin_in(Line::Finalizes, clock).map(drop).unwrap());
            }
            while waiting(flow) < IN_LINE_MAX {
                thread::yield_now();
            }
            let refused = flow.begin_in(Line::Finalizes, clock).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
            drop(first);
        });
    }

    fn waiting(flow: &Flow) -> usize {
        locked(&flow.waiting).all()
    }

    #[test]
    fn a_waiting_writer_gets_its_turn_or_a_stalled_disk_error() {
        let clock = ManualClock::default();
        let flow = Flow::new(WRITERS);
        let first = flow.begin(&clock).unwrap();
        let (began, has_begun) = mpsc::channel();
        thread::scope(|scope| {
            let (flow, clock) = (&flow, &clock);
            scope.spawn(move || began.send(flow.begin(clock).map(drop)).unwrap());
            drop(first);
            assert!(has_begun.recv().unwrap().is_ok());
        });
        let _hangs = flow.begin(&clock).unwrap();
        clock.advance_ms(STALL_MS);
        assert!(Stalled::is(&flow.begin(&clock).unwrap_err()));
    }
}
