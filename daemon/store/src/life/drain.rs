// SPDX-License-Identifier: Apache-2.0
//! Drain: the service is about to leave. Nothing new is taken; what is held is written out, and served
//! until it is released.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::push::Batch;
use super::register::{Application, Generation};
use crate::model::attempt::Attempt;
use crate::model::code::{Code, Refusal};
use crate::model::id::ShuffleKey;
use crate::model::mode::Mode;
use crate::resource::{locked, reading};
use crate::store::Store;

/// What is held that is nowhere else. Merged shuffles are copies: their originals are with Spark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Whether nothing new is taken.
    pub draining: bool,
    /// Remote shuffles.
    pub shuffles: u32,
    /// Applications that have remote shuffles.
    pub applications: u32,
    /// Bytes of remote shuffles.
    pub bytes: u64,
    /// Those of them that are only in memory.
    pub unwritten_bytes: u64,
    /// Executors of Spark's own protocol whose directories are there: their blocks are read through us.
    pub executors: u32,
    /// When the last lease of those applications ends, if no driver renews it.
    pub lease_left_ms: u64,
}

impl Holdings {
    fn add(&mut self, application: &Application, now_ms: u64) {
        let (lease_until_ms, remote) = {
            let state = locked(&application.state);
            let remote: Vec<_> = state.shuffles.values().filter(is_remote).cloned().collect();
            (state.lease_until_ms, remote)
        };
        if remote.is_empty() {
            return;
        }
        self.applications += 1;
        let left_ms = lease_until_ms.map_or(0, |until_ms| until_ms.saturating_sub(now_ms));
        self.lease_left_ms = self.lease_left_ms.max(left_ms);
        for generation in remote {
            self.shuffles += 1;
            for partition in generation.all_partitions() {
                self.bytes += partition.bytes();
                self.unwritten_bytes += partition.tail_hint() as u64;
            }
        }
    }
}

impl Store {
    /// From now on nothing new is taken: no shuffle, no segment. Writes out some of what remote shuffles
    /// have in memory; to be called until [`Holdings::unwritten_bytes`] are none, or are no fewer. Whether
    /// this is the first call.
    pub fn drain(&self) -> bool {
        let is_first = !self.draining.swap(true, Relaxed);
        // Logged where it failed.
        let _ = self.write_some_out();
        is_first
    }

    /// New work is taken again.
    pub fn cancel_drain(&self) {
        self.draining.store(false, Relaxed);
    }

    /// What would be lost if this store were.
    pub fn holdings(&self) -> Holdings {
        let now_ms = self.now_ms();
        let mut holdings = Holdings {
            draining: self.is_draining(),
            executors: u32::try_from(self.present_executors()).unwrap_or(u32::MAX),
            ..Holdings::default()
        };
        for application in self.all_applications() {
            holdings.add(&application, now_ms);
        }
        holdings
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    pub(crate) fn all_remote(&self) -> Vec<Arc<Generation>> {
        self.all_applications()
            .iter()
            .flat_map(|application| application.generations())
            .filter(|generation| is_remote(&generation))
            .collect()
    }

    /// Refuses what is new, while the store is drained.
    pub(crate) fn check_news(&self, key: &ShuffleKey) -> Result<(), Refusal> {
        if self.is_draining() && self.generation(key, Code::UnknownShuffle).is_err() {
            return Err(Code::Draining.because(format!("{key} is new, and the service is drained")));
        }
        Ok(())
    }

    /// Of a batch that comes while the store is drained: what was taken of it before is there.
    pub(crate) fn refuse_rest(&self, generation: &Generation, batch: &Batch<'_>) -> Vec<Code> {
        let count = batch.segments.len();
        if let Err(code) = reading(&generation.partitions).check_open() {
            return vec![code; count];
        }
        let attempt = match generation.mode() {
            Mode::Remote => generation.attempts.find((batch.map_index, batch.map_id)),
            Mode::Merge => None,
        };
        let taken = attempt.map(|attempt| {
            let budget = &self.resources.budget;
            let taken = |attempt: &mut Attempt| batch.taken_of(attempt);
            generation.attempts.change(budget, &attempt, taken)
        });
        let before = match taken {
            None => 0,
            Some(Ok(Ok(taken))) => taken,
            Some(Ok(Err(code)) | Err(code)) => return vec![code; count],
        };
        let mut codes = vec![Code::Duplicate; before];
        codes.resize(count, Code::Draining);
        codes
    }
}

fn is_remote(generation: &&Arc<Generation>) -> bool {
    generation.mode() == Mode::Remote
}
