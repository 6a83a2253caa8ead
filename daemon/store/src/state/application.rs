// SPDX-License-Identifier: Apache-2.0
//! An application: its attempt, its lease, its shuffles, its executors.

use std::collections::BTreeMap;
use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Code, Refusal, ShuffleId, ShuffleKey, ShuffleSpec};

use super::executors::Executors;
use super::generation::{GENERATION_BYTES, Generation};
use super::tombstones::Tombstones;
use crate::resource::account::Account;
use crate::resource::home::Home;
use crate::resource::locked;
use crate::sync::Mutex;

/// Lease that registering a shuffle opens if there is none.
pub(crate) const FIRST_LEASE_MS: u64 = 120_000;

/// Longest lease that is granted.
pub(crate) const LONGEST_LEASE_MS: u64 = 3_600_000;

/// One application and what it owns.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) state: Mutex<ApplicationState>,
}

#[derive(Debug)]
pub(crate) struct ApplicationState {
    pub(crate) attempt: AppAttempt,
    /// True after the application was taken out of the map: a thread that still has it must look it
    /// up again.
    pub(crate) ended: bool,
    /// When the lease expires, on the store's clock.
    pub(crate) lease_until_ms: Option<u64>,
    /// The length that was granted last; a driver renews the lease after a third of it.
    pub(crate) lease_ms: u64,
    /// The executors that registered through Spark's own protocol.
    pub(crate) executors: Executors,
    pub(crate) shuffles: BTreeMap<ShuffleId, Arc<Generation>>,
    pub(crate) tombstones: Tombstones,
    /// The metadata of all its shuffles.
    pub(crate) account: Arc<Account>,
}

impl Application {
    pub(crate) fn generations(&self) -> Vec<Arc<Generation>> {
        locked(&self.state).shuffles.values().cloned().collect()
    }

    pub(crate) fn shuffle_count(&self) -> usize {
        locked(&self.state).shuffles.len()
    }
}

impl ApplicationState {
    pub(crate) fn new(attempt: AppAttempt, account: Arc<Account>) -> Self {
        Self {
            attempt,
            ended: false,
            lease_until_ms: None,
            lease_ms: FIRST_LEASE_MS,
            executors: Executors::default(),
            shuffles: BTreeMap::new(),
            tombstones: Tombstones::new(&account),
            account,
        }
    }

    /// Starts a newer attempt, and returns the generations of the older one, for removal.
    pub(crate) fn start_attempt(&mut self, attempt: AppAttempt) -> Vec<Arc<Generation>> {
        self.attempt = attempt;
        self.tombstones.clear();
        self.executors.forget_merge_dirs();
        std::mem::take(&mut self.shuffles).into_values().collect()
    }

    /// Refuses if this generation cannot be started because one as new is known. Otherwise returns
    /// the older one, for removal, or the very same one.
    pub(crate) fn make_way(&self, key: &ShuffleKey) -> Result<Option<Arc<Generation>>, Refusal> {
        let current = self.shuffles.get(&key.shuffle);
        let newest = current
            .map(|generation| generation.key.generation)
            .max(self.tombstones.get(key.shuffle));
        match newest {
            Some(newest) if newest > key.generation => {
                Err(Code::StaleGeneration.because(format!("{key}: generation {newest} is known")))
            }
            Some(newest) if newest == key.generation && current.is_none() => {
                Err(Code::TooLate.because(format!("{key} was removed")))
            }
            _ => Ok(current.cloned()),
        }
    }

    /// Refuses another shuffle if there is no memory for one more, or not for this application.
    pub(crate) fn check_room(&self) -> Result<(), Refusal> {
        self.account
            .check()
            .map_err(|code| code.because("no memory for another shuffle of the application"))
    }

    /// Refuses another attempt than the current one.
    pub(crate) fn check_attempt(
        &self,
        app: &AppId,
        attempt: Option<AppAttempt>,
    ) -> Result<(), Refusal> {
        match attempt {
            _ if self.ended => Err(unknown_application(app)),
            Some(attempt) if attempt < self.attempt => {
                let detail = format!("attempt {} of {app} is known", self.attempt);
                Err(Code::StaleAttempt.because(detail))
            }
            Some(attempt) if attempt > self.attempt => {
                let detail = format!("attempt {attempt} of {app} was never seen");
                Err(Code::UnknownApplication.because(detail))
            }
            _ => Ok(()),
        }
    }

    /// Starts a generation in place of the one before.
    pub(crate) fn start(
        &mut self,
        key: &ShuffleKey,
        spec: Option<ShuffleSpec>,
        home: Home,
    ) -> Arc<Generation> {
        let key = ShuffleKey {
            attempt: Some(self.attempt),
            ..key.clone()
        };
        let shuffle = key.shuffle;
        let account = Arc::clone(&self.account);
        account.resize(0, GENERATION_BYTES);
        let generation = Arc::new(Generation::new(key, spec, home, account));
        self.tombstones.remove(shuffle);
        self.shuffles.insert(shuffle, Arc::clone(&generation));
        generation
    }
}

pub(super) fn unknown_application(app: &AppId) -> Refusal {
    Code::UnknownApplication.because(format!("application {app} is not known here"))
}
