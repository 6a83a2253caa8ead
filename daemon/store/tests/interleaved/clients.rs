// SPDX-License-Identifier: Apache-2.0
//! Writers and readers of the shuffle of a world, which repeat what the store refuses for now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lodestone_model::*;
use shuttle::thread::{self, JoinHandle};

use crate::attempt::Attempt;
use crate::world::*;

pub(crate) const PARTITIONS: [u32; 2] = [0, 1];

/// Batches of an attempt. Each has a segment for each partition.
const BATCHES: u32 = 2;

/// Three attempts do not fit into [`LITTLE_MEMORY`].
const SEGMENT_BYTES: usize = 22_000;

pub(crate) fn map_id(map: u32) -> i64 {
    i64::from(map) + 1000
}

/// Bytes that identify a segment.
fn segment(map: u32, reduce: u32, sequence: u32) -> Vec<u8> {
    payload(map, reduce << 16 | sequence, SEGMENT_BYTES)
}

/// The numbers of an attempt's segments for a partition.
fn sequences(reduce: u32) -> BTreeSet<u32> {
    (0..BATCHES).map(|batch| sequence(batch, reduce)).collect()
}

fn sequence(batch: u32, reduce: u32) -> u32 {
    batch * PARTITIONS.len() as u32 + reduce
}

/// Pushes all batches of a map, unless one is refused for good.
pub(crate) fn push_all(attempt: &mut Attempt<'_>, map: u32) -> Result<(), Code> {
    (0..BATCHES).try_for_each(|batch| {
        insist(|| match push(attempt, map, batch) {
            Code::Ok | Code::Duplicate => Ok(()),
            code => Err(code),
        })
    })
}

/// Pushes the batches of a map until one is refused, for now or for good.
pub(crate) fn push_some(attempt: &mut Attempt<'_>, map: u32) -> bool {
    (0..BATCHES).all(|batch| push(attempt, map, batch) == Code::Ok)
}

/// Pushes a batch, and returns the code of its last segment.
fn push(attempt: &mut Attempt<'_>, map: u32, batch: u32) -> Code {
    let first = sequence(batch, 0);
    let bytes = PARTITIONS.map(|reduce| segment(map, reduce, first + reduce));
    let parts = PARTITIONS.map(|reduce| (reduce, bytes[reduce as usize].as_slice()));
    *attempt.push_from(first, &parts).last().unwrap()
}

/// Writes out what is in memory while others push, like the threads of the disks in a drain.
pub(crate) fn write_out_meanwhile(world: &Arc<World>) -> JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        for _ in 0..3 {
            world.write_step();
            thread::yield_now();
        }
    })
}

pub(crate) fn remove(world: &World) {
    let (attempt, shuffle) = (AppAttempt::NONE, ShuffleId(7));
    let removed = world.store.remove_shuffle(&app(), attempt, shuffle, None);
    removed.unwrap();
}

/// Nothing of the shuffle, which was removed, is left.
pub(crate) fn assert_nothing_stays(world: &World) {
    let files = world.data_files(DISK);
    assert!(files.is_empty(), "a file stays: {files:?}");
    let (used, names) = (
        world.store.load().memory_used,
        world.store.memory_of_names(),
    );
    assert_eq!(used, names, "memory stays in use");
    assert_eq!(world.fs.open_files().0, 0);
}

/// Repeats a request while it is refused for now.
pub(crate) fn insist<T>(mut ask: impl FnMut() -> Result<T, Code>) -> Result<T, Code> {
    loop {
        match ask() {
            Err(Code::Overloaded) => thread::yield_now(),
            answer => return answer,
        }
    }
}

/// What a reader has seen of the shuffle: it may only become more.
#[derive(Default)]
pub(crate) struct Reader {
    slots: BTreeMap<(u32, u32), (u32, u32)>,
    shown: BTreeSet<(u32, u32)>,
    /// True if segments may vanish, because a disk failed and there are originals.
    may_miss: bool,
}

impl Reader {
    pub(crate) fn new(may_miss: bool) -> Self {
        Self {
            may_miss,
            ..Self::default()
        }
    }

    /// Reads what is shown of each partition. `Err`: why there is nothing to read.
    pub(crate) fn look(&mut self, world: &World) -> Result<(), Code> {
        PARTITIONS
            .iter()
            .try_for_each(|reduce| self.look_at(world, *reduce))
    }

    /// The maps whose attempts it has seen in a partition.
    pub(crate) fn maps(&self, reduce: u32) -> BTreeSet<u32> {
        let here = self.shown.iter().filter(|(at, _)| *at == reduce);
        here.map(|(_, map)| *map).collect()
    }

    fn look_at(&mut self, world: &World, reduce: u32) -> Result<(), Code> {
        let layout = insist(|| {
            let laid = world.store.layout(&key(), MapRange::ALL, ReduceId(reduce));
            laid.map_err(|refusal| refusal.code)
        });
        let layout = match layout {
            Err(Code::UnknownPartition) if self.maps(reduce).is_empty() || self.may_miss => {
                return Ok(());
            }
            other => other?,
        };
        let mut found: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for run in layout {
            for (slot, laid) in (run.first..).zip(run.segments) {
                let (map, sequence) = (laid.map_index.0, laid.sequence);
                assert_eq!(laid.map_id.0, map_id(map));
                let is_new = found.entry(map).or_default().insert(sequence);
                assert!(is_new, "map {map} has segment {sequence} twice");
                let known = self.slots.insert((reduce, slot), (map, sequence));
                assert!(
                    known.is_none_or(|known| known == (map, sequence)),
                    "slot {slot} has another segment"
                );
                self.read(world, (reduce, slot), &segment(map, reduce, sequence))?;
            }
        }
        for (map, found) in &found {
            let all = sequences(reduce);
            assert!(
                *found == all || self.may_miss,
                "of map {map} {found:?} are shown, and not {all:?}"
            );
            self.shown.insert((reduce, *map));
        }
        let missed = |map: &u32| !found.contains_key(map);
        assert!(
            self.may_miss || !self.maps(reduce).iter().any(missed),
            "an attempt is not shown any more"
        );
        Ok(())
    }

    fn read(&self, world: &World, (reduce, slot): (u32, u32), wanted: &[u8]) -> Result<(), Code> {
        let chunk = insist(|| {
            let chunk = at(&world.store, reduce, slot..slot + 1);
            chunk.map_err(|refusal| refusal.code)
        });
        match chunk {
            Err(Code::Aborted) if self.may_miss => Ok(()),
            other => {
                assert!(read(&other?) == wanted, "other bytes in slot {slot}");
                Ok(())
            }
        }
    }
}
