// SPDX-License-Identifier: Apache-2.0
//! A map attempt: it pushes batch after batch, sends elsewhere what is refused, and commits
//! (`RequiredPush`, `ServiceLedgers`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use lodestone_model::{Code, Crc32c, LaidSegment, Ledger, MapId, MapIndex, ReduceId, Segment};
use lodestone_wire::Message;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::push::PushBatch;
use lodestone_wire::extension::status::Done;

use super::Bug;
use super::driver::{Driver, is_full};
use super::host::{Host, ServiceLocation, Trouble};
use super::plan::{Output, Part, Plan, key};
use super::segment::{SimSegment, numbered};
use crate::dice::Dice;

/// Segments of one attempt.
const SEGMENTS_MAX: usize = 12;

/// Segments that are sent together.
const BATCH_SEGMENTS_MAX: usize = 4;

/// The ledger of one service.
#[derive(Debug, Default)]
struct ServiceLedger {
    ledger: Ledger,
    is_spoiled: bool,
}

/// The outcome of a batch at one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Taken,
    /// This many of its segments are there.
    Refused(usize),
    Lost,
}

/// How an attempt continues.
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
    /// The segments that it pushes, by their numbers.
    pub(super) segments: Vec<SimSegment>,
    plan: Plan,
    next: usize,
    ledgers: BTreeMap<ServiceLocation, ServiceLedger>,
    used: BTreeSet<(usize, usize)>,
}

/// All that a step works with.
pub(super) struct Context<'a> {
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
            ledgers: BTreeMap::new(),
            used: BTreeSet::new(),
        }
    }

    /// Pushes some more, or commits.
    pub(super) fn step(&mut self, context: &mut Context<'_>) -> State {
        let left = self.segments.len() - self.next;
        if left == 0 {
            return self.commit(context);
        }
        let count = left.min(1 + context.dice.below(BATCH_SEGMENTS_MAX));
        let first = self.next;
        self.next += count;
        match self.dispatch(first..first + count, context) {
            true => State::Pushes,
            false => self.give_up(context),
        }
    }

    /// Sends segments by the newest version, cut where the group changes. Returns false if the
    /// attempt cannot continue.
    fn dispatch(&mut self, range: Range<usize>, context: &mut Context<'_>) -> bool {
        let (generation, version) = (self.plan.generation, self.plan.newest());
        let group = |writer: &Self, at: usize| {
            let segment = writer.segments.get(at);
            segment.map_or(0, |segment| writer.plan.group_of(version, segment.reduce))
        };
        let mut start = range.start;
        while start < range.end {
            let mut end = start + 1;
            while end < range.end && group(self, end) == group(self, start) {
                end += 1;
            }
            let cut = (version, group(self, start));
            if !self.send(cut, start..end, context) {
                return false;
            }
            start = end;
            if self.plan.generation != generation {
                // The next segments were cut by a plan that does not count any more.
                return self.dispatch(start..range.end, context);
            }
        }
        true
    }

    /// One batch for one group, to all of its services.
    fn send(
        &mut self,
        (version, group): (usize, usize),
        range: Range<usize>,
        context: &mut Context<'_>,
    ) -> bool {
        let generation = self.plan.generation;
        let replicas = self.plan.replicas_of(version, group);
        let mut troubles = Vec::new();
        for service in &replicas {
            let is_spoiled = self.ledgers.entry(*service).or_default().is_spoiled;
            let verdict = match is_spoiled {
                true => Verdict::Lost,
                false => self.push_to(*service, range.clone(), context),
            };
            let count = match verdict {
                Verdict::Taken => range.len(),
                Verdict::Refused(count) => count,
                Verdict::Lost => 0,
            };
            self.add(*service, (version, group), range.start..range.start + count);
            if verdict != Verdict::Taken {
                troubles.push((*service, verdict));
            }
        }
        let Some((first, verdict)) = troubles.first().copied() else {
            return true;
        };
        if let (Verdict::Refused(count), 1) = (verdict, replicas.len()) {
            return self.elsewhere(generation, first, range.start + count..range.end, context);
        }
        let is_nowhere = troubles
            .iter()
            .all(|(service, _)| self.has_nothing(*service));
        for (service, _) in &troubles {
            self.ledgers.entry(*service).or_default().is_spoiled = true;
        }
        let covered = self.is_covered();
        if covered && troubles.len() < replicas.len() {
            for (service, _) in &troubles {
                self.ask(generation, *service, context);
            }
            true
        } else if covered && is_nowhere {
            self.elsewhere(generation, first, range, context)
        } else {
            self.ask(generation, first, context);
            false
        }
    }

    fn push_to(
        &self,
        service: ServiceLocation,
        range: Range<usize>,
        context: &mut Context<'_>,
    ) -> Verdict {
        let mut body = Vec::new();
        let mut segments = Vec::new();
        for segment in self.segments.get(range.clone()).unwrap_or_default() {
            segments.push(Segment {
                reduce_id: ReduceId(segment.reduce),
                sequence: segment.sequence,
                length: segment.bytes.len() as u32,
                records: segment.records(),
                crc32c: Crc32c(crc32c::crc32c(&segment.bytes)),
            });
            body.extend_from_slice(&segment.bytes);
        }
        let batch = PushBatch {
            key: key(service, self.plan.generation),
            map_index: MapIndex(self.map),
            map_id: MapId(self.map_id),
            first_segment: range.start as u32,
            is_whole: false,
            segments,
        };
        let Some(host) = context.hosts.get_mut(service.host) else {
            return Verdict::Lost;
        };
        match host.push(context.dice, &batch.to_bytes(), &body.into()) {
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
        service: ServiceLocation,
        rest: Range<usize>,
        context: &mut Context<'_>,
    ) -> bool {
        self.ask(generation, service, context) && self.dispatch(rest, context)
    }

    /// Reports a service in trouble, and uses the plan of the answer. Returns false if there is
    /// none, or if what was taken so far does not count any more.
    fn ask(
        &mut self,
        generation: i32,
        service: ServiceLocation,
        context: &mut Context<'_>,
    ) -> bool {
        let trouble = Some((generation, service));
        let Some(next) = context
            .driver
            .plan(context.hosts, context.dice, trouble, context.bug)
        else {
            return false;
        };
        let is_later = next.generation > self.plan.generation;
        if is_later
            && !self
                .ledgers
                .values()
                .all(|ledger| ledger.ledger.segments == 0)
        {
            return false;
        }
        if is_later {
            self.ledgers.clear();
            self.used.clear();
        }
        self.plan = next;
        true
    }

    fn add(&mut self, service: ServiceLocation, cut: (usize, usize), range: Range<usize>) {
        let ledger = self.ledgers.entry(service).or_default();
        for segment in self.segments.get(range).unwrap_or_default() {
            let laid = LaidSegment {
                map_index: MapIndex(self.map),
                map_id: MapId(self.map_id),
                sequence: segment.sequence,
                length: segment.bytes.len() as u32,
                records: segment.records(),
                crc32c: Crc32c(crc32c::crc32c(&segment.bytes)),
            };
            let one = Ledger::of(ReduceId(segment.reduce), [laid]);
            ledger.ledger = ledger.ledger.and(one);
            self.used.insert(cut);
        }
    }

    fn has_nothing(&self, service: ServiceLocation) -> bool {
        let ledger = self.ledgers.get(&service);
        ledger.is_none_or(|ledger| ledger.ledger.segments == 0)
    }

    fn is_whole(&self, service: ServiceLocation) -> bool {
        let ledger = self.ledgers.get(&service);
        ledger.is_some_and(|ledger| !ledger.is_spoiled && ledger.ledger.segments > 0)
    }

    /// Returns true if each group is complete at one of its services.
    fn is_covered(&self) -> bool {
        self.used.iter().all(|(version, group)| {
            let replicas = self.plan.replicas_of(*version, *group);
            replicas.iter().any(|service| self.is_whole(*service))
        })
    }

    fn commit(&mut self, context: &mut Context<'_>) -> State {
        let services = self.ledgers.keys().copied();
        let whole: Vec<ServiceLocation> =
            services.filter(|service| self.is_whole(*service)).collect();
        for service in whole {
            let skips = [Some(Bug::CommitSkipped), Some(Bug::MissingTakenForEmpty)];
            let is_skipped = skips.contains(&context.bug) && context.dice.chance(20);
            if is_skipped || self.commit_at(service, context) {
                continue;
            }
            self.ask(self.plan.generation, service, context);
            self.ledgers.entry(service).or_default().is_spoiled = true;
            if !self.is_covered() {
                return self.give_up(context);
            }
        }
        let spoiled = self.ledgers.iter().filter(|(_, ledger)| ledger.is_spoiled);
        let spoiled: Vec<ServiceLocation> = spoiled.map(|(service, _)| *service).collect();
        self.abort_at(&spoiled, context);
        let versions: BTreeSet<usize> = self.used.iter().map(|(version, _)| *version).collect();
        let part = |version| Part {
            version,
            without: self.plan.without(version, |service| self.is_whole(service)),
        };
        State::Done(Output {
            map_id: self.map_id,
            generation: self.plan.generation,
            parts: versions.into_iter().map(part).collect(),
            reduces: self.segments.iter().map(|segment| segment.reduce).collect(),
        })
    }

    fn commit_at(&self, service: ServiceLocation, context: &mut Context<'_>) -> bool {
        let pushed = self
            .ledgers
            .get(&service)
            .map_or(Ledger::default(), |ledger| ledger.ledger);
        let commit = CommitMap {
            key: key(service, self.plan.generation),
            map_index: MapIndex(self.map),
            map_id: MapId(self.map_id),
            pushed,
        };
        let host = context.hosts.get_mut(service.host);
        host.is_some_and(|host| host.rpc::<Done>(context.dice, &commit).is_ok())
    }

    /// Nothing of it will be read.
    pub(super) fn give_up(&self, context: &mut Context<'_>) -> State {
        let all: Vec<ServiceLocation> = self.ledgers.keys().copied().collect();
        self.abort_at(&all, context);
        State::GivenUp
    }

    fn abort_at(&self, services: &[ServiceLocation], context: &mut Context<'_>) {
        for service in services {
            let abort = AbortMap {
                key: key(*service, self.plan.generation),
                map_index: MapIndex(self.map),
                map_id: MapId(self.map_id),
            };
            if let Some(host) = context.hosts.get_mut(service.host) {
                let _: Result<Done, Trouble> = host.rpc(context.dice, &abort);
            }
        }
    }
}
