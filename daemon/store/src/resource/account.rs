// SPDX-License-Identifier: Apache-2.0
//! The metadata of one application.
//!
//! Metadata cannot be written out: an application that took all of it would leave no room for the
//! others until it ends. So each may take a share of it, and no more.

use std::sync::Arc;

use lodestone_model::Code;

use super::budget::{Budget, resize};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the metadata of an application, here and in the budget.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    metadata: AtomicU64,
}

impl Account {
    pub(crate) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            metadata: 0.into(),
        })
    }

    /// Refuses if the application may take no more metadata. It has its share: QUOTA; all together
    /// have all: OVERLOADED.
    pub(crate) fn check(&self) -> Result<(), Code> {
        if self.metadata.load(Relaxed) >= self.budget.metadata_share() {
            return Err(Code::Quota);
        }
        match self.budget.metadata_is_full() {
            true => Err(Code::Overloaded),
            false => Ok(()),
        }
    }

    /// Accounts for metadata that went from `before` bytes to `after`.
    pub(crate) fn resize(&self, before: usize, after: usize) {
        resize(&self.metadata, before, after);
        self.budget.resize_metadata(before, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_has_its_share_leaves_the_rest_to_others() {
        let budget = Arc::new(Budget::new(1600, 75));
        let (greedy, other) = (Account::new(&budget), Account::new(&budget));
        greedy.resize(0, 899);
        assert_eq!(greedy.check(), Ok(()));
        greedy.resize(899, 900);
        assert_eq!(greedy.check(), Err(Code::Quota));
        assert_eq!(other.check(), Ok(()));
        other.resize(0, 300);
        assert_eq!(other.check(), Err(Code::Overloaded), "nothing is left");
        greedy.resize(900, 0);
        assert_eq!(greedy.check(), Ok(()));
        assert_eq!(budget.used(), 300);
    }
}
