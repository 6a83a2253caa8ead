// SPDX-License-Identifier: Apache-2.0
//! Items whose bytes the disk did not return after a part of them was sent: no answer can say so
//! any more, and the connection breaks. Later requests for the item get an error instead of a
//! broken connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use lodestone_model::{AppAttempt, AppId};

use super::StreamItem;

/// Above this number the oldest name is forgotten: it costs another connection then.
const REMEMBERED: usize = 1024;

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
    names: Mutex<VecDeque<ItemName>>,
    /// Usually there is none, and every chunk asks.
    any: AtomicBool,
}

impl Unreadable {
    pub(crate) fn mark(&self, name: ItemName) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(true, Ordering::Release);
        if !names.contains(&name) {
            names.push_back(name);
        }
        if names.len() > REMEMBERED {
            names.pop_front();
        }
    }

    /// The name is asked for only if there is any to compare it with.
    pub(crate) fn has(&self, name: impl FnOnce() -> Option<ItemName>) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        name().is_some_and(|name| names.contains(&name))
    }
}
