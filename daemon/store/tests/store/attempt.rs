// SPDX-License-Identifier: Apache-2.0
//! Map attempts that push to a store, as their writers see it.

use lodestone_model::*;
use lodestone_store::*;

use crate::world::*;

/// A map attempt, as its writer sees it.
pub(crate) struct Attempt<'a> {
    world: &'a World,
    map: u32,
    map_id: i64,
    pub(crate) next: u32,
    pub(crate) acknowledged: Ledger,
}

impl World {
    pub(crate) fn remote(self) -> Self {
        let spec = ShuffleSpec {
            mode: Mode::Remote,
            num_maps: 10,
            num_partitions: 100,
            ..spec()
        };
        self.store.register_shuffle(&key(), spec).unwrap();
        self
    }

    /// Registers another remote shuffle.
    pub(crate) fn remote_shuffle(&self, number: i32) -> ShuffleKey {
        let key = ShuffleKey {
            shuffle: ShuffleId(number),
            ..key()
        };
        let spec = ShuffleSpec {
            mode: Mode::Remote,
            ..spec()
        };
        self.store.register_shuffle(&key, spec).unwrap();
        key
    }

    pub(crate) fn attempt(&self, map: u32, map_id: i64) -> Attempt<'_> {
        Attempt {
            world: self,
            map,
            map_id,
            next: 0,
            acknowledged: Ledger::default(),
        }
    }

    /// Partition, attempt and number of each visible segment.
    pub(crate) fn shown(&self, reduce: u32) -> Vec<(u32, i64, u32)> {
        let segments = self.segments(reduce);
        let named = |s: &LaidSegment| (s.map_index.0, s.map_id.0, s.sequence);
        segments.iter().map(named).collect()
    }
}

impl Attempt<'_> {
    /// Pushes a batch that begins with this number.
    pub(crate) fn push_from(&mut self, first: u32, parts: &[(u32, &[u8])]) -> Vec<Code> {
        // The meaning of the numbers is the clients' business: each segment has another one.
        let numbered = |(sequence, (reduce, bytes)): (u32, &(u32, &[u8]))| Segment {
            sequence,
            ..header(*reduce, bytes)
        };
        let segments: Vec<_> = (first..).zip(parts).map(numbered).collect();
        let body: Vec<u8> = parts.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect();
        let batch = Batch {
            first_segment: first,
            ..batch(self.map, self.map_id, &segments, &body)
        };
        let codes = match self.world.store.push_batch(&key(), &batch) {
            Ok(codes) => codes,
            Err(refusal) => vec![refusal.code; segments.len()],
        };
        self.world.write_out_as_called();
        for (header, code) in segments.iter().zip(&codes) {
            if *code == Code::Ok {
                let one = ledger_of(self.map, self.map_id, header);
                self.acknowledged = self.acknowledged.and(one);
            }
        }
        codes
    }

    pub(crate) fn push(&mut self, parts: &[(u32, &[u8])]) -> Vec<Code> {
        let first = self.next;
        self.next += parts.len() as u32;
        self.push_from(first, parts)
    }

    pub(crate) fn commit(&self) -> Result<(), Code> {
        self.commit_as(self.acknowledged)
    }

    pub(crate) fn commit_as(&self, ledger: Ledger) -> Result<(), Code> {
        let (map, map_id) = (MapIndex(self.map), MapId(self.map_id));
        let committed = self.world.store.commit_map(&key(), map, map_id, ledger);
        committed.map_err(|refusal| refusal.code)
    }

    pub(crate) fn abort(&self) {
        let (map, map_id) = (MapIndex(self.map), MapId(self.map_id));
        self.world.store.abort_map(&key(), map, map_id).unwrap();
    }
}
