// SPDX-License-Identifier: Apache-2.0
//! Looks at disks for which the caller has no turn, and which may hang: each has a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::{Environment, is_gone, locked};
use crate::sync::Mutex;

/// A disk that takes longer for all of its directories is not waited for.
const WAIT_MS: u64 = 500;

/// The places that are looked at: there is one look at a time at each.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(Arc<Mutex<BTreeSet<usize>>>);

impl Elsewhere {
    /// Looks at directories, by the place of their disk, of numbered owners. Returns the owners of
    /// which a directory may be there. Waits for half a second at most, for all disks together.
    pub(crate) fn present(
        &self,
        environment: &Environment,
        dirs: BTreeMap<usize, Vec<(usize, PathBuf)>>,
    ) -> BTreeSet<usize> {
        let owners = |dirs: &[(usize, PathBuf)]| dirs.iter().map(|(owner, _)| *owner).collect();
        let mut unknown: BTreeMap<usize, BTreeSet<usize>> = dirs
            .iter()
            .map(|(place, dirs)| (*place, owners(dirs)))
            .collect();
        let (sender, answers) = mpsc::channel();
        for (place, dirs) in dirs {
            self.begin(environment, place, dirs, sender.clone());
        }
        // Answers end with the last thread.
        drop(sender);
        let mut present = BTreeSet::new();
        let until_ms = environment.clock.now_ms() + WAIT_MS;
        loop {
            let left_ms = until_ms.saturating_sub(environment.clock.now_ms());
            let Ok((place, found)) = answers.recv_timeout(Duration::from_millis(left_ms)) else {
                break;
            };
            present.extend::<BTreeSet<_>>(found);
            unknown.remove(&place);
        }
        present.extend(unknown.into_values().flatten());
        present
    }

    /// Does nothing if a look is under way at the place.
    fn begin(
        &self,
        environment: &Environment,
        place: usize,
        dirs: Vec<(usize, PathBuf)>,
        answers: mpsc::Sender<(usize, BTreeSet<usize>)>,
    ) {
        if !locked(&self.0).insert(place) {
            return;
        }
        let (fs, under_way) = (Arc::clone(&environment.fs), Arc::clone(&self.0));
        let look = move || {
            let mut found = BTreeSet::new();
            for (owner, dir) in dirs {
                if !found.contains(&owner) && !is_gone(fs.as_ref(), &dir) {
                    found.insert(owner);
                }
            }
            locked(&under_way).remove(&place);
            // Nobody waits if it took too long.
            let _ = answers.send((place, found));
        };
        let name = format!("look-{place}");
        if let Err(error) = environment.threads.start(name, Box::new(look)) {
            tracing::warn!(%error, "no thread to look at directories of executors");
            locked(&self.0).remove(&place);
        }
    }
}
