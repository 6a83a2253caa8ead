// SPDX-License-Identifier: Apache-2.0
//! What a store has of each application, for operators.

use std::cmp::Reverse;
use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId};

use crate::resource::{locked, reading};
use crate::state::application::Application;
use crate::state::store::Store;

/// What a store has of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The application.
    pub app: AppId,
    /// Its attempt.
    pub attempt: AppAttempt,
    /// Shuffles whose originals executors have.
    pub merged_shuffles: u32,
    /// Shuffles that only services have.
    pub remote_shuffles: u32,
    /// Bytes of all its segments.
    pub bytes: u64,
    /// Bytes of its segments that are only in memory.
    pub unwritten_bytes: u64,
    /// When its lease ends, if its driver does not renew it.
    pub lease_left_ms: Option<u64>,
}

impl Store {
    /// Returns the applications, those with most bytes first, and how many there are in all.
    pub fn holdings(&self, most: usize) -> (Vec<Holding>, usize) {
        let known: Vec<(AppId, Arc<Application>)> = reading(&self.applications)
            .iter()
            .map(|(id, application)| (id.clone(), Arc::clone(application)))
            .collect();
        let now_ms = self.now_ms();
        let mut all: Vec<Holding> = known
            .into_iter()
            .map(|(app, application)| application.holding(app, now_ms))
            .collect();
        let count = all.len();
        all.sort_by_key(|one| Reverse(one.bytes));
        all.truncate(most);
        (all, count)
    }
}

impl Application {
    fn holding(&self, app: AppId, now_ms: u64) -> Holding {
        let (attempt, lease_until_ms) = {
            let state = locked(&self.state);
            (state.attempt, state.lease_until_ms)
        };
        let mut holding = Holding {
            app,
            attempt,
            merged_shuffles: 0,
            remote_shuffles: 0,
            bytes: 0,
            unwritten_bytes: 0,
            lease_left_ms: lease_until_ms.map(|until_ms| until_ms.saturating_sub(now_ms)),
        };
        for generation in self.generations() {
            match generation.kind().has_originals() {
                true => holding.merged_shuffles += 1,
                false => holding.remote_shuffles += 1,
            }
            for partition in generation.all_partitions() {
                holding.bytes += partition.bytes_hint();
                holding.unwritten_bytes += partition.tail_hint() as u64;
            }
        }
        holding
    }
}
