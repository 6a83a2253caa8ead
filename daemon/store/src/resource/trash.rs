// SPDX-License-Identifier: Apache-2.0
//! Files that nobody needs any more, until a thread deletes them, and parts of files, until it
//! punches holes there. If their disk hangs, that thread waits, and no other one does.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use lodestone_model::{ReduceId, ShuffleKey};

use super::dirs::{HashedDirs, MergedFile};
use super::flow::Stalled;
use super::foreign_disks::FOREIGN_PLACES;
use super::home::{DataFile, Home};
use super::incarnation::remove_data_dir;
use super::{Resources, locked};
use crate::sync::Mutex;

/// Shuffles that wait at one place. The directory of a further one stays until the next daemon
/// removes that of this one; its files in a merge directory stay until the application ends.
const WAITING_MAX: usize = 65_536;

/// Holes that wait at one place. The space of further ones is freed with their files.
const HOLES_MAX: usize = 65_536;

/// So many holes are punched before the next files are deleted.
const HOLES_AT_ONCE: usize = 64;

/// So many are punched before the thread of the place does something else.
const HOLES_OF_PASS: usize = 4_096;

/// The bytes of an aborted attempt in one file.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) home: Arc<Home>,
    pub(crate) file: DataFile,
    pub(crate) reduce: ReduceId,
    /// Offset and length.
    pub(crate) bytes: (u64, u64),
}

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
    holes: Mutex<VecDeque<Hole>>,
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
            let mut holes = locked(&place.holes);
            if holes.len() < HOLES_MAX {
                holes.push_back(hole);
            }
        }
    }

    /// Deletes what waits at the place, unless another thread is at it.
    pub(crate) fn empty(&self, place: usize, resources: &Resources) {
        let (at, Some(place)) = (place, self.0.get(place)) else {
            return;
        };
        if let Ok(_turn) = place.turn.try_lock() {
            place.work_off(at, resources);
        }
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
            !locked(&place.waiting).is_empty() || place.turn.try_lock().is_err()
        })
    }
}

impl Place {
    /// Deletes what waits, and punches some of the holes. Files go first, also those that come
    /// meanwhile. The caller has the turn.
    fn work_off(&self, at: usize, resources: &Resources) {
        self.delete_all(at, resources);
        for _ in 0..HOLES_OF_PASS / HOLES_AT_ONCE {
            let holes: Vec<_> = {
                let mut holes = locked(&self.holes);
                let count = holes.len().min(HOLES_AT_ONCE);
                holes.drain(..count).collect()
            };
            let mut holes = holes.into_iter();
            let busy = holes.find(|hole| !hole.punch(resources));
            if let Some(busy) = busy {
                // The disk takes no more writes now: later.
                let mut waiting = locked(&self.holes);
                holes.rev().for_each(|hole| waiting.push_front(hole));
                waiting.push_front(busy);
                return;
            }
            self.delete_all(at, resources);
            if locked(&self.holes).is_empty() {
                return;
            }
        }
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

impl Hole {
    /// Returns false if the disk has no turn for it now.
    fn punch(&self, resources: &Resources) -> bool {
        let (reduce, bytes) = (self.reduce, self.bytes);
        match self.home.punch(resources, self.file, reduce, bytes) {
            Err(error) if Stalled::is(&error) || error.kind() == ErrorKind::ResourceBusy => false,
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let file = self.file;
                tracing::warn!(
                    ?file, %reduce, ?bytes, %error, "the space of an aborted attempt was not freed"
                );
                true
            }
            _ => true,
        }
    }
}

impl Garbage {
    fn delete(self, resources: &Resources, place: usize) {
        match self {
            Self::Dir(path) => remove_data_dir(resources.fs(), &path),
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
