// SPDX-License-Identifier: Apache-2.0
//! The handover of a daemon that was stopped, and not killed.

use std::collections::BTreeMap;

use lodestone_model::Mode;
use lodestone_wire::extension::ShuffleAddress;

use super::application::FIRST_LEASE_MS;
use super::refusal::{Judged, breach};
use super::{Application, Model};

/// Remote shuffles, with the name of the daemon that had them.
#[derive(Debug)]
pub(super) struct Left {
    incarnation: i64,
    applications: BTreeMap<String, Application>,
    /// Nothing went wrong: the next daemon must take over all of it.
    is_sure: bool,
}

impl Model {
    /// The daemon was stopped; `was_calm`: nothing failed meanwhile.
    pub fn stop(&mut self, was_calm: bool) {
        let mut applications = std::mem::take(&mut self.applications);
        for application in applications.values_mut() {
            application
                .shuffles
                .retain(|_, shuffle| shuffle.mode == Mode::Remote);
            application.removed.clear();
        }
        applications.retain(|_, application| !application.shuffles.is_empty());
        if !applications.is_empty() {
            self.left.push(Left {
                incarnation: self.incarnation,
                applications,
                is_sure: was_calm,
            });
        }
        self.end();
    }

    /// Returns true if there is a handover for the next daemon.
    pub fn leaves_something(&self) -> bool {
        !self.left.is_empty()
    }

    /// A daemon failed to start, or was killed meanwhile: the handover may have been used up.
    pub fn doubt_left(&mut self) {
        for left in &mut self.left {
            left.is_sure = false;
        }
    }

    /// Returns whether a daemon with this incarnation takes over a handover, and if so, whether all
    /// of it.
    pub(super) fn go_on(
        &mut self,
        incarnation: i64,
        now_ms: u64,
        is_troubled: bool,
    ) -> Judged<Option<bool>> {
        if is_troubled {
            self.doubt_left();
        }
        let found = self
            .left
            .iter()
            .position(|left| left.incarnation == incarnation);
        let taken = found.map(|at| self.left.remove(at));
        if taken.is_none() && self.left.iter().any(|left| left.is_sure) {
            return breach("the handover of a stopped daemon was not taken over");
        }
        // A daemon that could not look may have left it to the next one. One that could has removed
        // it.
        self.left.retain(|_| is_troubled);
        let Some(left) = taken else {
            return Ok(None);
        };
        let is_sure = left.is_sure;
        self.applications = left.applications;
        for application in self.applications.values_mut() {
            application.lease_until_ms = now_ms + application.lease_ms.max(FIRST_LEASE_MS);
        }
        Ok(Some(is_sure))
    }

    /// A shuffle that could not be handed over, or not be taken over, is not there.
    pub fn lost(&mut self, key: &ShuffleAddress) {
        let name = key.shuffle.app.as_str();
        if let Some(application) = self.applications.get_mut(name) {
            application.shuffles.remove(&key.shuffle.shuffle);
            if application.shuffles.is_empty() {
                self.applications.remove(name);
            }
        }
    }
}
