// SPDX-License-Identifier: Apache-2.0
//! The map attempts of a generation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lodestone_model::{Code, MapId, MapIndex};

use super::attempt::Attempt;
use crate::resource::account::Account;
use crate::resource::timed_mutex::{ShutdownDeadline, TimedMutex, Wait};
use crate::resource::{locked, reading, writing};
use crate::sync::{Mutex, RwLock, RwLockReadGuard};

/// Attempts of one generation. A map task is tried a few times; a number far beyond that is an
/// error of the caller.
const ATTEMPTS_PER_MAP: usize = 64;

/// Which map, and which try.
pub(crate) type AttemptId = (MapIndex, MapId);

#[derive(Debug, Default)]
pub(crate) struct Attempts {
    all: Mutex<All>,
    /// The attempts that committed, which readers see.
    committed: RwLock<BTreeSet<AttemptId>>,
}

#[derive(Debug, Default)]
struct All {
    by_id: BTreeMap<AttemptId, Arc<TimedMutex<Attempt>>>,
    /// Nothing more is taken, and requests get this code: the shuffle was removed, or handed over.
    ended: Option<Code>,
}

impl Attempts {
    /// Returns the attempt, if it is known.
    pub(crate) fn find(&self, id: AttemptId) -> Option<Arc<TimedMutex<Attempt>>> {
        locked(&self.all).by_id.get(&id).cloned()
    }

    /// Returns the attempt, a new one if it is not known and the application may have more.
    pub(crate) fn open(
        &self,
        account: &Account,
        id: AttemptId,
        num_maps: u32,
    ) -> Result<Arc<TimedMutex<Attempt>>, Code> {
        self.open_if(account, id, num_maps, || account.check())
    }

    /// Returns the attempt, a new one if it is not known: to abort it must always be possible.
    pub(crate) fn open_to_abort(
        &self,
        account: &Account,
        id: AttemptId,
        num_maps: u32,
    ) -> Result<Arc<TimedMutex<Attempt>>, Code> {
        self.open_if(account, id, num_maps, || Ok(()))
    }

    fn open_if(
        &self,
        account: &Account,
        id: AttemptId,
        num_maps: u32,
        may_be_new: impl FnOnce() -> Result<(), Code>,
    ) -> Result<Arc<TimedMutex<Attempt>>, Code> {
        let mut all = locked(&self.all);
        if let Some(code) = all.ended {
            return Err(code);
        }
        if let Some(known) = all.by_id.get(&id) {
            return Ok(Arc::clone(known));
        }
        may_be_new()?;
        if all.by_id.len() >= num_maps as usize * ATTEMPTS_PER_MAP {
            return Err(Code::Overloaded);
        }
        let attempt = Attempt::default();
        account.resize(0, attempt.bytes());
        let attempt = Arc::new(TimedMutex::new(attempt));
        all.by_id.insert(id, Arc::clone(&attempt));
        Ok(attempt)
    }

    /// Changes an attempt, and the memory that is accounted for it.
    pub(crate) fn change<T>(
        &self,
        account: &Account,
        attempt: &TimedMutex<Attempt>,
        change: impl FnOnce(&mut Attempt) -> T,
    ) -> Result<T, Code> {
        self.change_if(Wait::InTime, account, attempt, change)
    }

    /// Changes an attempt, if the caller may wait until it is free, or it is free.
    pub(crate) fn change_if<T>(
        &self,
        wait: Wait,
        account: &Account,
        attempt: &TimedMutex<Attempt>,
        change: impl FnOnce(&mut Attempt) -> T,
    ) -> Result<T, Code> {
        // A thread that panicked here may have left ledger and partitions different: such an
        // attempt never commits.
        let mut attempt = attempt.lock_if(wait)?;
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

    pub(crate) fn shown(&self) -> RwLockReadGuard<'_, BTreeSet<AttemptId>> {
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
        let all: Vec<_> = {
            let mut all = locked(&self.all);
            // Refused with OVERLOADED, so that the client retries at the next daemon.
            all.ended = Some(Code::Overloaded);
            all.by_id
                .iter()
                .map(|(id, attempt)| (*id, Arc::clone(attempt)))
                .collect()
        };
        all.into_iter()
            .map(|(id, attempt)| {
                let mut attempt = deadline.lock(&attempt)?;
                let entry = attempt.clone();
                attempt.hand_over();
                Ok((id, entry))
            })
            .collect()
    }

    /// Restores an attempt from its entry.
    pub(crate) fn restore(&self, account: &Account, id: AttemptId, attempt: Attempt) {
        account.resize(0, attempt.bytes());
        if attempt.is_committed() {
            self.show(id);
        }
        let attempt = Arc::new(TimedMutex::new(attempt));
        locked(&self.all).by_id.insert(id, attempt);
    }

    /// Ends all of them: nothing more is taken. Returns them, to be discarded one by one.
    pub(crate) fn end(&self) -> Vec<Arc<TimedMutex<Attempt>>> {
        writing(&self.committed).clear();
        let mut all = locked(&self.all);
        all.ended = Some(Code::TooLate);
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
