// SPDX-License-Identifier: Apache-2.0
//! Drain: the service is about to end. It takes nothing new, writes out what it has, and serves it
//! until no application needs it.

use std::sync::atomic::Ordering::Relaxed;

use lodestone_model::{Code, HeldData, Refusal, ShuffleKey};

use super::push::Batch;
use crate::resource::{locked, reading};
use crate::state::application::Application;
use crate::state::attempt::Attempt;
use crate::state::generation::Generation;
use crate::state::store::Store;

impl Application {
    /// Adds the data of this generation.
    fn add_to(&self, held: &mut HeldData, now_ms: u64) {
        let (lease_until_ms, remote) = {
            let state = locked(&self.state);
            let all = state.shuffles.values();
            let remote: Vec<_> = all
                .filter(|generation| !generation.kind().has_originals())
                .cloned()
                .collect();
            (state.lease_until_ms, remote)
        };
        if remote.is_empty() {
            return;
        }
        held.applications += 1;
        let left_ms = lease_until_ms.map_or(0, |until_ms| until_ms.saturating_sub(now_ms));
        held.lease_left_ms = held.lease_left_ms.max(left_ms);
        for generation in remote {
            held.shuffles += 1;
            for partition in generation.all_partitions() {
                held.bytes += partition.bytes_hint();
                held.unwritten_bytes += partition.tail_hint() as u64;
            }
        }
    }
}

impl Store {
    /// Takes nothing new from now on, neither shuffles nor segments, and calls the threads of the
    /// places to write out the data of remote shuffles that is in memory. Call until
    /// [`HeldData::unwritten_bytes`] is 0 or stops shrinking. Returns true on the first call.
    pub fn drain(&self) -> bool {
        let _turn = locked(&self.drain_turn);
        let is_first = !self.draining.swap(true, Relaxed);
        self.call_to_write_out();
        is_first
    }

    /// New work is taken again, and the reserve is kept free again.
    pub fn cancel_drain(&self) {
        let _turn = locked(&self.drain_turn);
        self.draining.store(false, Relaxed);
        self.resources.write_calls.call_off();
        // A daemon that ends needs it for the rest.
        if !self.resources.write_calls.is_over() {
            self.resources.disks.close_reserve();
        }
    }

    /// Returns what would be lost with this store.
    pub fn held_data(&self) -> HeldData {
        let now_ms = self.now_ms();
        let mut held = HeldData {
            draining: self.is_draining(),
            executors: u32::try_from(self.present_executors()).unwrap_or(u32::MAX),
            ..HeldData::default()
        };
        for application in self.all_applications() {
            application.add_to(&mut held, now_ms);
        }
        held
    }

    /// Refuses new shuffles while the store is drained.
    pub(crate) fn check_news(&self, key: &ShuffleKey) -> Result<(), Refusal> {
        if self.is_draining() && self.generation(key, Code::UnknownShuffle).is_err() {
            return Err(Code::Draining.because(format!("{key} is new, and the service is drained")));
        }
        Ok(())
    }

    /// Answers a batch that comes while the store is drained: the segments of it that were taken
    /// before are there.
    pub(crate) fn refuse_rest(&self, generation: &Generation, batch: &Batch<'_>) -> Vec<Code> {
        let count = batch.segments.len();
        if let Err(code) = reading(&generation.partitions).check_open() {
            return vec![code; count];
        }
        let attempt = match generation.attempts.find((batch.map_index, batch.map_id)) {
            Ok(attempt) => attempt,
            Err(code) => return vec![code; count],
        };
        let taken = attempt.map(|attempt| {
            let taken = |attempt: &mut Attempt| batch.taken_of(attempt);
            generation
                .attempts
                .change(&generation.account, &attempt, taken)
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
