// SPDX-License-Identifier: Apache-2.0
//! What one connection may have of a shared pool, and what it has. So the daemon knows whose
//! connections hold the memory for which others wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lodestone_model::AppId;

use super::line::{Hurry, Line};
use super::pool::{Pool, Reserved};
use super::shared_pool::SharedPool;

/// The memory of a pool that one connection may have. A clone is the same.
#[derive(Clone, Debug)]
pub struct ConnectionShare {
    /// What it has, or waits for.
    wanted: Pool,
    /// What it has.
    held: Pool,
    /// The same of the shares of applications: a connection asks for one as a rule.
    of_applications: Arc<Mutex<Vec<Held>>>,
    /// All memory of the pool.
    all: Arc<Line>,
}

/// The line of an application, and what a connection has of its share. That keeps the line: without
/// it the line may be forgotten.
type Held = (Weak<Line>, Pool);

impl ConnectionShare {
    /// The share that a pool of the connection is of the memory of this line.
    pub(crate) fn new(wanted: Pool, all: Arc<Line>) -> Self {
        Self {
            held: wanted.share(1),
            wanted,
            of_applications: Arc::default(),
            all,
        }
    }

    /// What the connection reserves first.
    pub(crate) fn wanted(&self) -> &Pool {
        &self.wanted
    }

    /// For a connection that has memory of the pool, or may have some.
    pub(crate) fn hurry(&self) -> Hurry {
        self.all.hurry()
    }

    /// Memory that the connection has.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.used_bytes()
    }

    /// Counts memory that the connection has got of this pool, for an application. It is given back
    /// before that of the connection's share, which so has room for it.
    pub(crate) fn count(
        &self,
        pool: &SharedPool,
        app: Option<&AppId>,
        bytes: u64,
        reserved: Vec<Reserved>,
    ) -> Vec<Reserved> {
        let application = app.map(|app| pool.of_application(app));
        let of_application = application.and_then(|line| self.held_of(line).try_reserve(bytes));
        let held = self.held.try_reserve(bytes);
        let counted = held.into_iter().chain(of_application);
        counted.chain(reserved).collect()
    }

    /// Returns what the connection has of the share of an application.
    fn held_of(&self, application: Arc<Line>) -> Pool {
        let mut all = self.of_applications();
        all.retain(|(line, held)| held.is_in_use() && line.strong_count() > 0);
        let application = Arc::downgrade(&application);
        match all.iter().find(|(line, _)| line.ptr_eq(&application)) {
            Some((_, held)) => held.clone(),
            None => {
                let held = self.wanted.share(1);
                all.push((application, held.clone()));
                held
            }
        }
    }

    /// True if others wait for what the connection has.
    pub(crate) fn is_wanted(&self) -> bool {
        let is_wanted = |line: &Line, held: &Pool| line.is_wanted() && held.used_bytes() > 0;
        let of_applications = || {
            let all = self.of_applications();
            all.iter().any(|(line, held)| {
                let line = line.upgrade();
                line.is_some_and(|line| is_wanted(&line, held))
            })
        };
        is_wanted(&self.all, &self.held) || of_applications()
    }

    fn of_applications(&self) -> MutexGuard<'_, Vec<Held>> {
        self.of_applications
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_keeps_no_application_of_which_it_has_nothing() {
        const BYTES: u64 = 64 << 10;
        let pool = SharedPool::new(BYTES);
        let share = pool.connection_share(1);
        let apps = ["one", "other", "third"].map(|app| AppId::new(app).unwrap());
        for app in &apps {
            drop(share.count(&pool, Some(app), BYTES, Vec::new()));
            assert_eq!(
                Arc::strong_count(&pool.of_application(app)),
                2,
                "the pool's"
            );
        }
        assert_eq!(share.of_applications().len(), 1, "the last one");
    }
}
