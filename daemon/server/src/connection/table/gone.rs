// SPDX-License-Identifier: Apache-2.0
//! What connections have moved that have ended: a page that shows differences of sums needs sums
//! that do not fall.

use std::collections::BTreeMap;

use super::clients::{Client, Moved};
use crate::service::clients::Whose;

/// Applications on hosts that are remembered: more than are listed. Clients choose the names.
const KEPT: usize = 4000;

/// The sums of connections that have ended, by application and host.
#[derive(Debug, Default)]
pub(super) struct Gone {
    sums: BTreeMap<Whose, Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    moved: Moved,
    /// The number of the newest of these connections.
    newest: u64,
}

impl Gone {
    /// Adds what a connection has moved.
    pub(super) fn add(&mut self, client: &Client, number: u64) {
        for (whose, moved) in client.parts() {
            if moved == Moved::default() {
                continue;
            }
            if self.sums.len() >= KEPT && !self.sums.contains_key(&whose) {
                self.forget_the_oldest();
            }
            let sum = self.sums.entry(whose).or_default();
            sum.moved.add(moved);
            sum.newest = sum.newest.max(number);
        }
    }

    fn forget_the_oldest(&mut self) {
        let oldest = self.sums.iter().min_by_key(|(_, sum)| sum.newest);
        if let Some(whose) = oldest.map(|(whose, _)| whose.clone()) {
            self.sums.remove(&whose);
        }
    }

    /// Returns all sums.
    pub(super) fn all(&self) -> Vec<(Whose, Moved)> {
        let each = self.sums.iter();
        each.map(|(whose, sum)| (whose.clone(), sum.moved))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use lodestone_model::AppId;

    use super::*;

    #[test]
    fn names_that_clients_make_up_take_a_bounded_amount_of_memory() {
        let mut gone = Gone::default();
        for number in 0..KEPT as u64 + 10 {
            let client = Client::default();
            client.is_of(&AppId::new(&format!("app-{number}")).unwrap());
            client.gave(1);
            gone.add(&client, number);
        }
        assert_eq!(gone.sums.len(), KEPT);
        let names: Vec<_> = gone
            .all()
            .into_iter()
            .filter_map(|(whose, _)| whose.application)
            .collect();
        assert!(!names.contains(&"app-9".to_owned()), "the oldest ones go");
        assert!(names.contains(&"app-10".to_owned()), "and no others");
    }
}
