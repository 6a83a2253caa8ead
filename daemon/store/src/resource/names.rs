// SPDX-License-Identifier: Apache-2.0
//! Memory for the names of executors' directories. Clients decide how many they register and how
//! long the names are, and the names stay as long as the directories do, also in the file for the
//! next daemon. An executor that cannot register ends: one application must not take the room of
//! all others.

use std::collections::BTreeMap;
use std::sync::Arc;

use lodestone_model::AppId;

use super::locked;
use crate::sync::Mutex;

/// An application with at most this part of the room is a small one: more than a hundred executors
/// with a dozen disks have as much of the room of the default memory.
const SMALL_PART: u64 = 16;

/// Large applications leave this part of the room to small ones.
const LEFT_PART: u64 = 8;

/// All names of a store.
#[derive(Debug)]
pub(crate) struct Names {
    most: u64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: u64,
    by_app: BTreeMap<AppId, u64>,
}

/// The memory of some names of an application, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldNames {
    names: Arc<Names>,
    app: AppId,
    bytes: u64,
}

impl Names {
    /// At most this many bytes.
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: Mutex::default(),
        })
    }

    /// Takes memory for names of an application. A small application may take what is free; a large
    /// one leaves a part of it to others. `None`: there is no room for them.
    pub(crate) fn hold(self: &Arc<Self>, app: &AppId, bytes: u64) -> Option<HeldNames> {
        self.hold_if(app, bytes, |of_app, all| {
            let may_be_used = match of_app <= self.most / SMALL_PART {
                true => self.most,
                false => self.most_of_large(),
            };
            all <= may_be_used
        })
    }

    /// Takes memory for names that an earlier daemon held: whatever their order is, all of them get
    /// in again if this daemon has as much memory.
    pub(crate) fn hold_again(self: &Arc<Self>, app: &AppId, bytes: u64) -> Option<HeldNames> {
        self.hold_if(app, bytes, |of_app, all| {
            of_app <= self.most_of_large() && all <= self.most
        })
    }

    fn most_of_large(&self) -> u64 {
        self.most - self.most / LEFT_PART
    }

    /// `may` sees what the application and all of them would have.
    fn hold_if(
        self: &Arc<Self>,
        app: &AppId,
        bytes: u64,
        may: impl FnOnce(u64, u64) -> bool,
    ) -> Option<HeldNames> {
        let mut held = locked(&self.held);
        let of_app = held.by_app.get(app).copied().unwrap_or_default() + bytes;
        if !may(of_app, held.all + bytes) {
            return None;
        }
        held.all += bytes;
        held.by_app.insert(app.clone(), of_app);
        Some(HeldNames {
            names: Arc::clone(self),
            app: app.clone(),
            bytes,
        })
    }
}

impl Drop for HeldNames {
    fn drop(&mut self) {
        let mut held = locked(&self.names.held);
        held.all -= self.bytes;
        if let Some(of_app) = held.by_app.get_mut(&self.app) {
            *of_app -= self.bytes;
            if *of_app == 0 {
                held.by_app.remove(&self.app);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str) -> AppId {
        AppId::new(name).unwrap()
    }

    #[test]
    fn a_large_application_leaves_an_eighth_of_the_room_and_a_small_one_takes_what_is_free() {
        let names = Names::new(160);
        let small = names.hold(&app("small"), 5).unwrap();
        assert!(names.hold(&app("large"), 136).is_none());
        let large = names.hold(&app("large"), 135).unwrap();
        assert!(names.hold(&app("another"), 11).is_none());
        let another = names.hold(&app("another"), 10).unwrap();
        let more = names.hold(&app("small"), 5).unwrap();
        assert!(names.hold(&app("small"), 1).is_none(), "it is no small one");
        assert!(names.hold(&app("newcomer"), 6).is_none(), "all of it");
        drop((small, large, another, more));
        assert!(
            names.hold(&app("another"), 140).is_some(),
            "nearly all of it"
        );
        let held = locked(&names.held);
        assert_eq!((held.all, held.by_app.len()), (0, 0));
    }

    #[test]
    fn names_of_an_earlier_daemon_fit_in_any_order() {
        let names = Names::new(160);
        let before = [("a", 140), ("b", 10), ("c", 10)];
        let hold = |(name, bytes)| names.hold(&app(name), bytes);
        assert!(before.map(hold).iter().all(Option::is_some));
        let again = |(name, bytes)| names.hold_again(&app(name), bytes);
        let mut after = before;
        after.reverse();
        let held = after.map(again);
        assert!(held.iter().all(Option::is_some));
        assert!(names.hold_again(&app("d"), 1).is_none(), "all of it");
        drop(held);
        assert!(
            names.hold_again(&app("a"), 141).is_none(),
            "an eighth of it"
        );
    }
}
