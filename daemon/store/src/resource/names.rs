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

    /// Takes memory for names of an application, which may have as much as it leaves free. `None`:
    /// there is no room for them.
    pub(crate) fn hold(self: &Arc<Self>, app: &AppId, bytes: u64) -> Option<HeldNames> {
        self.hold_if(app, bytes, |of_app, all| {
            of_app <= self.most.saturating_sub(all)
        })
    }

    /// Takes memory for names that an earlier daemon held: whatever their order is, all of them get
    /// in again if this daemon has as much memory.
    pub(crate) fn hold_again(self: &Arc<Self>, app: &AppId, bytes: u64) -> Option<HeldNames> {
        self.hold_if(app, bytes, |of_app, all| {
            of_app <= self.most / 2 && all <= self.most
        })
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
    fn names_that_do_not_fit_leave_the_room_to_others() {
        let names = Names::new(100);
        let first = names.hold(&app("a"), 30).unwrap();
        assert!(names.hold(&app("a"), 21).is_none());
        let more = names.hold(&app("a"), 20).unwrap();
        assert!(names.hold(&app("b"), 26).is_none());
        assert!(names.hold(&app("b"), 25).is_some());
        drop((first, more));
        assert!(names.hold(&app("b"), 50).is_some());
        let held = locked(&names.held);
        assert_eq!((held.all, held.by_app.len()), (0, 0));
    }

    #[test]
    fn names_of_an_earlier_daemon_fit_in_any_order() {
        let names = Names::new(100);
        let before = [("a", 50), ("b", 25), ("c", 12)];
        let hold = |(name, bytes)| names.hold(&app(name), bytes);
        assert!(before.map(hold).iter().all(Option::is_some));
        let again = |(name, bytes)| names.hold_again(&app(name), bytes);
        let mut after = before;
        after.reverse();
        let held = after.map(again);
        assert!(held.iter().all(Option::is_some));
        assert!(names.hold_again(&app("d"), 14).is_none(), "all of it");
        assert!(names.hold_again(&app("a"), 1).is_none(), "half of it");
    }
}
