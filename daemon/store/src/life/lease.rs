// SPDX-License-Identifier: Apache-2.0
//! Leases: how long the data of an application stays while its driver is silent.

use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Refusal, ShuffleId};
use lodestone_planted::{self as planted, Bug};

use crate::resource::{locked, reading};
use crate::state::application::{Application, ApplicationState, LONGEST_LEASE_MS};
use crate::state::generation::Generation;
use crate::state::store::Store;

/// Shortest lease that is granted.
const SHORTEST_LEASE_MS: u64 = 10_000;

impl Store {
    /// Renews the application's lease and returns its length.
    pub fn renew_lease(
        &self,
        app: &AppId,
        attempt: AppAttempt,
        ttl_ms: u64,
    ) -> Result<u64, Refusal> {
        let application = self.application(app)?;
        let mut state = locked(&application.state);
        state.check_attempt(app, Some(attempt))?;
        let granted = ttl_ms.clamp(SHORTEST_LEASE_MS, LONGEST_LEASE_MS);
        state.lease_until_ms = Some(self.resources.now_ms() + granted);
        state.lease_ms = granted;
        Ok(granted)
    }

    /// Ends applications whose lease had expired at `by_ms` on the store's clock, and returns them.
    /// Asks no disk; call every few seconds.
    ///
    /// An application whose executors registered with Spark's own protocol, which knows no leases,
    /// loses only the registered shuffles: its original blocks must stay readable.
    pub fn expire_leases(&self, by_ms: u64) -> Vec<AppId> {
        self.end_some(|app, application| {
            let (lease, has_executors, registrations) = {
                let state = locked(&application.state);
                let executors = &state.executors;
                let has_executors = executors.has_dirs();
                (state.lease_until_ms, has_executors, executors.registrations)
            };
            let is_live = lease.is_some_and(|until_ms| until_ms > by_ms);
            if is_live || planted::is(Bug::LeaseIgnored) {
                return false;
            }
            // Looked at again under the lock: a renewal may have come meanwhile, or the first
            // executor, whose registration makes the application a moment before it is in it.
            let unchanged = |state: &ApplicationState| {
                let is_same_lease = state.lease_until_ms == lease;
                is_same_lease && state.executors.registrations == registrations
            };
            match has_executors {
                true => lease.is_some() && self.drop_leased(application, unchanged),
                false => self.forget(app, application, unchanged),
            }
        })
    }

    /// Looks at the directories of executors at this place only, whose disk may hang. Ends
    /// applications that have no lease, and whose executors have had no directory for some time,
    /// and returns them. Call every second, at each place.
    pub fn forget_gone_at(&self, place: usize) -> Vec<AppId> {
        self.end_some(|app, application| {
            let (here, registrations) = {
                let executors = &locked(&application.state).executors;
                (executors.own_at(place), executors.registrations)
            };
            if here.is_empty() {
                return false;
            }
            let mut dirs = here.iter().flat_map(|dirs| dirs.own_at(place));
            let are_gone = dirs.all(|dir| self.resources.is_gone(dir));
            let unchanged = |state: &ApplicationState| {
                state.lease_until_ms.is_none() && state.executors.registrations == registrations
            };
            let are_forgotten = {
                let state = &mut locked(&application.state);
                // A look at other executors than these says nothing.
                if state.executors.registrations == registrations {
                    state.executors.looked(place, are_gone, self.now_ms());
                }
                unchanged(state) && state.executors.are_gone(self.now_ms())
            };
            are_forgotten && self.forget(app, application, unchanged)
        })
    }

    /// Looks at the directories of executors at all places: see [`Store::forget_gone_at`].
    pub fn forget_gone(&self) -> Vec<AppId> {
        let places = 0..self.places_in_use();
        places
            .flat_map(|place| self.forget_gone_at(place))
            .collect()
    }

    fn end_some(&self, ended: impl Fn(&AppId, &Arc<Application>) -> bool) -> Vec<AppId> {
        let applications: Vec<_> = reading(&self.applications)
            .iter()
            .map(|(app, application)| (app.clone(), Arc::clone(application)))
            .collect();
        applications
            .into_iter()
            .filter(|(app, application)| ended(app, application))
            .map(|(app, _)| app)
            .collect()
    }

    /// Drops the registered shuffles if `still` holds, and keeps what Spark's own protocol needs.
    pub(super) fn drop_leased(
        &self,
        application: &Application,
        still: impl FnOnce(&ApplicationState) -> bool,
    ) -> bool {
        application
            .take(still, |state| {
                state.lease_until_ms = None;
                let leased =
                    |_: &ShuffleId, generation: &mut Arc<Generation>| generation.spec.is_some();
                let taken = state.shuffles.extract_if(.., leased);
                taken.map(|(_, generation)| generation).collect()
            })
            .map(|leased| self.discard(leased))
            .is_some()
    }

    /// Prolongs every lease by a time in which the daemon heard no driver.
    pub fn prolong_leases(&self, by_ms: u64) {
        for application in self.all_applications() {
            if let Some(until_ms) = &mut locked(&application.state).lease_until_ms {
                *until_ms += by_ms;
            }
        }
    }
}
