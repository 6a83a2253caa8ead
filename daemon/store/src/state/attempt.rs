// SPDX-License-Identifier: Apache-2.0
//! A map attempt: the segments that were taken of it, and its state.

use std::collections::BTreeMap;

use lodestone_model::{Code, Ledger};
use lodestone_planted::{self as planted, Bug};
use serde::{Deserialize, Serialize};

/// Memory that an attempt needs beside its batches, for the budget: the struct, its map entries,
/// allocations.
pub(crate) const ATTEMPT_BYTES: usize = 192;

/// Memory of a batch.
const BATCH_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    #[default]
    Open,
    Committed,
    Aborted,
    /// The shuffle was removed.
    Ended,
    /// The next daemon continues it, and this one does not. Never part of an entry.
    HandedOver,
}

/// One attempt of one map task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Attempt {
    state: State,
    ledger: Ledger,
    /// The ledger of the segments that were taken of each batch, by the number of its first
    /// segment.
    batches: BTreeMap<u32, Ledger>,
}

impl Attempt {
    /// An attempt of which nothing is taken.
    pub(crate) fn aborted() -> Self {
        Self {
            state: State::Aborted,
            ..Self::default()
        }
    }

    /// Returns how many segments of this batch, which may be a repetition, were taken already.
    /// `pushed` returns the ledger of this many of the segments that came now: both must be the
    /// same.
    pub(crate) fn taken(
        &self,
        first: u32,
        segments: usize,
        pushed: impl FnOnce(usize) -> Ledger,
    ) -> Result<usize, Code> {
        match self.state {
            State::Open => {
                let taken = self.batches.get(&first).copied().unwrap_or_default();
                let count = taken.segments as usize;
                if planted::is(Bug::RepeatsUncompared) {
                    return Ok(count.min(segments));
                }
                if count > segments || count > 0 && pushed(count) != taken {
                    return Err(Code::OtherContent);
                }
                Ok(count)
            }
            // A late repetition: an attempt commits when all of its pushes were answered. A client
            // that pushes anything else under its name cannot commit.
            State::Committed => Ok(segments),
            State::Aborted => Err(Code::Aborted),
            State::Ended => Err(Code::TooLate),
            State::HandedOver => Err(Code::Overloaded),
        }
    }

    /// Records what more was taken of a batch.
    pub(crate) fn take(&mut self, first: u32, more: Ledger) {
        if more.segments > 0 {
            let taken = self.batches.entry(first).or_default();
            *taken = taken.and(more);
        }
        self.ledger = self.ledger.and(more);
    }

    /// Commits the attempt, whose ledger the client sends.
    pub(crate) fn commit(&mut self, pushed: Ledger) -> Result<(), Code> {
        match self.state {
            State::Committed if planted::is(Bug::CommittedOnce) => {
                return Err(Code::LedgerMismatch);
            }
            State::Open | State::Committed => {}
            State::Aborted => return Err(Code::Aborted),
            State::Ended => return Err(Code::UnknownShuffle),
            State::HandedOver => return Err(Code::Overloaded),
        }
        if self.ledger != pushed {
            return Err(Code::LedgerMismatch);
        }
        self.state = State::Committed;
        self.batches.clear();
        Ok(())
    }

    /// Aborts the attempt. An attempt that was handed over, or ended, does not change.
    pub(crate) fn abort(&mut self) -> Result<(), Code> {
        match self.state {
            State::Open | State::Committed | State::Aborted => {}
            State::Ended => return Err(Code::UnknownShuffle),
            State::HandedOver => return Err(Code::Overloaded),
        }
        *self = Self::aborted();
        Ok(())
    }

    /// The shuffle goes.
    pub(crate) fn end(&mut self) {
        *self = Self {
            state: State::Ended,
            ..Self::default()
        };
    }

    /// Its state is part of the handover: nothing changes here any more.
    pub(crate) fn hand_over(&mut self) {
        self.state = State::HandedOver;
    }

    /// Readers are shown it.
    pub(crate) fn is_committed(&self) -> bool {
        self.state == State::Committed
    }

    /// Nothing is taken of it any more.
    pub(crate) fn is_aborted(&self) -> bool {
        self.state == State::Aborted
    }

    /// Returns true if nothing was taken of it, and it has not ended.
    pub(crate) fn is_untouched(&self) -> bool {
        self.state == State::Open && self.batches.is_empty()
    }

    /// Returns the ledger of all segments that were taken of it.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        ATTEMPT_BYTES + self.batches.len() * BATCH_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(segments: u64, checksum: u64) -> Ledger {
        Ledger { segments, checksum }
    }

    fn nothing(_: usize) -> Ledger {
        Ledger::default()
    }

    #[test]
    fn a_batch_that_comes_again_goes_on_where_it_ended() {
        let mut attempt = Attempt::default();
        assert_eq!(attempt.taken(0, 10, nothing), Ok(0));
        attempt.take(0, ledger(4, 44));
        assert_eq!(attempt.taken(0, 10, |_| ledger(4, 44)), Ok(4));
        attempt.take(0, ledger(6, 6));
        assert_eq!(attempt.taken(0, 10, |_| ledger(10, 50)), Ok(10));
        assert_eq!(attempt.taken(10, 3, nothing), Ok(0), "another batch");
        assert_eq!(attempt.commit(ledger(10, 50)), Ok(()));
        let late = attempt.taken(10, 3, nothing);
        assert_eq!(late, Ok(3), "late, and so a repetition");
    }

    #[test]
    fn a_batch_that_comes_again_with_other_segments_is_not_taken_for_the_same() {
        let mut attempt = Attempt::default();
        attempt.take(0, ledger(4, 44));
        let again = |segments, checksum| {
            let pushed = |count| ledger(count as u64, checksum);
            attempt.taken(0, segments, pushed)
        };
        assert_eq!(again(10, 44), Ok(4));
        assert_eq!(again(10, 45), Err(Code::OtherContent));
        assert_eq!(again(3, 44), Err(Code::OtherContent), "some are not there");
    }

    #[test]
    fn only_pushed_segments_are_committed_and_a_commit_may_be_repeated() {
        let mut attempt = Attempt::default();
        attempt.take(0, ledger(2, 7));
        let held = attempt.bytes();
        assert_eq!(attempt.commit(ledger(2, 8)), Err(Code::LedgerMismatch));
        assert_eq!(attempt.commit(ledger(1, 7)), Err(Code::LedgerMismatch));
        assert_eq!(attempt.commit(ledger(2, 7)), Ok(()));
        assert_eq!(attempt.commit(ledger(2, 7)), Ok(()));
        assert_eq!(attempt.commit(ledger(3, 7)), Err(Code::LedgerMismatch));
        assert!(attempt.bytes() < held);
    }

    #[test]
    fn nothing_comes_after_an_abort() {
        let mut attempt = Attempt::default();
        attempt.take(0, ledger(2, 7));
        assert_eq!(attempt.abort(), Ok(()));
        assert_eq!(attempt.abort(), Ok(()), "said again");
        assert_eq!(attempt.taken(2, 1, nothing), Err(Code::Aborted));
        assert_eq!(attempt.commit(ledger(2, 7)), Err(Code::Aborted));
        assert_eq!(attempt.commit(ledger(0, 0)), Err(Code::Aborted));
        assert_eq!(attempt.ledger(), Ledger::default());
    }

    #[test]
    fn an_abort_after_the_handover_entry_is_refused() {
        let mut attempt = Attempt::default();
        attempt.take(0, ledger(2, 7));
        attempt.hand_over();
        assert_eq!(attempt.abort(), Err(Code::Overloaded));
        assert_eq!(attempt.taken(0, 2, nothing), Err(Code::Overloaded));
        assert_eq!(attempt.commit(ledger(2, 7)), Err(Code::Overloaded));
        assert_eq!(attempt.ledger(), ledger(2, 7));
    }

    #[test]
    fn an_abort_that_comes_after_the_removal_of_the_shuffle_does_not_bring_the_attempt_back() {
        let mut attempt = Attempt::default();
        attempt.take(0, ledger(2, 7));
        attempt.end();
        assert_eq!(attempt.abort(), Err(Code::UnknownShuffle));
        assert_eq!(attempt.taken(0, 2, nothing), Err(Code::TooLate));
        assert_eq!(attempt.commit(ledger(0, 0)), Err(Code::UnknownShuffle));
    }
}
