// SPDX-License-Identifier: Apache-2.0
//! Blocks whose bytes the disk did not give when part of them was sent: no answer can say so any more, and
//! the connection breaks. Whoever asks again is told, and does not lose another connection over it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use lodestone_model::{AppAttempt, AppId};

use super::streams::StreamItem;

/// Past this the one found first is forgotten: it costs another connection then.
const REMEMBERED: usize = 1024;

/// A block, whoever asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ItemName {
    pub(super) app: AppId,
    pub(super) attempt: Option<AppAttempt>,
    pub(super) exec: String,
    pub(super) item: StreamItem,
}

/// The blocks of all connections.
#[derive(Debug, Default)]
pub struct Unreadable {
    names: Mutex<VecDeque<ItemName>>,
    /// There usually is none, and every chunk asks.
    any: AtomicBool,
}

impl Unreadable {
    pub(super) fn mark(&self, name: ItemName) {
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
    pub(super) fn has(&self, name: impl FnOnce() -> Option<ItemName>) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        name().is_some_and(|name| names.contains(&name))
    }
}
