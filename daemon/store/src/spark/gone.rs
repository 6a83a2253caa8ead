// SPDX-License-Identifier: Apache-2.0
//! Executors of a living application end one by one, and Spark tells nobody. They keep the room of
//! their names until it is needed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId};

use crate::resource::dirs::HashedDirs;
use crate::resource::locked;
use crate::resource::names::HeldNames;
use crate::state::executors::ExecutorInfo;
use crate::state::store::Store;

impl Store {
    /// Returns the memory of the names of an executor that registers once more as it did before.
    pub(super) fn held_names(
        &self,
        app: &AppId,
        exec: &str,
        attempt: AppAttempt,
        info: &ExecutorInfo,
    ) -> Option<Arc<HeldNames>> {
        let application = self.application(app).ok()?;
        let state = locked(&application.state);
        state.executors.held_names(exec, attempt, info)
    }

    /// Forgets the executors of an application whose directories are all gone, for one that comes.
    /// Returns true if there were any. Asks the disks of the one that comes, which has a turn at
    /// these, and waits for others for a moment only. Holds no lock meanwhile.
    pub(super) fn make_room(&self, app: &AppId, coming: &ExecutorInfo) -> bool {
        let is_gone = |dir: &String| self.resources.is_gone(Path::new(dir));
        // Otherwise the disk of all of them may be away.
        if coming.local_dirs.iter().all(is_gone) {
            return false;
        }
        let Ok(application) = self.application(app) else {
            return false;
        };
        let now_ms = self.now_ms();
        let Some(mut gone) = locked(&application.state).executors.begin_look(now_ms) else {
            return false;
        };
        self.keep_gone(&mut gone, &self.places_of_dirs(&coming.local_dirs));
        let now_ms = self.now_ms();
        let forgotten = locked(&application.state).executors.end_look(now_ms, &gone);
        let bases = gone.iter().flat_map(|(_, dirs)| dirs.bases());
        self.resources.foreign_dirs.close(bases);
        if forgotten > 0 {
            tracing::info!(%app, forgotten, "executors whose directories are gone make room");
        }
        forgotten > 0
    }

    /// Keeps those executors of which no directory is there. The caller has turns at the places
    /// `here`.
    fn keep_gone(&self, executors: &mut Vec<(String, HashedDirs)>, here: &[usize]) {
        executors.retain(|(_, dirs)| {
            let mut dirs = dirs.with_places();
            dirs.all(|(place, dir)| !here.contains(&place) || self.resources.is_gone(dir))
        });
        let mut elsewhere: BTreeMap<usize, Vec<(usize, PathBuf)>> = BTreeMap::new();
        for (number, (_, dirs)) in executors.iter().enumerate() {
            for (place, dir) in dirs.with_places() {
                if !here.contains(&place) {
                    elsewhere
                        .entry(place)
                        .or_default()
                        .push((number, dir.into()));
                }
            }
        }
        let resources = &self.resources;
        let present = resources
            .elsewhere
            .present(&resources.environment, elsewhere);
        let mut number = 0..;
        executors.retain(|_| {
            number
                .next()
                .is_some_and(|number| !present.contains(&number))
        });
    }
}
