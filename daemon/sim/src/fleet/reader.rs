// SPDX-License-Identifier: Apache-2.0
//! A reader of all partitions: which service it asks, and when it reports a loss (`WantedSegments`,
//! `RemoteSources`, `PartitionPick`).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lodestone_model::{LaidSegment, ReduceId, SegmentRun};
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::extension::fetch::{
    FetchSegments, SegmentLayout, SegmentLayoutReply, WantedChunk,
};
use lodestone_wire::spark::fetch::StreamHandle;

use super::Bug;
use super::host::{Host, ServiceLocation};
use super::plan::{Output, Plan, key};
use crate::dice::Dice;

/// The segments that were read, by map index, partition and number in the block.
pub(super) type Content = BTreeMap<(u32, u32, u32), Bytes>;

/// Why not all was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// A service is being started again: it is waited for.
    Waits,
    /// No service has it.
    Lost,
}

/// A segment that is to be read: where, and under which name.
struct Wanted {
    first: u32,
    segment: LaidSegment,
}

pub(super) struct Reader<'a> {
    pub(super) hosts: &'a mut [Host],
    pub(super) plan: &'a Plan,
    pub(super) outputs: &'a [Option<Output>],
    pub(super) dice: &'a mut Dice,
    pub(super) bug: Option<Bug>,
}

impl Reader<'_> {
    pub(super) fn read(&mut self) -> Result<Content, Loss> {
        let mut content = Content::new();
        let is_old = |output: &Output| output.generation != self.plan.generation;
        if self.outputs.iter().flatten().any(is_old) {
            return Err(Loss::Lost);
        }
        for reduce in 0..self.plan.partitions {
            self.partition(reduce, &mut content)?;
        }
        Ok(content)
    }

    /// Returns map index and attempt of the blocks of a partition.
    fn wanted(&self, reduce: u32) -> BTreeMap<u32, &Output> {
        let outputs = (0..).zip(self.outputs);
        outputs
            .filter_map(|(map, output)| Some((map, output.as_ref()?)))
            .filter(|(_, output)| output.reduces.contains(&reduce))
            .collect()
    }

    fn partition(&mut self, reduce: u32, content: &mut Content) -> Result<(), Loss> {
        let mut unreachable = BTreeSet::new();
        let sources = loop {
            let sources = self.sources(reduce, &unreachable)?;
            let mut layouts = Vec::new();
            for service in &sources {
                match self.layout(*service, reduce) {
                    Some(layout) => layouts.push((*service, layout)),
                    None => {
                        unreachable.insert(*service);
                    }
                }
            }
            if layouts.len() == sources.len() {
                break layouts;
            }
        };
        let wanted: BTreeMap<u32, i64> = self
            .wanted(reduce)
            .into_iter()
            .map(|(map, output)| (map, output.map_id))
            .collect();
        let mut missing: BTreeSet<u32> = wanted.keys().copied().collect();
        for (service, layout) in sources {
            let chosen = self.chosen(&layout, &wanted, reduce, content);
            self.fetch(service, reduce, &chosen, content)?;
        }
        missing.retain(|map| !is_whole(content, *map, reduce));
        match missing.is_empty() || self.bug == Some(Bug::MissingTakenForEmpty) {
            true => Ok(()),
            false => Err(Loss::Lost),
        }
    }

    /// Returns one service for each group with data, which has all of its data.
    fn sources(
        &mut self,
        reduce: u32,
        unreachable: &BTreeSet<ServiceLocation>,
    ) -> Result<BTreeSet<ServiceLocation>, Loss> {
        let ignores = self.bug == Some(Bug::WithoutIgnored);
        let mut groups = Vec::new();
        for output in self.wanted(reduce).values() {
            for part in &output.parts {
                let group = self.plan.group_of(part.version, reduce);
                groups.push(part.replicas_of(self.plan, group, ignores));
            }
        }
        let mut sources = BTreeSet::new();
        for replicas in groups.iter().filter(|replicas| !replicas.is_empty()) {
            let is_reachable = |service: &&ServiceLocation| !unreachable.contains(*service);
            let reachable: Vec<ServiceLocation> =
                replicas.iter().filter(is_reachable).copied().collect();
            let Some(source) = self.dice.pick(&reachable) else {
                return Err(self.loss(replicas));
            };
            sources.insert(source);
        }
        Ok(sources)
    }

    /// A service that was stopped will start again, with its data: the reader waits for it.
    fn loss(&self, replicas: &[ServiceLocation]) -> Loss {
        let comes_back = |service: &ServiceLocation| {
            let host = self.hosts.get(service.host);
            host.is_some_and(|host| host.has(*service) && !host.world.is_up())
        };
        match replicas.iter().any(comes_back) {
            true => Loss::Waits,
            false => Loss::Lost,
        }
    }

    fn layout(&mut self, service: ServiceLocation, reduce: u32) -> Option<SegmentLayoutReply> {
        let layout = SegmentLayout {
            key: key(service, self.plan.generation),
            map_start: 0,
            map_end: i32::MAX.unsigned_abs(),
            reduce_ids: vec![ReduceId(reduce)],
        };
        let host = self.hosts.get_mut(service.host)?;
        host.rpc(self.dice, &layout).ok()
    }

    /// Segments of accepted attempts that no other source had.
    fn chosen(
        &self,
        layout: &SegmentLayoutReply,
        wanted: &BTreeMap<u32, i64>,
        reduce: u32,
        content: &Content,
    ) -> Vec<Wanted> {
        let runs = layout
            .partitions
            .iter()
            .flat_map(|partition| &partition.runs);
        let all = runs.flat_map(|run| (run.first..).zip(&run.segments));
        let is_new = |segment: &LaidSegment| {
            let name = (segment.map_index.0, reduce, segment.sequence);
            self.bug == Some(Bug::ReplicasReadTwice) || !content.contains_key(&name)
        };
        all.filter(|(_, segment)| wanted.get(&segment.map_index.0) == Some(&segment.map_id.0))
            .filter(|(_, segment)| is_new(segment))
            .map(|(first, segment)| Wanted {
                first,
                segment: *segment,
            })
            .collect()
    }

    fn fetch(
        &mut self,
        service: ServiceLocation,
        reduce: u32,
        chosen: &[Wanted],
        content: &mut Content,
    ) -> Result<(), Loss> {
        if chosen.is_empty() {
            return Ok(());
        }
        let chunk = |one: &Wanted| WantedChunk {
            reduce_id: ReduceId(reduce),
            runs: vec![SegmentRun {
                first: one.first,
                count: 1,
            }],
        };
        let fetch = FetchSegments {
            key: key(service, self.plan.generation),
            chunks: chosen.iter().map(chunk).collect(),
        };
        let Some(host) = self.hosts.get_mut(service.host) else {
            return Err(Loss::Lost);
        };
        let Some(handle) = opened(host, &fetch) else {
            return Err(Loss::Lost);
        };
        for (index, one) in (0..).zip(chosen) {
            let bytes = host
                .chunk(handle.stream_id, index)
                .map_err(|_| Loss::Lost)?;
            let map = one.segment.map_index.0;
            let before = content.insert((map, reduce, one.segment.sequence), bytes.into());
            if before.is_some() {
                // Two rows where there was one: as good as another content.
                content.insert((map, u32::MAX, 0), Bytes::new());
            }
        }
        Ok(())
    }
}

/// Returns true if all segments of the block are there, from the first to the one that is marked as
/// the last.
fn is_whole(content: &Content, map: u32, reduce: u32) -> bool {
    let block = content.range((map, reduce, 0)..=(map, reduce, u32::MAX));
    let sequences: Vec<u32> = block.map(|((.., sequence), _)| *sequence).collect();
    let Some((last, others)) = sequences.split_last() else {
        return false;
    };
    let numbers = (0..).step_by(2).zip(others);
    let end = 2 * others.len() as u32 + 1;
    numbers.into_iter().all(|(wanted, found)| wanted == *found) && *last == end
}

/// Returns a stream whose handle came back; one whose answer was lost is opened again.
fn opened(host: &mut Host, fetch: &FetchSegments) -> Option<StreamHandle> {
    match host.world.rpc(1, &fetch.to_bytes())? {
        Answer::Response(bytes) => StreamHandle::from_bytes(&bytes).ok(),
        Answer::Failure(_) | Answer::Close => None,
    }
}
