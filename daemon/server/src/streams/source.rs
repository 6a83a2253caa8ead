// SPDX-License-Identifier: Apache-2.0
//! What a stream is made of, and the way from one of its items to bytes: the item is found in the
//! store, and then its files are opened.

use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Code, Refusal, ShuffleKey};
use lodestone_store::{ChunkData, FoundChunk, Store, Wait};

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

    /// True for a block that Spark's own client requests, and cannot read elsewhere.
    pub(crate) fn is_sparks_own(&self) -> bool {
        let item = self.listed.source.items.get(self.index);
        matches!(
            item.as_deref(),
            Some(StreamItem::Original { .. } | StreamItem::Rdd { .. })
        )
    }

    /// Opens the item, if its bytes are in memory or at one of these places.
    pub fn open_at(&self, wait: Wait, places: &[usize], store: &Store) -> Opened {
        let found = self.find(wait, store);
        let needed = match &found {
            Ok(Found::Merged(chunk)) => chunk.places(),
            Ok(Found::Foreign(places)) => places.clone(),
            Err(_) => Vec::new(),
        };
        if !needed.iter().all(|place| places.contains(place)) {
            return Opened::Elsewhere(needed);
        }
        let opened = found.and_then(|found| self.open(wait, found, store));
        let is_busy = |refusal: &Refusal| refusal.code == Code::Overloaded;
        match wait == Wait::Never && opened.as_ref().is_err_and(is_busy) {
            true => Opened::Elsewhere(needed),
            false => Opened::Here(opened, needed),
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
        match source.items.get(self.index).as_deref() {
            Some(StreamItem::Segments {
                shuffle,
                generation,
                reduce,
                slots,
            }) => store
                .find_segments(wait, &key(*shuffle, *generation), *reduce, slots)
                .map(Found::Merged),
            Some(StreamItem::Merged {
                shuffle,
                generation,
                reduce,
                chunk,
            }) => store
                .find_chunk(wait, &key(*shuffle, *generation), *reduce, *chunk)
                .map(Found::Merged),
            Some(StreamItem::Original { shuffle, map, .. }) => {
                let places = store.places_of_original(app, &source.exec, *shuffle, *map);
                Ok(Found::Foreign(places))
            }
            Some(StreamItem::Rdd { rdd, split }) => {
                let places = store.places_of_rdd_block(app, &source.exec, *rdd, *split);
                Ok(Found::Foreign(places))
            }
            None => Err(Code::Malformed.because(format!("no chunk {} in the stream", self.index))),
        }
    }

    /// Opens the files of what was found. Blocks as long as their disks do; a caller that must not
    /// wait must have found bytes in memory only.
    fn open(&self, wait: Wait, found: Found, store: &Store) -> Result<ChunkData, Refusal> {
        let Source { app, exec, .. } = &self.listed.source;
        match (found, self.listed.source.items.get(self.index).as_deref()) {
            (Found::Merged(chunk), _) => chunk.open(wait, store),
            (
                Found::Foreign(_),
                Some(StreamItem::Original {
                    shuffle,
                    map,
                    reduces,
                }),
            ) => store.original_blocks(app, exec, *shuffle, *map, reduces.clone()),
            (Found::Foreign(_), Some(StreamItem::Rdd { rdd, split })) => {
                store.rdd_block(app, exec, *rdd, *split)
            }
            (Found::Foreign(_), _) => Err(Code::Internal.because("no block of an executor")),
        }
    }
}

/// An item of a stream that was to be opened.
#[derive(Debug)]
pub enum Opened {
    /// The item, or the reason why there is none, and the places where its files are.
    Here(Result<ChunkData, Refusal>, Vec<usize>),
    /// It is at these places; at none if another thread holds it up for a moment. Only a thread
    /// that may wait for them opens it.
    Elsewhere(Vec<usize>),
}

/// Where the bytes of a chunk are.
#[derive(Debug)]
enum Found {
    /// In the store's memory or files.
    Merged(FoundChunk),
    /// In files of an executor, which are not looked for yet, on the disks at these places.
    Foreign(Vec<usize>),
}
