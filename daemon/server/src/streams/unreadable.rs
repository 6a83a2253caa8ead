// SPDX-License-Identifier: Apache-2.0
//! Items whose bytes the disk did not return after a part of them was sent: no answer can say so
//! any more, and the connection breaks. For a while, requests for the item get an error instead of
//! a broken connection. After that the disk is asked again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use lodestone_model::{AppAttempt, AppId};

use super::StreamItem;

/// Above this number the oldest name is forgotten: it costs another connection then.
const REMEMBERED: usize = 1024;

/// An item is remembered for this long: its disk may be well again.
const REMEMBERED_MS: u64 = 60_000;

/// The name of an item, which is the same for all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemName {
    pub(crate) app: AppId,
    pub(crate) attempt: Option<AppAttempt>,
    pub(crate) exec: String,
    pub(crate) item: StreamItem,
}

/// The unreadable items of all connections.
#[derive(Debug, Default)]
pub struct Unreadable {
    /// With the time at which each was marked, in the order of these times.
    names: Mutex<VecDeque<(u64, ItemName)>>,
    /// Usually there is none, and every chunk asks.
    any: AtomicBool,
}

impl Unreadable {
    pub(crate) fn mark(&self, name: ItemName, now_ms: u64) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(true, Ordering::Release);
        names.retain(|(_, other)| *other != name);
        names.push_back((now_ms, name));
        if names.len() > REMEMBERED {
            names.pop_front();
        }
    }

    /// The name and the time are asked for only if there is any to compare them with.
    pub(crate) fn has(
        &self,
        name: impl FnOnce() -> Option<ItemName>,
        now_ms: impl FnOnce() -> u64,
    ) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let since_ms = now_ms().saturating_sub(REMEMBERED_MS);
        while names.pop_front_if(|(at_ms, _)| *at_ms < since_ms).is_some() {}
        self.any.store(!names.is_empty(), Ordering::Release);
        name().is_some_and(|name| names.iter().any(|(_, other)| *other == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(split: i32) -> ItemName {
        ItemName {
            app: AppId::new("app-1").unwrap(),
            attempt: None,
            exec: "1".to_owned(),
            item: StreamItem::Rdd { rdd: 1, split },
        }
    }

    #[test]
    fn a_block_that_could_not_be_read_is_tried_again_after_a_minute() {
        let unreadable = Unreadable::default();
        let has = |split, now_ms| unreadable.has(|| Some(name(split)), || now_ms);
        unreadable.mark(name(1), 1_000);
        unreadable.mark(name(2), 31_000);
        assert!(has(1, 61_000) && has(2, 61_000) && !has(3, 61_000));
        assert!(!has(1, 61_001) && has(2, 61_001));
        unreadable.mark(name(2), 90_000);
        assert!(has(2, 150_000));
        assert!(!has(2, 150_001));
    }
}
