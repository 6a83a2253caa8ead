// SPDX-License-Identifier: Apache-2.0
//! A map attempt: it pushes batch after batch, goes elsewhere with what is refused, and commits
//! (`AttemptPush`, `Shares`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use lodestone_model::{Code, Crc32c, LaidSegment, Ledger, MapId, MapIndex, ReduceId, Segment};
use lodestone_wire::Message;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Done;

use super::Bug;
use super::driver::{Driver, is_full};
use super::host::{Host, Place, Trouble};
use super::plan::{Output, Part, Plan, key};
use crate::dice::Dice;

/// Segments of one attempt.
const SEGMENTS_MAX: usize = 12;

/// Segments that are sent together.
const TOGETHER_MAX: usize = 4;

/// What is at one service.
#[derive(Debug, Default)]
struct Share {
    ledger: Ledger,
    is_spoiled: bool,
}

/// What became of a batch at one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    /// So many of its segments are there.
    Refused(usize),
    Lost,
}

/// A segment of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) reduce: u32,
    pub(super) sequence: u32,
    pub(super) bytes: Bytes,
}

impl Piece {
    fn records(&self) -> i32 {
        i32::from(!self.bytes.is_empty())
    }
}

/// Segments of these partitions and bytes. The last one of each block says so, or one without bytes that
/// comes after all others does.
fn numbered(parts: Vec<(u32, Bytes)>, dice: &mut Dice) -> Vec<Piece> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut pieces = Vec::new();
    for (reduce, bytes) in parts {
        let count = counts.entry(reduce).or_default();
        let sequence = 2 * *count;
        *count += 1;
        pieces.push(Piece {
            reduce,
            sequence,
            bytes,
        });
    }
    for (reduce, count) in counts {
        let mut of_block = pieces.iter_mut().rev();
        match of_block.find(|piece| piece.reduce == reduce) {
            Some(last) if dice.chance(70) => last.sequence += 1,
            _ => pieces.push(Piece {
                reduce,
                sequence: 2 * count + 1,
                bytes: Bytes::new(),
            }),
        }
    }
    pieces
}

/// How an attempt goes on.
#[derive(Debug)]
pub(super) enum State {
    Pushes,
    Done(Output),
    GivenUp,
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) map: u32,
    pub(super) map_id: i64,
    /// What it pushes, by its numbers.
    pub(super) segments: Vec<Piece>,
    plan: Plan,
    next: usize,
    shares: BTreeMap<Place, Share>,
    used: BTreeSet<(usize, usize)>,
}

/// All that a step works with.
pub(super) struct Around<'a> {
    pub(super) hosts: &'a mut [Host],
    pub(super) driver: &'a mut Driver,
    pub(super) dice: &'a mut Dice,
    pub(super) bug: Option<Bug>,
}

impl Writer {
    pub(super) fn new(map: u32, map_id: i64, plan: Plan, dice: &mut Dice) -> Self {
        let count = dice.below(SEGMENTS_MAX + 1);
        let partitions = plan.partitions as usize;
        let mut segment = |number: usize| {
            let mut content = dice.bytes(1 + number);
            let length = 1 + dice.below(4000);
            content.resize(length.max(content.len()), map as u8);
            (dice.below(partitions) as u32, content.into())
        };
        let parts = (0..count).map(&mut segment).collect();
        Self {
            map,
            map_id,
            segments: numbered(parts, dice),
            plan,
            next: 0,
            shares: BTreeMap::new(),
            used: BTreeSet::new(),
        }
    }

    /// Pushes some more, or commits.
    pub(super) fn step(&mut self, around: &mut Around<'_>) -> State {
        let left = self.segments.len() - self.next;
        if left == 0 {
            return self.commit(around);
        }
        let count = left.min(1 + around.dice.below(TOGETHER_MAX));
        let first = self.next;
        self.next += count;
        match self.dispatch(first..first + count, around) {
            true => State::Pushes,
            false => self.give_up(around),
        }
    }

    /// Sends segments by the newest version, cut where the group changes. False: it cannot go on.
    fn dispatch(&mut self, range: Range<usize>, around: &mut Around<'_>) -> bool {
        let (generation, version) = (self.plan.generation, self.plan.newest());
        let group = |writer: &Self, at: usize| {
            let segment = writer.segments.get(at);
            segment.map_or(0, |piece| writer.plan.group_of(version, piece.reduce))
        };
        let mut start = range.start;
        while start < range.end {
            let mut end = start + 1;
            while end < range.end && group(self, end) == group(self, start) {
                end += 1;
            }
            let cut = (version, group(self, start));
            if !self.send(cut, start..end, around) {
                return false;
            }
            start = end;
            if self.plan.generation != generation {
                // What comes next was cut by a plan that counts no more.
                return self.dispatch(start..range.end, around);
            }
        }
        true
    }

    /// One batch for one group, to all of its services.
    fn send(
        &mut self,
        (version, group): (usize, usize),
        range: Range<usize>,
        around: &mut Around<'_>,
    ) -> bool {
        let generation = self.plan.generation;
        let holders = self.plan.holders(version, group);
        let mut troubles = Vec::new();
        for place in &holders {
            let is_spoiled = self.shares.entry(*place).or_default().is_spoiled;
            let verdict = match is_spoiled {
                true => Verdict::Lost,
                false => self.push_to(*place, range.clone(), around),
            };
            let count = match verdict {
                Verdict::Taken => range.len(),
                Verdict::Refused(count) => count,
                Verdict::Lost => 0,
            };
            self.add(*place, (version, group), range.start..range.start + count);
            if verdict != Verdict::Taken {
                troubles.push((*place, verdict));
            }
        }
        let Some((first, verdict)) = troubles.first().copied() else {
            return true;
        };
        if let (Verdict::Refused(count), 1) = (verdict, holders.len()) {
            return self.elsewhere(generation, first, range.start + count..range.end, around);
        }
        let is_nowhere = troubles.iter().all(|(place, _)| self.has_nothing(*place));
        for (place, _) in &troubles {
            self.shares.entry(*place).or_default().is_spoiled = true;
        }
        let covered = self.is_covered();
        if covered && troubles.len() < holders.len() {
            for (place, _) in &troubles {
                self.ask(generation, *place, around);
            }
            true
        } else if covered && is_nowhere {
            self.elsewhere(generation, first, range, around)
        } else {
            self.ask(generation, first, around);
            false
        }
    }

    fn push_to(&self, place: Place, range: Range<usize>, around: &mut Around<'_>) -> Verdict {
        let mut body = Vec::new();
        let mut segments = Vec::new();
        for piece in self.segments.get(range.clone()).unwrap_or_default() {
            segments.push(Segment {
                reduce_id: ReduceId(piece.reduce),
                sequence: piece.sequence,
                length: piece.bytes.len() as u32,
                records: piece.records(),
                crc32c: Crc32c(crc32c::crc32c(&piece.bytes)),
            });
            body.extend_from_slice(&piece.bytes);
        }
        let batch = PushBatch {
            key: key(place, self.plan.generation),
            map_index: MapIndex(self.map),
            map_id: MapId(self.map_id),
            first_segment: range.start as u32,
            segments,
        };
        let Some(host) = around.hosts.get_mut(place.host) else {
            return Verdict::Lost;
        };
        match host.push(around.dice, &batch.to_bytes(), &body.into()) {
            Ok(reply) => {
                let is_taken = |code: &&Code| matches!(code, Code::Ok | Code::Duplicate);
                let count = reply.codes.iter().take_while(is_taken).count();
                match reply.codes.get(count) {
                    None => Verdict::Taken,
                    Some(code) if is_full(*code) => Verdict::Refused(count),
                    Some(_) => Verdict::Lost,
                }
            }
            Err(_) => Verdict::Lost,
        }
    }

    /// The rest goes by the next version of the plan.
    fn elsewhere(
        &mut self,
        generation: i32,
        place: Place,
        rest: Range<usize>,
        around: &mut Around<'_>,
    ) -> bool {
        self.ask(generation, place, around) && self.dispatch(rest, around)
    }

    /// Tells of a service that is in trouble, and takes over the plan that is the answer. False: there is
    /// none, or it counts no more what was taken so far.
    fn ask(&mut self, generation: i32, place: Place, around: &mut Around<'_>) -> bool {
        let trouble = Some((generation, place));
        let Some(next) = around
            .driver
            .plan(around.hosts, around.dice, trouble, around.bug)
        else {
            return false;
        };
        let is_later = next.generation > self.plan.generation;
        if is_later && !self.shares.values().all(|share| share.ledger.segments == 0) {
            return false;
        }
        if is_later {
            self.shares.clear();
            self.used.clear();
        }
        self.plan = next;
        true
    }

    fn add(&mut self, place: Place, cut: (usize, usize), range: Range<usize>) {
        let share = self.shares.entry(place).or_default();
        for piece in self.segments.get(range).unwrap_or_default() {
            let segment = LaidSegment {
                map_index: MapIndex(self.map),
                map_id: MapId(self.map_id),
                sequence: piece.sequence,
                length: piece.bytes.len() as u32,
                records: piece.records(),
                crc32c: Crc32c(crc32c::crc32c(&piece.bytes)),
            };
            let one = Ledger::of(ReduceId(piece.reduce), [segment]);
            share.ledger = share.ledger.and(one);
            self.used.insert(cut);
        }
    }

    fn has_nothing(&self, place: Place) -> bool {
        let share = self.shares.get(&place);
        share.is_none_or(|share| share.ledger.segments == 0)
    }

    fn is_whole(&self, place: Place) -> bool {
        let share = self.shares.get(&place);
        share.is_some_and(|share| !share.is_spoiled && share.ledger.segments > 0)
    }

    /// Each group is whole at one of its services.
    fn is_covered(&self) -> bool {
        self.used.iter().all(|(version, group)| {
            let holders = self.plan.holders(*version, *group);
            holders.iter().any(|place| self.is_whole(*place))
        })
    }

    fn commit(&mut self, around: &mut Around<'_>) -> State {
        let places = self.shares.keys().copied();
        let whole: Vec<Place> = places.filter(|place| self.is_whole(*place)).collect();
        for place in whole {
            let skips = [Some(Bug::CommitSkipped), Some(Bug::MissingTakenForEmpty)];
            let is_skipped = skips.contains(&around.bug) && around.dice.chance(20);
            if is_skipped || self.commit_at(place, around) {
                continue;
            }
            self.ask(self.plan.generation, place, around);
            self.shares.entry(place).or_default().is_spoiled = true;
            if !self.is_covered() {
                return self.give_up(around);
            }
        }
        let spoiled = self.shares.iter().filter(|(_, share)| share.is_spoiled);
        let spoiled: Vec<Place> = spoiled.map(|(place, _)| *place).collect();
        self.abort_at(&spoiled, around);
        let versions: BTreeSet<usize> = self.used.iter().map(|(version, _)| *version).collect();
        let part = |version| Part {
            version,
            without: self.plan.without(version, |place| self.is_whole(place)),
        };
        State::Done(Output {
            map_id: self.map_id,
            generation: self.plan.generation,
            parts: versions.into_iter().map(part).collect(),
            reduces: self.segments.iter().map(|piece| piece.reduce).collect(),
        })
    }

    fn commit_at(&self, place: Place, around: &mut Around<'_>) -> bool {
        let pushed = self
            .shares
            .get(&place)
            .map_or(Ledger::default(), |share| share.ledger);
        let commit = CommitMap {
            key: key(place, self.plan.generation),
            map_index: MapIndex(self.map),
            map_id: MapId(self.map_id),
            pushed,
        };
        let host = around.hosts.get_mut(place.host);
        host.is_some_and(|host| host.rpc::<Done>(around.dice, &commit).is_ok())
    }

    /// Nothing of it will be read.
    pub(super) fn give_up(&self, around: &mut Around<'_>) -> State {
        let all: Vec<Place> = self.shares.keys().copied().collect();
        self.abort_at(&all, around);
        State::GivenUp
    }

    fn abort_at(&self, places: &[Place], around: &mut Around<'_>) {
        for place in places {
            let abort = AbortMap {
                key: key(*place, self.plan.generation),
                map_index: MapIndex(self.map),
                map_id: MapId(self.map_id),
            };
            if let Some(host) = around.hosts.get_mut(place.host) {
                let _: Result<Done, Trouble> = host.rpc(around.dice, &abort);
            }
        }
    }
}
