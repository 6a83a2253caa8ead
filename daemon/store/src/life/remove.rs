// SPDX-License-Identifier: Apache-2.0
//! Remove: a shuffle, or an application. Applications whose lease expired: `lease.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_model::{
    AppAttempt, AppId, Code, GenerationId, Refusal, ShuffleId, ShuffleKey, spark_id,
};

use crate::resource::{locked, reading, writing};
use crate::state::application::{Application, ApplicationState};
use crate::state::generation::Generation;
use crate::state::removal::Removal;
use crate::state::store::Store;

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
                .max(state.tombstones.get(shuffle));
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
            let removed = state.shuffles.remove(&shuffle);
            match removed {
                Some(_) => state.tombstones.put(shuffle, generation),
                None => state.tombstones.put_unknown(shuffle, generation),
            }
            removed
        };
        self.discard(removed);
        Ok(())
    }

    /// Drops the application, because the driver of this attempt has ended. If executors registered
    /// with Spark's own protocol, they stay until their directories are gone: without Spark's push
    /// they do not name their attempt, which may be a newer one. Nothing is left to drop of an
    /// application that is not known.
    pub fn end_application(&self, app: &AppId, attempt: AppAttempt) -> Result<(), Refusal> {
        let Ok(application) = self.application(app) else {
            return Ok(());
        };
        let known = locked(&application.state).attempt;
        if attempt < known {
            let detail = format!("attempt {known} of {app} is known");
            return Err(Code::StaleAttempt.because(detail));
        }
        let is_its = |state: &ApplicationState| state.attempt <= attempt;
        let is_without_executors =
            |state: &ApplicationState| is_its(state) && !state.executors.has_dirs();
        if !self.forget(app, &application, is_without_executors) {
            self.drop_leased(&application, is_its);
        }
        Ok(())
    }

    /// Drops everything of an application of Spark, of all its attempts and drivers, because its
    /// cluster says that it has ended. An id with the number of a driver is of this driver only.
    /// Returns true if anything was known of it.
    pub fn end_everywhere(&self, id: &str) -> bool {
        let known: Vec<(AppId, Arc<Application>)> = reading(&self.applications)
            .iter()
            .filter(|(app, _)| app.as_str() == id || spark_id(app.as_str()) == id)
            .map(|(app, application)| (app.clone(), Arc::clone(application)))
            .collect();
        let ended = known
            .iter()
            .filter(|(app, application)| self.forget(app, application, |_| true));
        ended.count() > 0
    }

    /// Drops the application if `still` holds. Returns true if it did.
    pub(super) fn forget(
        &self,
        app: &AppId,
        application: &Arc<Application>,
        still: impl FnOnce(&ApplicationState) -> bool,
    ) -> bool {
        let mut bases = Vec::new();
        let Some(generations) = application.take(still, |state| {
            state.ended = true;
            state.tombstones.clear();
            bases = state.executors.bases().map(Path::to_owned).collect();
            std::mem::take(&mut state.shuffles).into_values().collect()
        }) else {
            return false;
        };
        // Their disk may hang: not with the lock of the application.
        let bases = bases.iter().map(PathBuf::as_path);
        self.resources.foreign_dirs.close(bases);
        {
            let mut applications = writing(&self.applications);
            if applications
                .get(app)
                .is_some_and(|known| Arc::ptr_eq(known, application))
            {
                applications.remove(app);
            }
        }
        self.discard(generations);
        if reading(&self.applications).is_empty() {
            self.resources.pages.release();
        }
        true
    }

    /// Ends generations that are in no table any more. Waits for no thread: what one of them works
    /// on is discarded later.
    pub(crate) fn discard(&self, generations: impl IntoIterator<Item = Arc<Generation>>) {
        let removals = generations.into_iter().filter_map(Removal::begin);
        removals.for_each(|removal| self.finish(removal));
    }

    /// Goes on with a removal, now or later.
    pub(crate) fn finish(&self, mut removal: Removal) {
        if !removal.go_on(&self.resources) {
            locked(&self.unfinished).push(removal);
        }
    }

    /// Takes out the shuffles that lost files, as if they had never been registered: the driver
    /// does not register them again, and readers learn that the data is lost.
    fn take_out_lost(&self) {
        for application in self.all_applications() {
            let lost = application.take(
                |_| true,
                |state| {
                    let lost = state.shuffles.extract_if(.., |_, one| one.home.is_lost());
                    lost.map(|(_, generation)| generation).collect()
                },
            );
            self.discard(lost.into_iter().flatten());
        }
    }

    /// Finishes removals that other threads delayed, and removes shuffles that lost files. Asks no
    /// disk; call every few seconds.
    pub fn finish_removals(&self) {
        self.take_out_lost();
        locked(&self.unfinished).retain_mut(|removal| !removal.go_on(&self.resources));
    }

    /// Returns the places of executors' disks with files that nobody needs any more.
    pub fn foreign_places_with_trash(&self) -> Vec<usize> {
        let foreign = self.resources.disks.len()..self.places_in_use();
        let has_any = |place: &usize| self.resources.trash.has_any(*place);
        foreign.filter(has_any).collect()
    }

    /// Deletes these files at one place, also if another thread is at it. Blocks as long as the
    /// disk hangs.
    pub fn empty_trash_at(&self, place: usize) {
        self.resources.trash.empty_in_turn(place, &self.resources);
    }

    /// Deletes the files that nobody needs any more, at all places. Blocks as long as a disk hangs.
    pub fn empty_trash(&self) {
        for place in 0..self.places_in_use() {
            self.resources.trash.empty(place, &self.resources);
        }
    }
}

impl Application {
    /// Takes generations out, under the lock, if the application has not ended and `still` holds.
    pub(super) fn take(
        &self,
        still: impl FnOnce(&ApplicationState) -> bool,
        out: impl FnOnce(&mut ApplicationState) -> Vec<Arc<Generation>>,
    ) -> Option<Vec<Arc<Generation>>> {
        let mut state = locked(&self.state);
        (!state.ended && still(&state)).then(|| out(&mut state))
    }
}
