// SPDX-License-Identifier: Apache-2.0
//! Spark's own push: one block at a time, without map id and checksum. The first push creates the
//! shuffle. Pushes to the same partition wait for each other and do not collide.

use std::io::ErrorKind;
use std::sync::Arc;

use lodestone_model::{Code, Crc32c, LaidSegment, MapId, MapIndex, ReduceId, Refusal, ShuffleKey};
use lodestone_planted::{self as planted, Bug};

use crate::resource::dirs::{HashedDirs, MergedFile};
use crate::resource::disk::code_of;
use crate::resource::home::Home;
use crate::resource::timed_mutex::Wait;
use crate::resource::{Resources, locked};
use crate::state::generation::Generation;
use crate::state::store::Store;

/// Failed writes that a partition may have before its pushes are refused for good
/// (`ioExceptionsThresholdDuringMerge`).
const FAILED_WRITES_MAX: u32 = 4;

/// The places of the disks of executors that a push needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushPlaces {
    /// Where [`Store::begin_push`] looks. `None` if the partition is known.
    pub look: Option<usize>,
    /// Where the block is written, now or later.
    pub write: usize,
}

impl Store {
    /// Returns the places that a push needs. Asks no disk. `None` if it needs none, or is refused.
    pub fn places_of_push(&self, key: &ShuffleKey, reduce: ReduceId) -> Option<PushPlaces> {
        let places = |dirs: &HashedDirs, is_known: bool| {
            let place = |which| dirs.place_of_merged(key, reduce, which);
            PushPlaces {
                look: (!is_known).then(|| place(MergedFile::Index)),
                write: place(MergedFile::Data),
            }
        };
        match self.generation(key, Code::TooLate) {
            Ok(generation) => match generation.home.as_ref() {
                Home::Spark { dirs, .. } if generation.is_open() => {
                    Some(places(dirs, generation.has_opened(reduce)))
                }
                Home::Spark { .. } | Home::Ours { .. } => None,
            },
            Err(refusal) if refusal.code == Code::UnknownShuffle => {
                let application = self.application(&key.app).ok()?;
                let state = locked(&application.state);
                let dirs = state.executors.merge_dirs();
                dirs.map(|dirs| places(dirs, false))
            }
            Err(_) => None,
        }
    }

    /// True if a disk of executors takes no writes at the moment: pushes are refused without a
    /// wait.
    pub fn writes_are_stalled(&self, place: usize) -> bool {
        let resources = &self.resources;
        let flow = resources.disks.flow_at(place);
        flow.is_stalled(resources.environment.clock.as_ref())
    }

    /// True if a disk of executors does not say at the moment which files are there: first pushes
    /// to partitions are refused without a wait.
    pub fn looks_are_stalled(&self, place: usize) -> bool {
        let resources = &self.resources;
        let looks = resources.disks.looks_at(place);
        looks.is_stalled(resources.environment.clock.as_ref())
    }

    /// Opens a partition for its first push, unless an earlier daemon finalized it: TOO_LATE. The
    /// push may follow if the code is OK.
    pub fn begin_push(&self, key: &ShuffleKey, reduce: ReduceId) -> Result<Code, Refusal> {
        self.check_takes()?;
        let generation = match generation_for_push(self, key) {
            Err(refusal) => return answer(refusal),
            Ok(generation) => generation,
        };
        let is_too_late = is_too_late(&generation, &self.resources, reduce);
        let refuse = |code: Code| code.because(format!("partition {reduce} of {key}: {code}"));
        if is_too_late.map_err(refuse)? {
            return Ok(Code::TooLate);
        }
        match generation.open_partitions(std::iter::once(reduce)) {
            Ok(_) => Ok(Code::Ok),
            Err(code) => answer(generation.refuse(code)),
        }
    }

    fn check_takes(&self) -> Result<(), Refusal> {
        match self.is_draining() {
            true => Err(Code::Draining.because("the service is drained: it takes nothing new")),
            false => Ok(()),
        }
    }

    /// Merges one block. `Ok` has a code that `BlockPushReturnCode` can carry: Ok or Duplicate
    /// (success), TooLate, StaleGeneration, StaleAttempt. A refusal is an `RpcFailure`.
    pub fn push_block(
        &self,
        key: &ShuffleKey,
        map_index: MapIndex,
        reduce: ReduceId,
        body: &[u8],
    ) -> Result<Code, Refusal> {
        self.push_block_if(Wait::InTime, key, map_index, reduce, body)
    }

    /// Merges one block. If the caller must not wait, only into a partition that exists and has
    /// memory: OVERLOADED if it would have to wait.
    pub fn push_block_if(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        map_index: MapIndex,
        reduce: ReduceId,
        body: &[u8],
    ) -> Result<Code, Refusal> {
        self.check_takes()?;
        let found = match wait.is_allowed() {
            true => generation_for_push(self, key),
            false => known_for_push(self, key, reduce),
        };
        let generation = match found {
            Err(refusal) => return answer(refusal),
            Ok(generation) => generation,
        };
        let Ok(length) = u32::try_from(body.len()) else {
            return Err(Code::TooLarge.because(format!("a block of {} bytes", body.len())));
        };
        let name = || {
            format!(
                "shufflePush_{}_{}_{map_index}_{reduce}",
                key.shuffle, key.generation
            )
        };
        let not_merged = |code: Code| code.because(format!("{} was not merged: {code}", name()));
        let is_too_late = || is_too_late(&generation, &self.resources, reduce);
        if wait.is_allowed() && is_too_late().map_err(not_merged)? {
            return Ok(Code::TooLate);
        }
        let opened = generation.open_partitions(std::iter::once(reduce));
        let partition = match opened.map(|mut partitions| partitions.pop()) {
            Ok(Some(partition)) => partition,
            Ok(None) => return Err(generation.refuse(Code::Internal)),
            Err(code) => return answer(generation.refuse(code)),
        };
        if partition.failed_writes(wait).map_err(not_merged)? > FAILED_WRITES_MAX {
            let detail = format!(
                "IOExceptions exceeded the threshold when merging {}",
                name()
            );
            return Err(Code::DiskFailed.because(detail));
        }
        if length == 0 {
            // There is nothing to merge, and an empty chunk must never be served.
            return Ok(Code::Ok);
        }
        let map_id = MapId::UNKNOWN;
        let segment = LaidSegment {
            map_index,
            map_id,
            sequence: 0,
            length,
            records: -1,
            crc32c: Crc32c(0),
        };
        let code = partition.append(&self.resources, &wait.into(), &segment, body);
        self.resources.call_if_short();
        if is_answer(code) {
            Ok(code)
        } else {
            Err(not_merged(code))
        }
    }
}

/// Returns true if a first block of the partition comes too late: its shuffle is finalized, or an
/// earlier daemon finalized the partition. Executors read its files themselves: no write may change
/// them. An error if the disk does not say it, has too much to do, or hangs.
fn is_too_late(
    generation: &Generation,
    resources: &Resources,
    reduce: ReduceId,
) -> Result<bool, Code> {
    let Home::Spark { dirs, key } = generation.home.as_ref() else {
        return Ok(false);
    };
    if generation.has_opened(reduce) {
        return Ok(false);
    }
    if !generation.is_open() {
        return Ok(true);
    }
    let index = dirs.merged(key, reduce, MergedFile::Index);
    let turn = resources.turn_to_look(&index);
    let _turn = turn.map_err(|error| code_of(&error))?;
    match resources.foreign().kind(&index) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // It may be there, and no write may change the files. Nor is the block too late: Spark
        // would push nothing more of its map.
        Err(error) => match planted::is(Bug::UnknownTakenForFinalized) {
            true => Ok(true),
            false => Err(code_of(&error)),
        },
    }
}

fn answer(refusal: Refusal) -> Result<Code, Refusal> {
    if is_answer(refusal.code) {
        Ok(refusal.code)
    } else {
        Err(refusal)
    }
}

/// Returns true if the push protocol has a code for it; everything else fails the request.
fn is_answer(code: Code) -> bool {
    use Code::{Duplicate, Ok, StaleAttempt, StaleGeneration, TooLate};
    matches!(
        code,
        Ok | Duplicate | TooLate | StaleGeneration | StaleAttempt
    )
}

/// The generation to push to, made if it is new; an older one is replaced.
fn generation_for_push(store: &Store, key: &ShuffleKey) -> Result<Arc<Generation>, Refusal> {
    match store.generation(key, Code::TooLate) {
        Ok(generation) => generation.check_sparks_own().map(|()| generation),
        Err(refusal) if refusal.code == Code::UnknownShuffle => start(store, key),
        Err(refusal) if refusal.code == Code::UnknownApplication => {
            // A higher attempt than the registered one is as far off as a lower one.
            let attempt_differs = store.application(&key.app).is_ok();
            let code = if attempt_differs {
                Code::StaleAttempt
            } else {
                refusal.code
            };
            Err(code.because(not_registered(key)))
        }
        other => other,
    }
}

/// The generation to push to, if it is known and has the partition: no disk is asked.
fn known_for_push(
    store: &Store,
    key: &ShuffleKey,
    reduce: ReduceId,
) -> Result<Arc<Generation>, Refusal> {
    let generation = store.generation(key, Code::TooLate);
    let known = generation.ok().filter(|known| known.has_opened(reduce));
    let known = known.ok_or_else(|| Code::Overloaded.because(format!("{key} is not known yet")))?;
    known.check_sparks_own().map(|()| known)
}

/// The generation to finalize, made empty if nothing was ever pushed to it.
pub(super) fn generation_to_finalize(
    store: &Store,
    key: &ShuffleKey,
) -> Result<Arc<Generation>, Refusal> {
    match store.generation(key, Code::UnknownShuffle) {
        Err(refusal) if refusal.code == Code::UnknownShuffle => start(store, key),
        // The phrases are those that Spark's own service uses.
        Err(refusal) if refusal.code == Code::StaleGeneration => Err(Code::StaleGeneration
            .because(format!(
                "stale shuffle finalize request as shuffle blocks of a higher shuffleMergeId for \
                 the shuffle is already being pushed: {}",
                refusal.detail
            ))),
        Err(refusal) if refusal.code == Code::StaleAttempt => {
            Err(Code::StaleAttempt.because(format!(
                "The attempt id in this FinalizeShuffleMerge message does not match the current \
                 one: {}",
                refusal.detail
            )))
        }
        other => other,
    }
}

/// Starts a generation in the merge directories. Another thread may have been faster, or may have
/// removed the shuffle meanwhile.
fn start(store: &Store, key: &ShuffleKey) -> Result<Arc<Generation>, Refusal> {
    let application = store.application(&key.app)?;
    let (generation, replaced) = {
        let mut state = locked(&application.state);
        state.check_attempt(&key.app, key.attempt)?;
        let replaced = state.make_way(key)?;
        if let Some(same) = replaced
            .as_ref()
            .filter(|old| old.key.generation == key.generation)
        {
            return Ok(Arc::clone(same));
        }
        if replaced.is_none() {
            state.check_room()?;
        }
        let merge_dirs = state.executors.merge_dirs();
        let Some(dirs) = merge_dirs.cloned() else {
            return Err(Code::UnknownApplication.because(not_registered(key)));
        };
        let home = Home::Spark {
            dirs,
            key: key.clone(),
        };
        (state.start(key, None, home), replaced)
    };
    store.discard(replaced);
    Ok(generation)
}

fn not_registered(key: &ShuffleKey) -> String {
    format!(
        "application {} is not registered or NM was restarted.",
        key.app
    )
}
