// SPDX-License-Identifier: Apache-2.0
//! The shares that applications have of a pool.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use lodestone_model::AppId;

use super::pool::Pool;

/// Above this number of applications those that hold nothing are forgotten.
const APPLICATIONS: usize = 64;

/// What each application may hold.
#[derive(Debug)]
pub(super) struct Shares {
    part: u64,
    pools: Mutex<HashMap<AppId, Pool>>,
}

impl Shares {
    /// Each application may hold one of so many parts.
    pub(super) fn new(part: u64) -> Self {
        Self {
            part,
            pools: Mutex::default(),
        }
    }

    /// The share of an application in `all`.
    pub(super) fn of(&self, all: &Pool, app: &AppId) -> Pool {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if pools.len() >= APPLICATIONS && !pools.contains_key(app) {
            pools.retain(|_, pool| pool.is_in_use());
        }
        let share = || all.share(self.part);
        pools.entry(app.clone()).or_insert_with(share).clone()
    }
}
