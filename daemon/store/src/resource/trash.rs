// SPDX-License-Identifier: Apache-2.0
//! Files that nobody needs any more, until a thread deletes them, and parts of files, until it
//! punches holes there. If their disk hangs, that thread waits, and no other one does.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, TryLockError};

use lodestone_model::{ReduceId, ShuffleKey};
use lodestone_planted::{self as planted, Bug};

use super::data_files::remove_data_dir;
use super::dirs::{HashedDirs, MergedFile};
use super::foreign_disks::FOREIGN_PLACES;
use super::holes::{Hole, Holes};
use super::{Resources, locked};
use crate::sync::Mutex;

/// Shuffles that wait at one place. The directory of a further one stays until the next daemon
/// removes that of this one; its files in a merge directory stay until the application ends.
const WAITING_MAX: usize = 65_536;

/// Files that are deleted together.
#[derive(Debug)]
pub(crate) enum Garbage {
    /// The directory of a shuffle on one of our disks.
    Dir(PathBuf),
    /// The files of these merged partitions of Spark's own push.
    Merged(HashedDirs, ShuffleKey, Arc<[ReduceId]>),
}

/// By place: the data directories by their number, and then the disks of executors.
#[derive(Debug)]
pub(crate) struct Trash(Vec<Place>);

#[derive(Debug, Default)]
struct Place {
    waiting: Mutex<VecDeque<Garbage>>,
    holes: Holes,
    /// Held by the thread that deletes.
    turn: Mutex<()>,
}

impl Trash {
    pub(crate) fn new(disks: usize) -> Self {
        let places = std::iter::repeat_with(Place::default);
        Self(places.take(disks + FOREIGN_PLACES).collect())
    }

    pub(crate) fn put(&self, place: usize, garbage: Garbage) {
        if let Some(place) = self.0.get(place) {
            let mut waiting = locked(&place.waiting);
            if waiting.len() < WAITING_MAX {
                waiting.push_back(garbage);
            } else {
                tracing::warn!(
                    ?garbage,
                    "files stay on the disk: too many wait to be deleted"
                );
            }
        }
    }

    /// Frees the space of an aborted attempt later.
    pub(crate) fn put_hole(&self, place: usize, hole: Hole) {
        if let Some(place) = self.0.get(place) {
            place.holes.put(hole);
        }
    }

    /// Deletes what waits at the place, and punches holes, unless another thread is at it. Returns
    /// true if it is to be called again soon: the disk takes more holes.
    pub(crate) fn empty(&self, place: usize, resources: &Resources) -> bool {
        let (at, Some(place)) = (place, self.0.get(place)) else {
            return false;
        };
        let _turn = match place.turn.try_lock() {
            Err(TryLockError::WouldBlock) => return false,
            // It protects nothing that a panic could leave half changed.
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Ok(turn) => turn,
        };
        place.work_off(at, resources)
    }

    /// Deletes what waits at the place, and waits for a thread that is at it.
    pub(crate) fn empty_in_turn(&self, place: usize, resources: &Resources) {
        if let Some(one) = self.0.get(place) {
            let _turn = locked(&one.turn);
            one.work_off(place, resources);
        }
    }

    /// True if anything waits at the place, or is being deleted.
    pub(crate) fn has_any(&self, place: usize) -> bool {
        self.0.get(place).is_some_and(|place| {
            let is_at_it = || matches!(place.turn.try_lock(), Err(TryLockError::WouldBlock));
            !locked(&place.waiting).is_empty() || is_at_it()
        })
    }
}

impl Place {
    /// Deletes what waits, and punches some of the holes. Files go first, also those that come
    /// meanwhile. The caller has the turn.
    fn work_off(&self, at: usize, resources: &Resources) -> bool {
        self.delete_all(at, resources);
        let delete_more = || self.delete_all(at, resources);
        self.holes.punch_some(resources, delete_more)
    }

    /// The caller has the turn.
    fn delete_all(&self, at: usize, resources: &Resources) {
        loop {
            let next = locked(&self.waiting).pop_front();
            match next {
                Some(garbage) => garbage.delete(resources, at),
                None => return,
            }
        }
    }
}

impl Garbage {
    fn delete(self, resources: &Resources, place: usize) {
        match self {
            Self::Dir(_) if planted::is(Bug::RemovedFilesKept) => {}
            Self::Dir(path) => {
                // A daemon that ends deletes too, as long as it makes progress.
                remove_data_dir(resources.fs(), &path, &|| resources.disks.count_step());
            }
            Self::Merged(dirs, key, reduces) => {
                for reduce in reduces.iter() {
                    delete_merged(resources, place, &dirs, (&key, *reduce));
                }
            }
        }
    }
}

/// Deletes those files of a merged partition that are at this place.
fn delete_merged(
    resources: &Resources,
    place: usize,
    dirs: &HashedDirs,
    (key, reduce): (&ShuffleKey, ReduceId),
) {
    for which in [MergedFile::Data, MergedFile::Index, MergedFile::Meta] {
        let path = dirs.merged(key, reduce, which);
        if path.place != place {
            continue;
        }
        if let Err(error) = resources.foreign().remove(&path) {
            tracing::debug!(%path, %error, "a file of a merged partition was not removed");
        }
    }
}
