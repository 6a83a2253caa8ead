// SPDX-License-Identifier: Apache-2.0
//! Map attempts: they push batch after batch, count what was acknowledged, and commit or abort,
//! sometimes too early, too late, or twice.

use std::collections::BTreeSet;

use lodestone_model::{
    Code, Crc32c, GenerationId, Ledger, MapId, MapIndex, ReduceId, Segment, ShuffleId, ShuffleKey,
};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};

use super::Clients;
use super::mapper::BatchParts;
use crate::dice::Dice;
use crate::network::{Network, Packet};

/// Application, incarnation, shuffle, generation, map, attempt.
pub(super) type AttemptKey = (String, i64, ShuffleId, GenerationId, MapIndex, MapId);

/// The knowledge of its writer.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    next: u32,
    acknowledged: BTreeSet<u32>,
    ledger: Ledger,
}

pub(super) fn attempt_key(key: &ShuffleAddress, map_index: MapIndex, map_id: MapId) -> AttemptKey {
    let app = key.shuffle.app.as_str().to_owned();
    (
        app,
        key.incarnation,
        key.shuffle.shuffle,
        key.shuffle.generation,
        map_index,
        map_id,
    )
}

impl Clients {
    /// Returns the next batch of an attempt of mode remote: any number of segments for a partition,
    /// and now and then only the end of a block.
    pub(super) fn stream(
        &mut self,
        key: &ShuffleAddress,
        (partitions, name): (u32, &AttemptKey),
        dice: &mut Dice,
    ) -> BatchParts {
        let map_id = name.5;
        let next = self.attempts.entry(name.clone()).or_default().next;
        // Now and then another batch under the name of the first one.
        let first_segment = if dice.chance(2) { 0 } else { next };
        let (mut segments, mut body) = (Vec::new(), Vec::new());
        let mut reduce_id = 0;
        while reduce_id < partitions {
            if dice.chance(60) {
                let number = first_segment + segments.len() as u32;
                let is_last = dice.chance(30);
                let bytes = match is_last && number > 0 && dice.chance(30) {
                    true => Vec::new(),
                    false => self.content(key, (map_id, number), reduce_id),
                };
                segments.push(Segment {
                    reduce_id: ReduceId(reduce_id),
                    sequence: 2 * number + u32::from(is_last),
                    length: bytes.len() as u32,
                    records: (bytes.len() / 10) as i32,
                    crc32c: Crc32c(crc32c::crc32c(&bytes)),
                });
                body.extend_from_slice(&bytes);
            }
            // Now and then several of one partition.
            reduce_id += u32::from(!dice.chance(20));
        }
        (first_segment, segments, body)
    }

    /// A batch is on its way.
    pub(super) fn sent_of(&mut self, name: &AttemptKey, batch: &PushBatch) {
        let attempt = self.attempts.entry(name.clone()).or_default();
        attempt.next += batch.segments.len() as u32;
    }

    /// Counts the segments that a daemon took, each once.
    pub(super) fn acknowledge(
        &mut self,
        name: &AttemptKey,
        batch: &PushBatch,
        reply: &PushBatchReply,
    ) {
        let Some(attempt) = self.attempts.get_mut(name) else {
            return;
        };
        let pushed = (batch.first_segment..).zip(&batch.segments);
        for ((number, segment), code) in pushed.zip(&reply.codes) {
            let taken = matches!(code, Code::Ok | Code::Duplicate);
            if taken && attempt.acknowledged.insert(number) {
                let laid = segment.laid(batch.map_index, batch.map_id);
                let one = Ledger::of(segment.reduce_id, [laid]);
                attempt.ledger = attempt.ledger.and(one);
            }
        }
    }

    /// An attempt of this shuffle was to commit: there may be something to read.
    pub(super) fn ripen(&mut self, app: &str, (shuffle, generation): (ShuffleId, GenerationId)) {
        let of_driver = self
            .drivers
            .iter_mut()
            .filter(|one| one.app.as_str() == app);
        of_driver
            .flat_map(|driver| &mut driver.shuffles)
            .filter(|one| one.shuffle == shuffle && one.generation == generation)
            .for_each(|one| one.is_ripe = true);
    }

    /// Returns an attempt to end: most often one with acknowledged segments at a daemon that may
    /// still be there.
    fn attempt_to_end(&self, dice: &mut Dice) -> Option<(&AttemptKey, &Attempt)> {
        let is_ripe = |(name, attempt): &(&AttemptKey, &Attempt)| {
            !attempt.acknowledged.is_empty() && name.1 == self.incarnation
        };
        let ripe: Vec<_> = self.attempts.iter().filter(is_ripe).collect();
        if !ripe.is_empty() && dice.chance(70) {
            return dice.pick(&ripe);
        }
        let at = dice.below(self.attempts.len().max(1));
        self.attempts.iter().nth(at)
    }

    pub(super) fn end_attempt(&mut self, connection: u64, dice: &mut Dice, network: &mut Network) {
        let Some((name, attempt)) = self.attempt_to_end(dice) else {
            return;
        };
        let (app, incarnation, shuffle, generation, map_index, map_id) = name.clone();
        let driver = self
            .drivers
            .iter()
            .find(|driver| driver.app.as_str() == app);
        let Some(driver) = driver else {
            return;
        };
        let key = ShuffleAddress {
            shuffle: ShuffleKey {
                app: driver.app.clone(),
                attempt: Some(driver.attempt),
                shuffle,
                generation,
            },
            incarnation,
        };
        let mut pushed = attempt.ledger;
        match dice.below(20) {
            0 => pushed.segments += 1,
            1 => pushed.checksum ^= 1,
            _ => {}
        }
        let commits = dice.chance(75);
        if commits {
            self.ripen(&app, (shuffle, generation));
        }
        let message = match commits {
            true => CommitMap {
                key,
                map_index,
                map_id,
                pushed,
            }
            .to_bytes(),
            false => AbortMap {
                key,
                map_index,
                map_id,
            }
            .to_bytes(),
        };
        self.send(connection, Packet::Rpc(message), None, dice, network);
    }
}
