// SPDX-License-Identifier: Apache-2.0
//! Counters that connections share.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::locked;

/// Occurrences by name.
#[derive(Debug, Default)]
pub struct Counts(Mutex<BTreeMap<String, u64>>);

impl Counts {
    /// So many more.
    pub fn add(&self, name: &str, count: u64) {
        let mut counts = locked(&self.0);
        match counts.get_mut(name) {
            Some(sum) => *sum += count,
            None => {
                counts.insert(name.to_owned(), count);
            }
        }
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<String, u64> {
        locked(&self.0).clone()
    }
}
