// SPDX-License-Identifier: Apache-2.0
//! Readers: they ask for layouts, open streams over them, and check the bytes that come.

use bytes::Bytes;
use lodestone_wire::Message;
use lodestone_wire::extension::MergeKey;
use lodestone_wire::extension::fetch::{ChunkLayout, ChunkLayoutReply, ChunkRef, FetchChunks};

use super::{Asked, Clients};
use crate::dice::Dice;
use crate::network::{Envelope, Network, Packet};

/// All map indexes, on the wire.
const ALL_MAPS: u32 = i32::MAX.unsigned_abs();

impl Clients {
    pub(super) fn layout(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let key = self.key(dice, |slot| slot.finalized);
        let maps = match dice.below(10) {
            0..7 => (0, ALL_MAPS),
            7 => (2, 1),
            _ => (dice.below(3) as u32, 3 + dice.below(5) as u32),
        };
        let reduce_ids = (0..7).filter(|_| dice.chance(60)).collect::<Vec<u32>>();
        let layout = ChunkLayout {
            key,
            map_start: maps.0,
            map_end: maps.1,
            reduce_ids,
        };
        let packet = Packet::Rpc(layout.to_bytes());
        let asked = Some(Asked::Layout(layout));
        self.send(connection, packet, asked, dice, network);
    }

    pub(super) fn fetch(
        &mut self,
        connection: u64,
        layout: ChunkLayout,
        reply: ChunkLayoutReply,
        dice: &mut Dice,
        network: &mut Network,
    ) {
        let (mut refs, mut shown) = (Vec::new(), Vec::new());
        for partition in reply.partitions {
            let reduce_id = partition.reduce_id;
            for (chunk, laid) in (0..).zip(partition.chunks) {
                refs.push(ChunkRef { reduce_id, chunk });
                shown.push(laid.segments);
            }
        }
        if dice.chance(4) {
            let reduce_id = dice.below(8) as u32;
            refs.push(ChunkRef {
                reduce_id,
                chunk: 9,
            });
            shown.push(Vec::new());
        }
        let fetch = FetchChunks {
            key: layout.key,
            map_start: layout.map_start,
            map_end: layout.map_end,
            chunks: refs,
        };
        let packet = Packet::Rpc(fetch.to_bytes());
        self.send(
            connection,
            packet,
            Some(Asked::Stream(shown)),
            dice,
            network,
        );
    }

    /// A reader got the bytes of a chunk: whether they are those of the layout that it was shown.
    /// They may rightly be others: an application that ended and began again has the same keys.
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

/// What the simulation asks for at the end of a run: everything that there must be.
pub fn full_layout(key: &MergeKey, partitions: u32) -> Bytes {
    let layout = ChunkLayout {
        key: key.clone(),
        map_start: 0,
        map_end: ALL_MAPS,
        reduce_ids: (0..partitions).collect(),
    };
    layout.to_bytes()
}

/// A stream over all chunks of a layout.
pub fn full_fetch(key: &MergeKey, layout: &ChunkLayoutReply) -> FetchChunks {
    let chunks = layout.partitions.iter().flat_map(|partition| {
        let reduce_id = partition.reduce_id;
        (0..partition.chunks.len() as u32).map(move |chunk| ChunkRef { reduce_id, chunk })
    });
    FetchChunks {
        key: key.clone(),
        map_start: 0,
        map_end: ALL_MAPS,
        chunks: chunks.collect(),
    }
}
