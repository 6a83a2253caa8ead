// SPDX-License-Identifier: Apache-2.0
//! Readers: they ask for layouts, open streams over them, and check the bytes that come.

use bytes::Bytes;
use lodestone_model::{LaidSegment, ReduceId, SegmentRun};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::fetch::{
    FetchSegments, PartitionLayout, SegmentLayout, SegmentLayoutReply, WantedChunk,
};

use super::{Asked, Clients, KEPT_LAYOUTS};
use crate::dice::Dice;
use crate::network::{Envelope, Network, Packet};

/// All map indexes, on the wire.
const ALL_MAPS: u32 = i32::MAX.unsigned_abs();

impl Clients {
    /// A reader asks for a layout, or uses again one that it has.
    pub(super) fn layout(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let at = dice.below(self.layouts.len().max(1));
        if dice.chance(30)
            && let Some((layout, reply)) = self.layouts.get(at).cloned()
        {
            self.fetch(connection, (layout, &reply), dice, network);
            return;
        }
        let key = self.key(dice, |shuffle| shuffle.is_ripe);
        let maps = match dice.below(10) {
            0..7 => (0, ALL_MAPS),
            7 => (2, 1),
            _ => (dice.below(3) as u32, 3 + dice.below(5) as u32),
        };
        let reduce_ids = (0..7).filter(|_| dice.chance(60)).map(ReduceId).collect();
        let layout = SegmentLayout {
            key,
            map_start: maps.0,
            map_end: maps.1,
            reduce_ids,
        };
        let packet = Packet::Rpc(layout.to_bytes());
        let asked = Some(Asked::Layout(layout));
        self.send(connection, packet, asked, dice, network);
    }

    /// A reader fetches the segments of a layout, and keeps the layout.
    pub(super) fn read(
        &mut self,
        connection: u64,
        shown: (SegmentLayout, SegmentLayoutReply),
        dice: &mut Dice,
        network: &mut Network,
    ) {
        let (layout, reply) = shown;
        self.fetch(connection, (layout.clone(), &reply), dice, network);
        if self.layouts.len() == KEPT_LAYOUTS {
            self.layouts.pop_front();
        }
        self.layouts.push_back((layout, reply));
    }

    fn fetch(
        &mut self,
        connection: u64,
        (layout, reply): (SegmentLayout, &SegmentLayoutReply),
        dice: &mut Dice,
        network: &mut Network,
    ) {
        let (mut chunks, mut shown) = (Vec::new(), Vec::new());
        for partition in &reply.partitions {
            for (chunk, segments) in cut(partition, dice) {
                chunks.push(chunk);
                shown.push(segments);
            }
        }
        if dice.chance(4) {
            let (reduce_id, first) = (ReduceId(dice.below(8) as u32), dice.below(9) as u32);
            let count = dice.below(9) as u32;
            let runs = vec![SegmentRun { first, count }];
            chunks.push(WantedChunk { reduce_id, runs });
            shown.push(Vec::new());
        }
        let key = layout.key;
        let fetch = FetchSegments { key, chunks };
        let packet = Packet::Rpc(fetch.to_bytes());
        self.send(
            connection,
            packet,
            Some(Asked::Stream(shown)),
            dice,
            network,
        );
    }

    /// Returns true if the bytes of a chunk are those of the layout that the reader has. They may
    /// rightly differ: an application that ended and began again has the same keys.
    pub fn accepts_chunk(&mut self, envelope: &Envelope, bytes: &[u8]) -> bool {
        let Some(Asked::Chunk(segments)) = self.asked.remove(&envelope.request) else {
            return true;
        };
        let mut rest = bytes;
        let all = segments.iter().all(|segment| {
            let Some((own, after)) = rest.split_at_checked(segment.length as usize) else {
                return false;
            };
            rest = after;
            crc32c::crc32c(own) == segment.crc32c.0
        });
        all && rest.is_empty()
    }
}

/// Chunks of a partition, some longer than others, and now and then without a segment.
fn cut(partition: &PartitionLayout, dice: &mut Dice) -> Vec<(WantedChunk, Vec<LaidSegment>)> {
    let mut chunks: Vec<(WantedChunk, Vec<LaidSegment>)> = Vec::new();
    for run in &partition.runs {
        for (first, segment) in (run.first..).zip(&run.segments) {
            if dice.chance(5) {
                continue;
            }
            if chunks.is_empty() || dice.chance(30) {
                let (reduce_id, runs) = (partition.reduce_id, Vec::new());
                chunks.push((WantedChunk { reduce_id, runs }, Vec::new()));
            }
            if let Some((chunk, segments)) = chunks.last_mut() {
                add(&mut chunk.runs, first, dice.chance(80));
                segments.push(*segment);
            }
        }
    }
    chunks
}

/// Adds a slot, to the last run if that is allowed and possible.
fn add(runs: &mut Vec<SegmentRun>, slot: u32, joined: bool) {
    match runs.last_mut() {
        Some(last) if joined && last.first + last.count == slot => last.count += 1,
        _ => runs.push(SegmentRun {
            first: slot,
            count: 1,
        }),
    }
}

/// Returns the request with which the simulation asks for a whole layout at the end of a run.
pub fn full_layout(key: &ShuffleAddress, partitions: u32) -> Bytes {
    let layout = SegmentLayout {
        key: key.clone(),
        map_start: 0,
        map_end: ALL_MAPS,
        reduce_ids: (0..partitions).map(ReduceId).collect(),
    };
    layout.to_bytes()
}

/// Returns the request for a stream over all segments of a layout, those of a run in one chunk.
pub fn full_fetch(key: &ShuffleAddress, layout: &SegmentLayoutReply) -> FetchSegments {
    let chunks = layout.partitions.iter().flat_map(|partition| {
        let reduce_id = partition.reduce_id;
        partition.runs.iter().map(move |run| WantedChunk {
            reduce_id,
            runs: vec![SegmentRun {
                first: run.first,
                count: run.segments.len() as u32,
            }],
        })
    });
    FetchSegments {
        key: key.clone(),
        chunks: chunks.collect(),
    }
}

/// Returns the request for a stream of one chunk, which is one segment.
pub fn fetch_one(key: &ShuffleAddress, reduce_id: ReduceId, first: u32) -> FetchSegments {
    let runs = vec![SegmentRun { first, count: 1 }];
    FetchSegments {
        key: key.clone(),
        chunks: vec![WantedChunk { reduce_id, runs }],
    }
}
