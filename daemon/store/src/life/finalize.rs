// SPDX-License-Identifier: Apache-2.0
//! Finalize: no more appends, the layout is frozen. Repeating it gives the same answer.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use super::register::{Generation, Phase};
use crate::merge::Frozen;
use crate::model::code::{Code, Refusal};
use crate::model::id::{MapId, ReduceId, ShuffleKey};
use crate::model::mode::Mode;
use crate::resource::home::Home;
use crate::resource::{Resources, reading, writing};
use crate::spark;
use crate::store::Store;

/// Totals of what is merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinalizeSummary {
    /// Partitions with at least one segment.
    pub partitions: u32,
    /// Segments in them.
    pub segments: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Segments that were merged once and could not be kept: the disk was full or failed.
    pub lost_segments: u64,
    /// Checksum of the ledger of both.
    pub checksum: u64,
}

impl FinalizeSummary {
    fn add(&mut self, frozen: Frozen) {
        let all = frozen.merged.and(frozen.lost);
        self.partitions += u32::from(frozen.merged.segments > 0);
        self.segments += frozen.merged.segments;
        self.bytes += frozen.bytes;
        self.lost_segments += frozen.lost.segments;
        self.checksum = self.checksum.wrapping_add(all.checksum);
    }
}

/// What is merged of one partition, as Spark's `MergeStatuses` tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeStatus {
    /// The partition.
    pub reduce: ReduceId,
    /// Map indexes that are merged.
    pub maps: RoaringBitmap,
    /// Bytes merged.
    pub bytes: u64,
}

impl Store {
    /// Stops appends and freezes the layout.
    pub fn finalize(&self, key: &ShuffleKey) -> Result<FinalizeSummary, Refusal> {
        self.generation(key, Code::UnknownShuffle)?
            .finalize(&self.resources)
    }

    /// Shows, of a shuffle that is finalized, the segments of no other map attempts than these, and tells
    /// what that is. To be called before anything is read.
    pub fn retain(
        &self,
        key: &ShuffleKey,
        attempts: &HashSet<MapId>,
    ) -> Result<FinalizeSummary, Refusal> {
        self.generation(key, Code::UnknownShuffle)?.retain(attempts)
    }

    /// Spark's `FinalizeShuffleMerge`: finalizes and tells what is merged. A shuffle of a known
    /// application that nothing was pushed for is finalized empty, and late pushes are refused.
    pub fn merge_statuses(&self, key: &ShuffleKey) -> Result<Vec<MergeStatus>, Refusal> {
        let generation = spark::push::generation_to_finalize(self, key)?;
        generation.finalize(&self.resources)?;
        let partitions: Vec<_> = {
            let partitions = reading(&generation.partitions);
            partitions
                .by_reduce
                .iter()
                .map(|(id, p)| (*id, p.clone()))
                .collect()
        };
        let mut statuses = Vec::with_capacity(partitions.len());
        for (reduce, partition) in partitions {
            let status = partition
                .view(|view| MergeStatus {
                    reduce,
                    maps: view.segments.maps(),
                    bytes: view.segments.bytes(),
                })
                .map_err(|code| generation.refuse(code))?;
            if !status.maps.is_empty() {
                statuses.push(status);
            }
        }
        Ok(statuses)
    }
}

impl Generation {
    fn retain(&self, attempts: &HashSet<MapId>) -> Result<FinalizeSummary, Refusal> {
        if self.spec.is_none() || self.mode() == Mode::Remote {
            let detail = format!("attempts of {} are not told apart, or commit", self.key);
            return Err(Code::Malformed.because(detail));
        }
        let finalized = self.summary.lock().map_err(|code| self.refuse(code))?;
        if finalized.is_none() {
            return Err(self.refuse(Code::NotFinalized));
        }
        let mut total = FinalizeSummary::default();
        for partition in self.all_partitions() {
            let retained = partition.retain(attempts);
            total.add(retained.map_err(|code| self.refuse(code))?);
        }
        Ok(total)
    }

    /// Holds this generation's summary lock, so that a repeated request waits for the first (not for ever);
    /// pushes of other shuffles, and fetches, need none of its locks for longer than one partition takes.
    pub(crate) fn finalize(&self, resources: &Resources) -> Result<FinalizeSummary, Refusal> {
        if self.mode() == Mode::Remote {
            let detail = format!("{} is remote: its maps commit one by one", self.key);
            return Err(Code::Malformed.because(detail));
        }
        let mut summary = self.summary.lock().map_err(|code| self.refuse(code))?;
        if let Some(summary) = *summary {
            return Ok(summary);
        }
        let partitions: Vec<_> = {
            let mut partitions = writing(&self.partitions);
            if partitions.phase == Phase::Removed {
                return Err(self.refuse(Code::UnknownShuffle));
            }
            partitions.phase = Phase::Finalizing;
            partitions
                .by_reduce
                .iter()
                .map(|(id, p)| (*id, p.clone()))
                .collect()
        };
        let mut total = FinalizeSummary::default();
        for (reduce, partition) in partitions {
            let frozen = match self.home.as_ref() {
                Home::Ours { .. } => partition.freeze(resources),
                Home::Spark { dirs, key } => {
                    spark::merged::publish(&partition, resources, dirs, key, reduce)
                }
            };
            match frozen {
                Ok(frozen) => total.add(frozen),
                Err(code) => {
                    tracing::warn!(shuffle = %self.key, %reduce, %code, "partition left out");
                    partition.remove(resources);
                    writing(&self.partitions).by_reduce.remove(&reduce);
                }
            }
        }
        let mut partitions = writing(&self.partitions);
        if partitions.phase == Phase::Removed {
            return Err(self.refuse(Code::UnknownShuffle));
        }
        partitions.phase = Phase::Finalized;
        *summary = Some(total);
        Ok(total)
    }
}
