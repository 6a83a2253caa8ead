// SPDX-License-Identifier: Apache-2.0
//! The map attempts of a generation.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use lodestone_model::{Code, MapId, MapIndex};

use super::attempt::Attempt;
use crate::resource::account::Account;
use crate::resource::timed_mutex::{Caller, ShutdownDeadline, TimedMutex, Wait};
use crate::resource::{locked, reading, writing};
use crate::sync::{Mutex, RwLock, RwLockReadGuard};

/// Attempts of one generation. A map task is tried a few times; a number far beyond that is an
/// error of the caller.
const ATTEMPTS_PER_MAP: usize = 64;

/// Attempts of one generation that are aborted. Clients choose the number of maps, and so how many
/// attempts there may be. A driver aborts attempts of failed tasks one after another: of a shuffle
/// with so many of them nothing is left to be saved.
const ABORTED_MAX: usize = 1 << 18;

/// Memory of an attempt of which only the name is known.
const NAME_BYTES: usize = 40;

/// Which map, and which try.
pub(crate) type AttemptId = (MapIndex, MapId);

#[derive(Debug, Default)]
pub(crate) struct Attempts {
    all: Mutex<All>,
    /// The attempts that committed, which readers see.
    committed: RwLock<HashSet<AttemptId>>,
}

#[derive(Debug, Default)]
struct All {
    by_id: BTreeMap<AttemptId, Arc<TimedMutex<Attempt>>>,
    /// Attempts that were aborted before anything of them came, or in an earlier daemon. A push
    /// that is still on its way is refused, which takes no more than the name.
    aborted: BTreeSet<AttemptId>,
    /// Nothing more is taken, and requests get this code: the shuffle was removed, or handed over.
    ended: Option<Code>,
}

/// What there is to be aborted of an attempt.
#[derive(Debug)]
pub(crate) enum ToAbort {
    /// It is known.
    Attempt(Arc<TimedMutex<Attempt>>),
    /// Segments, if any: it was aborted before.
    Rest,
    /// Nothing of it ever came.
    Nothing,
}

impl All {
    fn check_open(&self) -> Result<(), Code> {
        self.ended.map_or(Ok(()), Err)
    }

    /// Refuses one more attempt.
    fn check_room(&self, num_maps: u32) -> Result<(), Code> {
        let known = self.by_id.len() + self.aborted.len();
        match known < num_maps as usize * ATTEMPTS_PER_MAP {
            true => Ok(()),
            false => Err(Code::Overloaded),
        }
    }
}

impl Attempts {
    /// Returns the attempt, if anything of it was pushed. An error if it was aborted before that.
    pub(crate) fn find(&self, id: AttemptId) -> Result<Option<Arc<TimedMutex<Attempt>>>, Code> {
        let all = locked(&self.all);
        match all.aborted.contains(&id) {
            true => Err(Code::Aborted),
            false => Ok(all.by_id.get(&id).cloned()),
        }
    }

    /// Returns the attempt, a new one if it is not known and the application may have more.
    pub(crate) fn open(
        &self,
        account: &Account,
        id: AttemptId,
        num_maps: u32,
    ) -> Result<Arc<TimedMutex<Attempt>>, Code> {
        let mut all = locked(&self.all);
        all.check_open()?;
        if let Some(known) = all.by_id.get(&id) {
            return Ok(Arc::clone(known));
        }
        if all.aborted.contains(&id) {
            return Err(Code::Aborted);
        }
        account.check()?;
        all.check_room(num_maps)?;
        let attempt = Attempt::default();
        account.resize(0, attempt.bytes());
        let attempt = Arc::new(TimedMutex::new(attempt));
        all.by_id.insert(id, Arc::clone(&attempt));
        Ok(attempt)
    }

    /// Returns what is to be aborted. Remembers an attempt that is not known, so that nothing of it
    /// is taken from now on. An application without memory for this has none for a push of the
    /// attempt either.
    pub(crate) fn open_to_abort(
        &self,
        account: &Account,
        id: AttemptId,
        num_maps: u32,
    ) -> Result<ToAbort, Code> {
        let mut all = locked(&self.all);
        all.check_open()?;
        if let Some(known) = all.by_id.get(&id) {
            return Ok(ToAbort::Attempt(Arc::clone(known)));
        }
        if all.aborted.contains(&id) {
            return Ok(ToAbort::Rest);
        }
        account.check()?;
        all.check_room(num_maps)?;
        if all.aborted.len() >= ABORTED_MAX {
            return Err(Code::Overloaded);
        }
        account.resize(0, NAME_BYTES);
        all.aborted.insert(id);
        Ok(ToAbort::Nothing)
    }

    /// Changes an attempt, and the memory that is accounted for it.
    pub(crate) fn change<T>(
        &self,
        account: &Account,
        attempt: &TimedMutex<Attempt>,
        change: impl FnOnce(&mut Attempt) -> T,
    ) -> Result<T, Code> {
        self.change_for(&Wait::InTime.into(), account, attempt, change)
    }

    /// Changes an attempt, if the caller may wait until it is free, or it is free.
    pub(crate) fn change_for<T>(
        &self,
        caller: &Caller<'_>,
        account: &Account,
        attempt: &TimedMutex<Attempt>,
        change: impl FnOnce(&mut Attempt) -> T,
    ) -> Result<T, Code> {
        // A thread that panicked here may have left ledger and partitions different: such an
        // attempt never commits.
        let mut attempt = attempt.lock_for(caller)?;
        let before = attempt.bytes();
        let outcome = change(&mut attempt);
        account.resize(before, attempt.bytes());
        Ok(outcome)
    }

    pub(crate) fn show(&self, id: AttemptId) {
        writing(&self.committed).insert(id);
    }

    pub(crate) fn hide(&self, id: AttemptId) {
        writing(&self.committed).remove(&id);
    }

    /// Returns true if another attempt of this map is shown.
    pub(crate) fn shows_other(&self, (map, map_id): AttemptId) -> bool {
        let is_other = |(shown, other): &AttemptId| *shown == map && *other != map_id;
        self.shown().iter().any(is_other)
    }

    pub(crate) fn shown(&self) -> RwLockReadGuard<'_, HashSet<AttemptId>> {
        reading(&self.committed)
    }

    /// Returns all attempts for the handover, also those that were aborted. Waits for pushes in
    /// work, with a deadline. Nothing more is taken of any attempt: a later segment would be in a
    /// partition and not in the entry, and the next daemon would take it again when the client
    /// repeats it.
    pub(crate) fn hand_over(
        &self,
        deadline: &ShutdownDeadline,
    ) -> Result<Vec<(AttemptId, Attempt)>, Code> {
        let (all, aborted): (Vec<_>, Vec<_>) = {
            let mut all = locked(&self.all);
            // Refused with OVERLOADED, so that the client retries at the next daemon.
            all.ended = Some(Code::Overloaded);
            let known = all.by_id.iter();
            (
                known.map(|(id, known)| (*id, Arc::clone(known))).collect(),
                all.aborted.iter().copied().collect(),
            )
        };
        let known = all.into_iter().map(|(id, attempt)| {
            let mut attempt = deadline.lock(&attempt)?;
            let entry = attempt.clone();
            attempt.hand_over();
            Ok((id, entry))
        });
        let aborted = aborted.into_iter().map(|id| Ok((id, Attempt::aborted())));
        known.chain(aborted).collect()
    }

    /// Restores an attempt from its entry.
    pub(crate) fn restore(&self, account: &Account, id: AttemptId, attempt: Attempt) {
        if attempt.is_aborted() {
            account.resize(0, NAME_BYTES);
            locked(&self.all).aborted.insert(id);
            return;
        }
        account.resize(0, attempt.bytes());
        if attempt.is_committed() {
            self.show(id);
        }
        let attempt = Arc::new(TimedMutex::new(attempt));
        locked(&self.all).by_id.insert(id, attempt);
    }

    /// Ends all of them: nothing more is taken. Returns them, to be discarded one by one.
    pub(crate) fn end(&self, account: &Account) -> Vec<Arc<TimedMutex<Attempt>>> {
        // The account gives its memory back now.
        *writing(&self.committed) = HashSet::new();
        let mut all = locked(&self.all);
        all.ended = Some(Code::TooLate);
        let aborted = std::mem::take(&mut all.aborted);
        account.resize(aborted.len() * NAME_BYTES, 0);
        std::mem::take(&mut all.by_id).into_values().collect()
    }
}

/// Forgets an attempt of a generation that ends, unless a push of it is at work: false.
pub(crate) fn try_discard(account: &Account, attempt: &TimedMutex<Attempt>) -> bool {
    let attempt = attempt.try_lock_even_if_spoiled();
    attempt
        .map(|mut attempt| {
            account.resize(attempt.bytes(), 0);
            attempt.end();
        })
        .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::budget::Budget;

    fn id(map_id: i64) -> AttemptId {
        (MapIndex(0), MapId(map_id))
    }

    #[test]
    fn a_number_of_maps_that_a_client_makes_up_does_not_lift_the_limit_of_aborted_attempts() {
        let budget = Arc::new(Budget::new(1 << 30, 75));
        let (account, attempts) = (Account::new(&budget), Attempts::default());
        let abort = |map_id| attempts.open_to_abort(&account, id(map_id), i32::MAX as u32);
        for map_id in 0..ABORTED_MAX as i64 {
            assert!(matches!(abort(map_id), Ok(ToAbort::Nothing)), "{map_id}");
        }
        assert_eq!(abort(-1).unwrap_err(), Code::Overloaded);
        assert!(matches!(abort(0), Ok(ToAbort::Rest)), "said again");
        let open = |map_id| attempts.open(&account, id(map_id), 100_000).map(drop);
        assert_eq!(open(0), Err(Code::Aborted));
        assert_eq!(open(-1), Ok(()), "pushes go on");
        assert!(matches!(abort(-1), Ok(ToAbort::Attempt(_))));
        let known = attempts.end(&account);
        assert!(known.iter().all(|attempt| try_discard(&account, attempt)));
        drop(account);
        assert_eq!(budget.used(), 0);
    }
}
