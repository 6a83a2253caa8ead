// SPDX-License-Identifier: Apache-2.0
//! Register: a shuffle is made known before its first push.

use std::sync::atomic::Ordering::Relaxed;

use lodestone_model::{Code, Refusal, ShuffleKey, ShuffleSpec, check_name};

use crate::resource::account::APPLICATION_BYTES;
use crate::resource::home::Home;
use crate::resource::reading;
use crate::state::application::FIRST_LEASE_MS;
use crate::state::generation::Generation;
use crate::state::store::Store;

impl Store {
    /// Registers a shuffle before its first push. A repetition with the same numbers changes
    /// nothing. A higher generation or attempt replaces the older one, whose files are removed.
    pub fn register_shuffle(&self, key: &ShuffleKey, spec: ShuffleSpec) -> Result<(), Refusal> {
        let Some(attempt) = key.attempt else {
            return Err(Code::Malformed.because("a shuffle is registered with an attempt"));
        };
        check_name("a format", &spec.format)?;
        self.check_news(key)?;
        // Before the application is made, which may be new.
        if self.resources.budget.metadata_is_full() {
            return Err(Code::Overloaded.because("no memory for another shuffle"));
        }
        self.check_name_of(key)?;
        let number = self.next_home.fetch_add(1, Relaxed);
        let home = Home::ours(key, number, spec.num_maps, self.resources.disks.len());
        let now_ms = self.resources.now_ms();
        let mut replaced = Vec::new();
        let outcome = self.with_application(&key.app, attempt, |state| {
            if attempt < state.attempt {
                let detail = format!("attempt {} of {} is known", state.attempt, key.app);
                return Err(Code::StaleAttempt.because(detail));
            }
            if attempt > state.attempt {
                replaced = state.start_attempt(attempt);
            }
            if state
                .lease_until_ms
                .is_none_or(|until_ms| until_ms <= now_ms)
            {
                state.lease_until_ms = Some(now_ms + FIRST_LEASE_MS);
            }
            let current = state.make_way(key)?;
            if let Some(current) = &current
                && current.key.generation == key.generation
            {
                return same_spec(current, &spec);
            }
            // A shuffle that is replaced frees its memory: no room is needed.
            if current.is_none() && replaced.is_empty() {
                state.check_room()?;
            }
            replaced.extend(current);
            state.start(key, Some(spec.clone()), home);
            Ok(())
        });
        self.discard(replaced);
        outcome
    }
}

impl Store {
    /// Refuses a new application if there are too many: those that are known keep their room.
    fn check_name_of(&self, key: &ShuffleKey) -> Result<(), Refusal> {
        let applications = reading(&self.applications);
        let most = self.resources.budget.applications_most(APPLICATION_BYTES);
        if applications.len() as u64 >= most && !applications.contains_key(&key.app) {
            let detail = format!("{most} applications are known: more need more --memory");
            return Err(Code::Overloaded.because(detail));
        }
        Ok(())
    }
}

fn same_spec(current: &Generation, spec: &ShuffleSpec) -> Result<(), Refusal> {
    if current.spec.as_ref() == Some(spec) {
        return Ok(());
    }
    Err(Code::Malformed.because(format!("{} was registered otherwise", current.key)))
}
