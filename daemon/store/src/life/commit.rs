// SPDX-License-Identifier: Apache-2.0
//! Commit and abort: the end of a map attempt.

use std::sync::Arc;

use lodestone_model::{Code, Ledger, MapId, MapIndex, Refusal, ShuffleKey};
use lodestone_planted::{self as planted, Bug};

use crate::resource::reading;
use crate::resource::timed_mutex::{AbortWaits, Wait};
use crate::state::attempts::{AttemptId, Attempts, ToAbort};
use crate::state::generation::Generation;
use crate::state::store::Store;

impl Store {
    /// Shows an attempt to readers, if its ledger here is the ledger of what it pushed. A segment
    /// that was dropped meanwhile, because it has an original and could not be written, counts as
    /// pushed.
    pub fn commit_map(
        &self,
        key: &ShuffleKey,
        map_index: MapIndex,
        map_id: MapId,
        pushed: Ledger,
    ) -> Result<(), Refusal> {
        let (generation, id) = self.attempt_of(key, map_index, map_id)?;
        let attempts = generation.attempts()?;
        let found = attempts.find(id);
        let Some(attempt) = found.map_err(|code| generation.refuse(code))? else {
            // A removal takes the attempts: they do not differ from what was pushed.
            generation.check_readable(&reading(&generation.partitions))?;
            return match pushed.segments {
                0 => Ok(()),
                _ => Err(mismatch(&generation, id, pushed, Ledger::default())),
            };
        };
        if planted::is(Bug::OtherAttemptRefused) && attempts.shows_other(id) {
            return Err(mismatch(&generation, id, pushed, Ledger::default()));
        }
        let caller = Wait::Question.into();
        let outcome = attempts.change_for(&caller, &generation.account, &attempt, |attempt| {
            let held = attempt.ledger();
            let pushed = match planted::is(Bug::LedgerUnchecked) {
                true => held,
                false => pushed,
            };
            let committed = attempt.commit(pushed);
            // Under the attempt's lock: an abort that comes now hides it again.
            if committed.is_ok() {
                attempts.show(id);
            }
            (committed, held)
        });
        let (committed, held) = outcome.map_err(|code| generation.refuse(code))?;
        committed.map_err(|code| match code {
            Code::LedgerMismatch => mismatch(&generation, id, pushed, held),
            code => generation.refuse(code),
        })
    }

    /// Drops the segments of an attempt, and takes no more of it.
    pub fn abort_map(
        &self,
        key: &ShuffleKey,
        map_index: MapIndex,
        map_id: MapId,
    ) -> Result<(), Refusal> {
        let (generation, id) = self.attempt_of(key, map_index, map_id)?;
        let attempts = generation.attempts()?;
        let aborted = self.abort(&generation, attempts, id);
        aborted.map_err(|code| generation.refuse(code))
    }

    fn abort(
        &self,
        generation: &Generation,
        attempts: &Attempts,
        id: AttemptId,
    ) -> Result<(), Code> {
        let account = &generation.account;
        let is_untouched = match attempts.open_to_abort(account, id, generation.num_maps())? {
            ToAbort::Nothing => true,
            ToAbort::Rest => false,
            ToAbort::Attempt(attempt) => {
                attempts.change_for(&Wait::Abort.into(), account, &attempt, |attempt| {
                    let is_untouched = attempt.is_untouched();
                    attempt.abort()?;
                    attempts.hide(id);
                    Ok(is_untouched)
                })??
            }
        };
        // Drivers send an abort to all services of a shuffle: most have nothing of most attempts.
        if is_untouched || planted::is(Bug::AbortedKept) {
            return Ok(());
        }
        // A partition that cannot be changed now must not keep the space of the others.
        let partitions = generation.all_partitions().into_iter();
        let waits = AbortWaits::default();
        partitions
            .map(|partition| partition.abort(&self.resources, &waits, id))
            .fold(Ok(()), Result::and)
    }

    fn attempt_of(
        &self,
        key: &ShuffleKey,
        map_index: MapIndex,
        map_id: MapId,
    ) -> Result<(Arc<Generation>, AttemptId), Refusal> {
        let generation = self.generation(key, Code::UnknownShuffle)?;
        let maps = generation.num_maps();
        if map_index.0 >= maps {
            return Err(Code::Malformed.because(format!("map index {map_index} of {maps} maps")));
        }
        Ok((generation, (map_index, map_id)))
    }
}

fn mismatch(generation: &Generation, id: AttemptId, pushed: Ledger, held: Ledger) -> Refusal {
    let (map_index, map_id) = id;
    let shuffle = &generation.key;
    let (said, has) = (pushed.segments, held.segments);
    let detail = format!(
        "attempt {map_id} of map {map_index} of {shuffle} pushed {said} segments, {has} are held"
    );
    tracing::warn!(detail, ?pushed, ?held, "a map attempt does not commit");
    Code::LedgerMismatch.because(detail)
}
