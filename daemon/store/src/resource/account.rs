// SPDX-License-Identifier: Apache-2.0
//! The memory of one application: metadata, and data.
//!
//! Metadata cannot be written out: an application that took all of it would leave no room for the
//! others until it ends. So each may take a share of it, and no more. Several large ones together
//! leave a part to small ones. The application itself counts too: clients make up names.
//!
//! Data has a share as well while there is hardly any room. An application that has it writes its
//! data out itself, and gets QUOTA where no disk takes the data.

use std::sync::Arc;

use lodestone_model::Code;

use super::budget::{Budget, resize};
use super::paged::capacity;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Memory of an application without its shuffles and executors.
pub(crate) const APPLICATION_BYTES: usize = 1024;

/// Counts the metadata of an application, here and in the budget, and its data in memory.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    metadata: AtomicU64,
    /// Memory of the pages of its tails.
    tails: AtomicU64,
    /// Generations of shuffles.
    shuffles: AtomicUsize,
}

impl Account {
    /// The account of a new application.
    pub(crate) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let account = Self {
            budget: Arc::clone(budget),
            metadata: 0.into(),
            tails: 0.into(),
            shuffles: 0.into(),
        };
        account.resize_names(0, APPLICATION_BYTES);
        Arc::new(account)
    }

    /// Refuses if the application may take no more metadata. It has its share: QUOTA; all together
    /// have all: OVERLOADED.
    pub(crate) fn check(&self) -> Result<(), Code> {
        let held = self.metadata.load(Relaxed);
        if held >= self.budget.metadata_share() {
            return Err(Code::Quota);
        }
        match self.budget.has_metadata_for(held) {
            true => Ok(()),
            false => Err(Code::Overloaded),
        }
    }

    /// Accounts for metadata that stays when all data of the application goes.
    pub(crate) fn resize_names(&self, before: usize, after: usize) {
        self.resize(before, after);
        self.budget.resize_names(before, after);
    }

    /// Accounts for metadata that went from `before` bytes to `after`.
    pub(crate) fn resize(&self, before: usize, after: usize) {
        resize(&self.metadata, before, after);
        self.budget.resize_metadata(before, after);
    }

    /// Accounts for a tail that went from `before` bytes to `after`.
    pub(crate) fn resize_tail(&self, before: usize, after: usize) {
        resize(&self.tails, capacity(before), capacity(after));
    }

    pub(crate) fn count_shuffle(&self) {
        if self.shuffles.fetch_add(1, Relaxed) == 0 {
            self.budget.count_tenant();
        }
    }

    pub(crate) fn uncount_shuffle(&self) {
        if self.shuffles.fetch_sub(1, Relaxed) == 1 {
            self.budget.uncount_tenant();
        }
    }

    /// True if hardly any memory is left for data, the application has its share of it, and others
    /// have shuffles here too. An application alone may have all.
    pub(crate) fn has_its_share_of_room(&self) -> bool {
        self.budget.is_nearly_full()
            && self.budget.has_several_tenants()
            && self.tails.load(Relaxed) >= self.budget.tail_share()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.resize_names(APPLICATION_BYTES, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_has_its_share_leaves_the_rest_to_others() {
        const SHARE: usize = 900 * 1024;
        let budget = Arc::new(Budget::new(1600 * 1024, 75));
        let (greedy, other) = (Account::new(&budget), Account::new(&budget));
        greedy.resize(APPLICATION_BYTES, SHARE - 1);
        assert_eq!(greedy.check(), Ok(()));
        greedy.resize(SHARE - 1, SHARE);
        assert_eq!(greedy.check(), Err(Code::Quota));
        assert_eq!(other.check(), Ok(()));
        other.resize(APPLICATION_BYTES, SHARE / 3);
        assert_eq!(other.check(), Err(Code::Overloaded), "nothing is left");
        greedy.resize(SHARE, APPLICATION_BYTES);
        assert_eq!(greedy.check(), Ok(()));
        assert_eq!(budget.used(), (APPLICATION_BYTES + SHARE / 3) as u64);
        other.resize(SHARE / 3, APPLICATION_BYTES);
        drop((greedy, other));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn large_applications_leave_a_part_to_small_ones() {
        let budget = Arc::new(Budget::new(16 << 20, 100));
        let (large, small) = (Account::new(&budget), Account::new(&budget));
        let most = (12 << 20) / 32 * 31;
        large.resize(0, most);
        assert_eq!(large.check(), Err(Code::Overloaded));
        assert_eq!(small.check(), Ok(()));
        large.resize(0, (12 << 20) / 32);
        assert_eq!(small.check(), Err(Code::Overloaded), "nothing is left");
    }
}
