// SPDX-License-Identifier: Apache-2.0
//! Finalize: no more appends, the layout is frozen. Repeating it gives the same answer.

use std::collections::HashSet;

use lodestone_model::{Code, FinalizeSummary, MapId, Mode, Refusal, ShuffleKey};

use crate::merge::{self, Frozen};
use crate::resource::home::Home;
use crate::resource::{Resources, writing};
use crate::state::generation::{Generation, Phase};
use crate::state::store::Store;

/// Adds what one partition has.
fn add(total: &mut FinalizeSummary, frozen: Frozen) {
    let all = frozen.merged.and(frozen.lost);
    total.partitions += u32::from(frozen.merged.segments > 0);
    total.segments += frozen.merged.segments;
    total.bytes += frozen.bytes;
    total.lost_segments += frozen.lost.segments;
    total.checksum = total.checksum.wrapping_add(all.checksum);
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
            add(&mut total, retained.map_err(|code| self.refuse(code))?);
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
                    merge::publish(&partition, resources, dirs, key, reduce)
                }
            };
            match frozen {
                Ok(frozen) => add(&mut total, frozen),
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
