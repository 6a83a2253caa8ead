// SPDX-License-Identifier: Apache-2.0
//! What a stream is made of, and the way from one of its items to bytes: the item is found in the
//! store, and then its files are opened.

use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Code, Refusal, ShuffleKey};
use lodestone_planted::{self as planted, Bug};
use lodestone_store::{ChunkData, FoundChunk, FoundOriginal, Store, Wait};

use super::items::Items;
use super::unreadable::ItemName;
use super::{Listed, StreamItem};

/// The content of a stream.
#[derive(Debug)]
pub struct Source {
    /// The application.
    pub app: AppId,
    /// Its attempt, if the request named one.
    pub attempt: Option<AppAttempt>,
    /// The executor that wrote the originals.
    pub exec: String,
    /// The items, in stream order.
    pub items: Items,
}

/// One chunk to be opened and sent.
#[derive(Debug)]
pub struct Job {
    pub(crate) listed: Arc<Listed>,
    pub(crate) index: usize,
}

impl Job {
    /// Returns the application that it belongs to.
    pub(crate) fn app(&self) -> &AppId {
        &self.listed.source.app
    }

    /// Returns the name of the item, which is the same for all clients; `None` if the stream does
    /// not have it.
    pub(crate) fn name(&self) -> Option<ItemName> {
        let source = &self.listed.source;
        Some(ItemName {
            app: source.app.clone(),
            attempt: source.attempt,
            exec: source.exec.clone(),
            item: source.items.get(self.index)?.into_owned(),
        })
    }

    /// True if the connection closes for this refusal. Spark requests the block again then, which
    /// it cannot read elsewhere.
    pub fn closes(&self, refusal: &Refusal) -> bool {
        refusal.code == Code::Overloaded
            && self.is_sparks_own()
            && !planted::is(Bug::NoDescriptorRefused)
    }

    /// True for a block that Spark's own client requests.
    pub(crate) fn is_sparks_own(&self) -> bool {
        match &self.listed.source.items {
            Items::Originals { .. } => true,
            Items::Segments { .. } => false,
            Items::Mixed(items) => matches!(
                items.get(self.index),
                Some(StreamItem::Original { .. } | StreamItem::Rdd { .. })
            ),
        }
    }

    /// Opens the item, if its bytes are in memory or at one of these places. `known`: what was
    /// found of it before.
    pub fn open_at(
        &self,
        wait: Wait,
        places: &[usize],
        known: Option<FoundOriginal>,
        store: &Store,
    ) -> Opened {
        let found = match known {
            Some(known) => Ok(Found::Foreign(known)),
            None => self.find(wait, store),
        };
        let found = match found {
            Ok(found) => found,
            Err(refusal) => return opened_in_time(wait, Err(refusal), Vec::new()),
        };
        let needed = match &found {
            Found::Merged(chunk) => chunk.places(),
            Found::Foreign(original) => original.places(store),
        };
        if !needed.iter().all(|place| places.contains(place)) {
            let found = match found {
                // It may hold memory of the store.
                Found::Merged(_) => None,
                Found::Foreign(original) => Some(original),
            };
            return Opened::Elsewhere(needed, found);
        }
        match found {
            Found::Merged(chunk) => opened_in_time(wait, chunk.open(wait, store), needed),
            Found::Foreign(original) => match original.open_at(store, places) {
                Some(opened) => opened_in_time(wait, opened, vec![original.place()]),
                None => Opened::Elsewhere(original.all_places(), Some(original)),
            },
        }
    }

    /// Finds a block of an executor: `None` if the item is something else, or if there is none.
    pub(crate) fn find_original(&self, store: &Store) -> Option<FoundOriginal> {
        // Merged data is not looked for: that takes locks, and may hold memory of the store.
        if !self.is_sparks_own() {
            return None;
        }
        match self.find(Wait::Never, store) {
            Ok(Found::Foreign(original)) => Some(original),
            _ => None,
        }
    }

    /// Finds the bytes in the store. Asks no disk, and does not look for files of executors.
    fn find(&self, wait: Wait, store: &Store) -> Result<Found, Refusal> {
        let source = &self.listed.source;
        let app = &source.app;
        let key = |shuffle, generation| ShuffleKey {
            app: app.clone(),
            attempt: source.attempt,
            shuffle,
            generation,
        };
        let Some(item) = source.items.get(self.index) else {
            return Err(Code::Malformed.because(format!("no chunk {} in the stream", self.index)));
        };
        match &*item {
            StreamItem::Segments {
                shuffle,
                generation,
                reduce,
                slots,
            } => store
                .find_segments(wait, &key(*shuffle, *generation), *reduce, slots)
                .map(Found::Merged),
            StreamItem::Merged {
                shuffle,
                generation,
                reduce,
                chunk,
            } => store
                .find_chunk(wait, &key(*shuffle, *generation), *reduce, *chunk)
                .map(Found::Merged),
            StreamItem::Original {
                shuffle,
                map,
                reduces,
            } => {
                let output = (*shuffle, *map);
                let found = store.find_original(app, &source.exec, output, reduces.clone());
                found.map(Found::Foreign)
            }
            StreamItem::Rdd { rdd, split } => {
                let found = store.find_rdd_block(app, &source.exec, *rdd, *split);
                found.map(Found::Foreign)
            }
        }
    }
}

/// A thread that must not wait leaves what is held up to another one.
fn opened_in_time(wait: Wait, opened: Result<ChunkData, Refusal>, places: Vec<usize>) -> Opened {
    let is_busy = |refusal: &Refusal| refusal.code == Code::Overloaded;
    match !wait.is_allowed() && opened.as_ref().is_err_and(is_busy) {
        true => Opened::Elsewhere(places, None),
        false => Opened::Here(opened, places),
    }
}

/// An item of a stream that was to be opened.
#[derive(Debug)]
pub enum Opened {
    /// The item, or the reason why there is none, and the places where its files are.
    Here(Result<ChunkData, Refusal>, Vec<usize>),
    /// It is at these places; at none if another thread holds it up for a moment. Only a thread
    /// that may wait for them opens it. A block of an executor need not be found again.
    Elsewhere(Vec<usize>, Option<FoundOriginal>),
}

/// Where the bytes of a chunk are.
#[derive(Debug)]
enum Found {
    /// In the store's memory or files.
    Merged(FoundChunk),
    /// In files of an executor, which are not looked for yet.
    Foreign(FoundOriginal),
}
