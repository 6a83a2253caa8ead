// SPDX-License-Identifier: Apache-2.0
//! Removed shuffles that an application remembers, to distinguish late pushes from unknown
//! shuffles.

use std::collections::BTreeMap;
use std::sync::Arc;

use lodestone_model::{GenerationId, ShuffleId};

use crate::resource::account::Account;

/// Above this number the lowest (oldest) shuffle ids are forgotten.
const MOST: usize = 65_536;

/// Memory of one.
const BYTES: usize = 32;

/// The newest removed generation of each shuffle.
#[derive(Debug)]
pub(crate) struct Tombstones {
    generations: BTreeMap<ShuffleId, GenerationId>,
    account: Arc<Account>,
}

impl Tombstones {
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self {
            generations: BTreeMap::new(),
            account: Arc::clone(account),
        }
    }

    /// Returns the generation of the shuffle that was removed.
    pub(crate) fn get(&self, shuffle: ShuffleId) -> Option<GenerationId> {
        self.generations.get(&shuffle).copied()
    }

    /// Remembers a removed generation that was here: it leaves more memory than this takes.
    pub(crate) fn put(&mut self, shuffle: ShuffleId, generation: GenerationId) {
        let before = self.bytes();
        self.generations.insert(shuffle, generation);
        if self.generations.len() > MOST {
            self.generations.pop_first();
        }
        self.account.resize_names(before, self.bytes());
    }

    /// Remembers a generation that was never here. If the application has no memory for one more,
    /// another one is forgotten: a client can make up any number of them.
    pub(crate) fn put_unknown(&mut self, shuffle: ShuffleId, generation: GenerationId) {
        let before = self.bytes();
        let is_full = self.account.check().is_err();
        self.put(shuffle, generation);
        if is_full && self.bytes() > before {
            self.generations.pop_first();
            self.account.resize_names(before + BYTES, before);
        }
    }

    /// Forgets a shuffle that begins again.
    pub(crate) fn remove(&mut self, shuffle: ShuffleId) {
        let before = self.bytes();
        self.generations.remove(&shuffle);
        self.account.resize_names(before, self.bytes());
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.account.resize_names(self.bytes(), 0);
        self.generations.clear();
    }

    fn bytes(&self) -> usize {
        self.generations.len() * BYTES
    }
}
