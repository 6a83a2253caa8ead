// SPDX-License-Identifier: Apache-2.0
//! Spark's own push: which blocks a shuffle has merged, until its finalize and after it. A block
//! has no attempt: the first one of a map counts, whatever comes later under its name.
//!
//! If a write fails, the model does not know which blocks are still there. A block that is
//! acknowledged later is there, with its own bytes or with earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lodestone_model::{AppId, GenerationId, MergeStatus, ReduceId, ShuffleId, ShuffleKey};
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::spark::finalize::{FinalizeShuffleMerge, MergeStatuses};
use lodestone_wire::spark::push::{BlockPushReturnCode, PushBlockStream, PushCode};
use roaring::RoaringBitmap;

use super::refusal::{Judged, agree, breach};
use super::{Model, Trouble, decoded};
use crate::client::{PUSHING_APP, PUSHING_ATTEMPT};

/// What the disks and the store show, which the model need not know.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The partition has an `.index`: an earlier daemon finalized it.
    pub was_finalized: bool,
    /// The store has the generation, or had it.
    pub has_begun: bool,
}

/// The shuffles of the application that uses Spark's own push.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    pub(super) shuffles: BTreeMap<ShuffleId, Merge>,
    removed: BTreeMap<ShuffleId, GenerationId>,
}

/// One generation of a shuffle.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) generation: GenerationId,
    pub(super) partitions: BTreeMap<ReduceId, Part>,
    /// The answer to its finalize, which every later one gets too.
    pub(super) end: Option<Vec<MergeStatus>>,
}

/// A partition that is open, or was.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// By map.
    blocks: BTreeMap<u32, Block>,
    /// The maps of each chunk, as the daemon said.
    pub(super) chunks: Option<Vec<RoaringBitmap>>,
    /// A write failed while it was open: after some of these the daemon takes no more blocks.
    is_hurt: bool,
}

/// The block of a map: one of these byte strings.
#[derive(Debug, Default)]
struct Block {
    candidates: Vec<Bytes>,
    /// It is there.
    sure: bool,
}

impl Part {
    /// The possible bytes of the blocks of these maps.
    pub(super) fn blocks_of(&self, maps: &RoaringBitmap) -> Vec<Vec<Bytes>> {
        let of = |map| self.blocks.get(&map).map(|block| block.candidates.clone());
        maps.iter().map(|map| of(map).unwrap_or_default()).collect()
    }

    fn take(&mut self, map: u32, body: &Bytes) {
        // There is nothing to merge.
        if body.is_empty() {
            return;
        }
        let block = self.blocks.entry(map).or_default();
        if !block.sure {
            block.candidates.push(body.clone());
            block.sure = true;
        }
    }

    /// Checks that a status shows all blocks that must be there, and no other, and their bytes.
    fn check(&self, status: &MergeStatus) -> Judged {
        let sure = self.blocks.iter().filter(|(_, block)| block.sure);
        let sure: RoaringBitmap = sure.map(|(map, _)| *map).collect();
        let all: RoaringBitmap = self.blocks.keys().copied().collect();
        if !sure.is_subset(&status.maps) || !status.maps.is_subset(&all) {
            let found = &status.maps;
            return breach(format!(
                "merged maps: {found:?}, must be {sure:?}, may be {all:?}"
            ));
        }
        let mut sums = BTreeSet::from([0]);
        for candidates in self.blocks_of(&status.maps) {
            let lengths = candidates.iter().map(|bytes| bytes.len() as u64);
            let add = |length| sums.iter().map(move |sum| sum + length);
            sums = lengths.flat_map(add).collect();
        }
        match sums.contains(&status.bytes) {
            true => Ok(()),
            false => breach(format!("{} bytes merged, may be {sums:?}", status.bytes)),
        }
    }
}

impl Merge {
    fn new(generation: GenerationId) -> Self {
        Self {
            generation,
            partitions: BTreeMap::new(),
            end: None,
        }
    }

    /// Judges the first answer to a finalize.
    fn finalize(&mut self, statuses: Vec<MergeStatus>, is_troubled: bool) -> Judged {
        let reduces: Vec<_> = statuses.iter().map(|status| status.reduce_id).collect();
        let in_order = reduces.is_sorted_by(|one, next| one < next);
        agree("partitions in order, each once", &in_order, &true)?;
        for status in &statuses {
            let Some(part) = self.partitions.get(&status.reduce_id) else {
                return breach(format!("{} is merged, without a block", status.reduce_id));
            };
            part.check(status)
                .map_err(|text| format!("partition {}: {text}", status.reduce_id))?;
        }
        for (reduce, part) in &self.partitions {
            let has_any = part.blocks.values().any(|block| block.sure);
            if has_any && !is_troubled && !reduces.contains(reduce) {
                return breach(format!("partition {reduce} was left out of the merge"));
            }
        }
        self.end = Some(statuses);
        Ok(())
    }
}

impl Pushed {
    fn newest(&self, shuffle: ShuffleId) -> Option<GenerationId> {
        let current = self.shuffles.get(&shuffle).map(|merge| merge.generation);
        current.max(self.removed.get(&shuffle).copied())
    }

    /// Takes a block or a finalize of a generation: if it is new, an older one goes. Returns `None`
    /// if it was removed.
    fn begin(&mut self, key: &ShuffleKey) -> Option<&mut Merge> {
        let (newest, current) = (self.newest(key.shuffle), self.shuffles.get(&key.shuffle));
        if newest == Some(key.generation) && current.is_none() {
            return None;
        }
        if newest != Some(key.generation) {
            self.removed.remove(&key.shuffle);
            let merge = Merge::new(key.generation);
            self.shuffles.insert(key.shuffle, merge);
        }
        self.shuffles.get_mut(&key.shuffle)
    }

    fn is_new(&self, key: &ShuffleKey) -> bool {
        self.newest(key.shuffle) < Some(key.generation)
    }

    pub(super) fn end(&mut self) {
        self.shuffles.clear();
        self.removed.clear();
    }

    /// A write to a disk of executors failed.
    pub(super) fn doubt(&mut self) {
        let open = self.shuffles.values_mut();
        let open = open.filter(|merge| merge.end.is_none());
        for part in open.flat_map(|merge| merge.partitions.values_mut()) {
            part.is_hurt = true;
            part.blocks
                .values_mut()
                .for_each(|block| block.sure = false);
        }
    }

    /// Carries out Spark's one-way removal.
    pub(super) fn remove(&mut self, key: &ShuffleKey) {
        if key.attempt != Some(PUSHING_ATTEMPT) {
            return;
        }
        let newest = self.newest(key.shuffle);
        let named = (key.generation != GenerationId(-1)).then_some(key.generation);
        let Some(generation) = named.or(newest) else {
            return;
        };
        if newest.is_none_or(|newest| newest <= generation) {
            self.shuffles.remove(&key.shuffle);
            self.removed.insert(key.shuffle, generation);
        }
    }
}

impl Model {
    /// Returns true if it is not certain whether the daemon knows the application that uses Spark's
    /// own push.
    pub fn pushing_is_doubtful(&mut self) -> bool {
        let known = self.executors.pushing();
        known.now.len() > 1
    }

    /// Returns true if the daemon may know it.
    pub(super) fn pushing_may_be_known(&mut self) -> bool {
        let known = self.executors.pushing();
        known.now.iter().any(Option::is_some)
    }

    /// From now on blocks that are not in the answer to a finalize may be gone.
    pub fn doubt_blocks(&mut self) {
        self.pushed.doubt();
    }

    /// Returns the shuffles of Spark's own push.
    pub fn merges(&self) -> Vec<ShuffleKey> {
        let Ok(app) = AppId::new(PUSHING_APP) else {
            return Vec::new();
        };
        let merges = self.pushed.shuffles.iter();
        let merges = merges.map(|(shuffle, merge)| ShuffleKey {
            app: app.clone(),
            attempt: Some(PUSHING_ATTEMPT),
            shuffle: *shuffle,
            generation: merge.generation,
        });
        merges.collect()
    }

    /// Returns the partitions that the answer to a finalize named.
    pub fn merged_partitions(&self, key: &ShuffleKey) -> Vec<ReduceId> {
        let merge = self.pushed.shuffles.get(&key.shuffle);
        let end = merge.and_then(|merge| merge.end.as_deref());
        let statuses = end.unwrap_or_default().iter();
        statuses.map(|status| status.reduce_id).collect()
    }

    /// Judges the refusal of a block before its bytes came: only an unknown application is.
    pub(super) fn refused_block(&mut self, answer: &Answer) -> Judged {
        agree("answer", &matches!(answer, Answer::Failure(_)), &true)?;
        let known = self.executors.pushing();
        match known.narrow(Option::is_none) {
            true => Ok(()),
            false => breach("a block of a known application was refused"),
        }
    }

    /// Judges the answer to a block. `seen`: before it came.
    pub fn block(
        &mut self,
        (meta, body): (&[u8], &Bytes),
        answer: &Answer,
        trouble: Trouble,
        seen: Seen,
    ) -> Judged {
        let block: PushBlockStream = decoded(meta)?;
        let found = match answer {
            Answer::Response(bytes) => {
                let reply: BlockPushReturnCode = decoded(bytes)?;
                check_name(&block, &reply)?;
                Some(reply.code)
            }
            Answer::Failure(_) => None,
            Answer::Close => return breach("a block has no answer"),
        };
        if self.draining || !self.pushing_may_be_known() {
            return agree("code of a block", &found, &None);
        }
        if found.is_none() && !seen.has_begun && self.pushing_is_doubtful() {
            return Ok(());
        }
        if found.is_some() || seen.has_begun {
            let known = self.executors.pushing();
            known.narrow(Option::is_some);
        }
        if block.key.attempt != Some(PUSHING_ATTEMPT) {
            return agree("code of a block", &found, &Some(PushCode::TooOldAttempt));
        }
        if self.pushed.newest(block.key.shuffle) > Some(block.key.generation) {
            return agree("code of a block", &found, &Some(PushCode::Stale));
        }
        self.pushed_block(&block, body, (found, trouble, seen))
    }

    /// Judges the answer to a block of a generation that is not too old.
    fn pushed_block(
        &mut self,
        block: &PushBlockStream,
        body: &Bytes,
        (found, trouble, seen): (Option<PushCode>, Trouble, Seen),
    ) -> Judged {
        let may_fail = trouble.is_for_blocks();
        if found.is_none() && self.pushed.is_new(&block.key) && !seen.has_begun {
            return agree("a block may fail", &may_fail, &true);
        }
        let Some(merge) = self.pushed.begin(&block.key) else {
            return agree("code of a block", &found, &Some(PushCode::TooLate));
        };
        let is_opened = merge.partitions.contains_key(&block.reduce_id);
        let expected = match (&merge.end, is_opened) {
            (Some(_), _) => PushCode::TooLate,
            (None, false) if seen.was_finalized => PushCode::TooLate,
            _ => PushCode::Success,
        };
        let is_final = merge.end.is_some();
        if expected == PushCode::Success {
            let part = merge.partitions.entry(block.reduce_id).or_default();
            if found.is_none() {
                return agree("a block may fail", &(may_fail || part.is_hurt), &true);
            }
            agree("code of a block", &found, &Some(expected))?;
            part.take(block.map_index.0, body);
            return Ok(());
        }
        match found {
            None if may_fail && !is_final => Ok(()),
            _ => agree("code of a block", &found, &Some(expected)),
        }
    }

    /// Judges the answer to a finalize of Spark's own push.
    pub(super) fn finalize(&mut self, request: &[u8], answer: &Answer, trouble: Trouble) -> Judged {
        let FinalizeShuffleMerge { key } = decoded(request)?;
        let is_old = self.pushed.newest(key.shuffle) > Some(key.generation);
        let is_other = key.attempt != Some(PUSHING_ATTEMPT);
        let is_removed = self.pushed.newest(key.shuffle) == Some(key.generation)
            && !self.pushed.shuffles.contains_key(&key.shuffle);
        let must_fail = is_old || is_other || is_removed || !self.pushing_may_be_known();
        let may_fail = self.pushing_is_doubtful() || trouble.metadata;
        let reply = match answer {
            Answer::Response(bytes) if !must_fail => MergeStatuses::from_bytes(bytes),
            Answer::Failure(_) => {
                return agree("a finalize may fail", &(must_fail || may_fail), &true);
            }
            _ => return breach("a finalize must fail"),
        };
        let reply = reply.map_err(|error| format!("merge statuses: {error}"))?;
        let known = self.executors.pushing();
        known.narrow(Option::is_some);
        agree("shuffle", &reply.shuffle_id, &key.shuffle)?;
        agree("generation", &reply.shuffle_merge_id, &key.generation)?;
        let Some(merge) = self.pushed.begin(&key) else {
            return breach("a removed shuffle was finalized");
        };
        match &merge.end {
            Some(before) => agree("a repeated finalize", &reply.partitions, before),
            None => merge.finalize(reply.partitions, trouble.is_for_blocks()),
        }
    }
}

/// A refused block is named.
fn check_name(block: &PushBlockStream, reply: &BlockPushReturnCode) -> Judged {
    let PushBlockStream {
        key,
        map_index,
        reduce_id,
        ..
    } = block;
    let (shuffle, generation) = (key.shuffle, key.generation);
    let name = match reply.code {
        PushCode::Success => String::new(),
        _ => format!("shufflePush_{shuffle}_{generation}_{map_index}_{reduce_id}"),
    };
    agree("name of a block", &reply.failure_block_id, &name)
}
