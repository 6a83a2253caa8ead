// SPDX-License-Identifier: Apache-2.0
//! Remove: a shuffle, or an application. Applications whose lease expired: `lease.rs`.

use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Code, GenerationId, Refusal, ShuffleId, ShuffleKey};

use crate::merge;
use crate::resource::home::Home;
use crate::resource::{Resources, locked, reading, writing};
use crate::state::application::{Application, ApplicationState};
use crate::state::generation::{GENERATION_BYTES, Generation, Phase};
use crate::state::store::Store;

/// A generation that is no longer in its application's table.
type Taken = (ShuffleId, Arc<Generation>);

impl Store {
    /// Drops a shuffle: the named generation and older ones, or with `None` the current one. A
    /// tombstone stays, so that late pushes get a code that says that they are late.
    pub fn remove_shuffle(
        &self,
        app: &AppId,
        attempt: AppAttempt,
        shuffle: ShuffleId,
        generation: Option<GenerationId>,
    ) -> Result<(), Refusal> {
        let application = self.application(app)?;
        let removed = {
            let mut state = locked(&application.state);
            let newest = state
                .shuffles
                .get(&shuffle)
                .map(|generation| generation.key.generation)
                .max(state.tombstones.get(&shuffle).copied());
            let Some(generation) = generation.or(newest) else {
                return Ok(());
            };
            let key = ShuffleKey {
                app: app.clone(),
                attempt: Some(attempt),
                shuffle,
                generation,
            };
            state.check_attempt(&key.app, key.attempt)?;
            if newest.is_some_and(|newest| newest > generation) {
                return Err(Code::StaleGeneration.because(format!("{key} has a newer generation")));
            }
            state.bury(shuffle, generation);
            state.shuffles.remove(&shuffle)
        };
        if let Some(generation) = removed {
            generation.remove(&self.resources);
        }
        Ok(())
    }

    /// Drops everything of the application. An application that is not known is dropped already.
    pub fn end_application(&self, app: &AppId, attempt: AppAttempt) -> Result<(), Refusal> {
        let Ok(application) = self.application(app) else {
            return Ok(());
        };
        let known = locked(&application.state).attempt;
        if attempt < known {
            let detail = format!("attempt {known} of {app} is known");
            return Err(Code::StaleAttempt.because(detail));
        }
        self.forget(app, &application, |state| state.attempt <= attempt);
        Ok(())
    }

    /// Drops the application if `still` holds. Returns true if it did.
    pub(super) fn forget(
        &self,
        app: &AppId,
        application: &Arc<Application>,
        still: impl FnOnce(&ApplicationState) -> bool,
    ) -> bool {
        let Some(generations) = application.take(still, |state| {
            state.ended = true;
            self.resources.foreign_dirs.close(state.executors.bases());
            std::mem::take(&mut state.shuffles).into_iter().collect()
        }) else {
            return false;
        };
        {
            let mut applications = writing(&self.applications);
            if applications
                .get(app)
                .is_some_and(|known| Arc::ptr_eq(known, application))
            {
                applications.remove(app);
            }
        }
        self.remove_all(&generations);
        if reading(&self.applications).is_empty() {
            self.resources.pages.release();
        }
        true
    }

    pub(super) fn remove_all(&self, taken: &[Taken]) {
        taken
            .iter()
            .for_each(|(_, generation)| generation.remove(&self.resources));
    }
}

impl Application {
    /// Takes generations out, under the lock, if the application has not ended and `still` holds.
    pub(super) fn take(
        &self,
        still: impl FnOnce(&ApplicationState) -> bool,
        out: impl FnOnce(&mut ApplicationState) -> Vec<Taken>,
    ) -> Option<Vec<Taken>> {
        let mut state = locked(&self.state);
        (!state.ended && still(&state)).then(|| out(&mut state))
    }
}

impl Generation {
    /// Ends pushes and fetches, and removes the files. Chunks that are open stay readable.
    pub(crate) fn remove(&self, resources: &Resources) {
        let removed = {
            let mut partitions = writing(&self.partitions);
            if partitions.phase == Phase::Removed {
                return;
            }
            partitions.phase = Phase::Removed;
            std::mem::take(&mut partitions.by_reduce)
        };
        for (reduce, partition) in &removed {
            partition.remove(resources);
            if let Home::Spark { dirs, key } = self.home.as_ref() {
                merge::unpublish(resources, dirs, key, *reduce);
            }
        }
        self.attempts.remove(&resources.budget);
        self.home.remove(resources);
        resources.budget.resize_metadata(GENERATION_BYTES, 0);
    }
}
