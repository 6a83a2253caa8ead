// SPDX-License-Identifier: Apache-2.0
//! Leases: how long the data of an application stays while its driver is silent.

use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Refusal, ShuffleId};

use crate::resource::{locked, reading};
use crate::state::application::{Application, ApplicationState};
use crate::state::generation::Generation;
use crate::state::store::Store;

/// Shortest and longest lease that is granted.
const LEASE_MS: (u64, u64) = (10_000, 3_600_000);

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
        let granted = ttl_ms.clamp(LEASE_MS.0, LEASE_MS.1);
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
            let (lease, has_executors) = {
                let state = locked(&application.state);
                (state.lease_until_ms, state.executors.has_dirs())
            };
            if lease.is_some_and(|until_ms| until_ms > by_ms) {
                return false;
            }
            // Looked at again under the lock: a renewal may have come meanwhile.
            let unchanged = |state: &ApplicationState| state.lease_until_ms == lease;
            match has_executors {
                true => lease.is_some() && self.drop_leased(application, unchanged),
                false => self.forget(app, application, unchanged),
            }
        })
    }

    /// Ends applications that have no lease, and whose executors have no directory any more, and
    /// returns them. Asks the disks of these directories.
    pub fn forget_gone(&self) -> Vec<AppId> {
        self.end_some(|app, application| {
            let dirs = {
                let state = locked(&application.state);
                match state.lease_until_ms {
                    Some(_) => return false,
                    None => state.executors.all_dirs(),
                }
            };
            let unchanged = |state: &ApplicationState| {
                state.lease_until_ms.is_none() && state.executors.all_dirs() == dirs
            };
            dirs.iter().all(|dir| self.resources.is_gone(dir))
                && self.forget(app, application, unchanged)
        })
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
    fn drop_leased(
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
