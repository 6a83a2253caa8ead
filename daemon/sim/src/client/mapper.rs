// SPDX-License-Identifier: Apache-2.0
//! Map attempts of both modes: which batches they push, and how some of these are damaged on the
//! way or wrong from the start.

use lodestone_model::{Crc32c, MapId, MapIndex, Mode, ReduceId, Segment, ShuffleKey};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::push::PushBatch;

use super::attempt::attempt_key;
use super::{Asked, Clients};
use crate::dice::Dice;
use crate::model::attempt_of;
use crate::network::{Network, Packet};

/// Blocks that are pushed together.
const BLOCKS_IN_A_BATCH: u32 = 3;

/// The sequence of a segment that is its whole block.
const ONLY: u32 = 1;

/// Number of the first segment, the segments, and their bytes.
pub(super) type BatchParts = (u32, Vec<Segment>, Vec<u8>);

/// One of two attempts of a map.
pub(super) fn map_id_of(map: u32, dice: &mut Dice) -> MapId {
    MapId(i64::from(map) * 10 + i64::from(dice.chance(20)))
}

impl Clients {
    pub(super) fn push(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let (driver, at) = self.choose(dice, |_| true);
        let shuffle = *self.shuffle(driver, at);
        if self.shuffle(driver, at).registered != self.incarnation && dice.chance(80) {
            self.register_shuffle(connection, driver, at, dice, network);
        }
        let key = match dice.chance(80) {
            true => self.key_of(driver, at),
            false => self.key(dice, |shuffle| shuffle.registered != 0),
        };
        let map = dice.below(shuffle.maps as usize) as u32;
        let (map_index, map_id) = (MapIndex(map), map_id_of(map, dice));
        let name = attempt_key(&key, map_index, map_id);
        let (first_segment, mut segments, mut body) = match shuffle.mode {
            Mode::Merge => self.blocks(&key, (shuffle.partitions, map_id), dice),
            Mode::Remote => self.stream(&key, (shuffle.partitions, &name), dice),
        };
        self.spoil(&mut segments, &mut body, dice);
        let batch = PushBatch {
            key,
            map_index,
            map_id,
            first_segment,
            // Now and then of an attempt that pushes more.
            is_whole: dice.chance(if first_segment == 0 { 30 } else { 3 }),
            segments,
        };
        self.sent_of(&name, &batch);
        let packet = Packet::Upload {
            meta: batch.to_bytes(),
            body: body.into(),
        };
        let asked = Some(Asked::Pushed(name, batch));
        self.send(connection, packet, asked, dice, network);
    }

    /// Returns some blocks of a map output of mode merge. Each is one segment, and has the number
    /// of its partition: a batch that is drawn again is the same.
    fn blocks(&self, key: &ShuffleAddress, of: (u32, MapId), dice: &mut Dice) -> BatchParts {
        let (partitions, map_id) = of;
        let batches = partitions.div_ceil(BLOCKS_IN_A_BATCH) as usize;
        let first = BLOCKS_IN_A_BATCH * dice.below(batches) as u32;
        let (mut segments, mut body) = (Vec::new(), Vec::new());
        for reduce_id in first..partitions.min(first + BLOCKS_IN_A_BATCH) {
            let bytes = self.content(key, (map_id, reduce_id), reduce_id);
            segments.push(Segment {
                reduce_id: ReduceId(reduce_id),
                sequence: ONLY,
                length: bytes.len() as u32,
                records: (bytes.len() / 10) as i32,
                crc32c: Crc32c(crc32c::crc32c(&bytes)),
            });
            body.extend_from_slice(&bytes);
        }
        (first, segments, body)
    }

    /// Damages some batches on their way, and makes some that no client should send.
    pub(super) fn spoil(&self, segments: &mut Vec<Segment>, body: &mut Vec<u8>, dice: &mut Dice) {
        match dice.below(100) {
            0..4 => {
                let at = dice.below(body.len());
                body.iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= 0x10);
            }
            4 => {
                body.pop();
            }
            5 => {
                let first = segments.first().cloned();
                first
                    .iter()
                    .for_each(|first| body.extend(vec![1; first.length as usize]));
                segments.extend(first);
            }
            6 => segments.iter_mut().take(1).for_each(|first| {
                body.drain(..first.length as usize);
                first.length = 0;
            }),
            7 => segments
                .iter_mut()
                .take(1)
                .for_each(|s| s.reduce_id.0 += 100),
            8 => segments.reverse(),
            // Other records than this attempt pushes otherwise.
            9 => segments.iter_mut().take(1).for_each(|s| s.records += 1),
            _ => {}
        }
    }

    /// The bytes of a segment: the same whenever the same attempt pushes it.
    pub(super) fn content(
        &self,
        key: &ShuffleAddress,
        (map_id, sequence): (MapId, u32),
        reduce: u32,
    ) -> Vec<u8> {
        let ShuffleKey {
            app,
            shuffle,
            generation,
            ..
        } = &key.shuffle;
        let attempt = attempt_of(&key.shuffle);
        let name = format!("{app} {attempt} {shuffle} {generation} {map_id} {sequence} {reduce}");
        let mut dice = Dice::new(self.seed ^ u64::from(crc32c::crc32c(name.as_bytes())));
        let length = match dice.below(100) {
            0..70 => 1 + dice.below(300),
            70..95 => 1 + dice.below(5_000),
            95..98 if self.large => 200_000 + dice.below(100_000),
            98.. if self.large => 1_000_000 + dice.below(1_300_000),
            _ => 1 + dice.below(30_000),
        };
        dice.bytes(length)
    }
}
