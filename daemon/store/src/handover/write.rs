// SPDX-License-Identifier: Apache-2.0
//! Writes a handover for the next daemon.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lodestone_model::{Code, ShuffleSpec};

use super::HANDOVER_NAME;
use super::entries::{HandoverEntry, ShuffleEntry, StartEntry, Writer};
use crate::fs::Open;
use crate::resource::timed_mutex::ShutdownDeadline;
use crate::resource::{Resources, locked};
use crate::state::generation::Generation;
use crate::state::store::Store;

impl Store {
    /// Writes out the data of remote shuffles that is in memory, and writes a handover for the next
    /// daemon on the same directories. Returns false if there is nothing to hand over, or it could
    /// not be written; the data then goes with [`Store::close`]. No request may be in work any
    /// more, except a thread that writes out: a partition in the handover has nothing in memory.
    pub(crate) fn write_handover(&self) -> bool {
        self.resources.disks.open_reserve();
        let generations = self.all_remote();
        let root = self.resources.disks.roots().next();
        let Some(path) = root.map(|root| root.join(HANDOVER_NAME)) else {
            return false;
        };
        if generations.is_empty() {
            return false;
        }
        let written = self.write_entries(&path, &generations);
        if let Err(error) = &written {
            tracing::error!(%error, "remote shuffles cannot be handed over");
        }
        written.is_ok_and(|shuffles| shuffles > 0)
    }

    fn write_entries(&self, path: &Path, generations: &[Arc<Generation>]) -> io::Result<usize> {
        let file = self.resources.fs().open(path, Open::Create)?;
        let mut entries = Writer::new(file);
        entries.add(&HandoverEntry::Start(StartEntry {
            dirs: self.dirs.clone(),
            next_home: self.next_home.load(Relaxed),
        }))?;
        let mut shuffles = 0;
        let deadline = ShutdownDeadline::default();
        for generation in generations {
            if self.add_shuffle(&mut entries, generation, &deadline)? {
                shuffles += 1;
            }
        }
        entries.finish()?;
        Ok(shuffles)
    }

    fn lease_ms(&self, generation: &Generation) -> u64 {
        let application = self.application(&generation.key.app);
        application.map_or(0, |application| locked(&application.state).lease_ms)
    }

    /// False: it is lost.
    fn add_shuffle(
        &self,
        entries: &mut Writer,
        generation: &Arc<Generation>,
        deadline: &ShutdownDeadline,
    ) -> io::Result<bool> {
        let outcome = add_parts(entries, generation, &self.resources, deadline)?;
        let entry = || shuffle_entry(generation, self.lease_ms(generation)).ok_or(Code::Internal);
        match outcome.and_then(|()| entry()) {
            Ok(entry) => {
                entries.add(&HandoverEntry::Shuffle(entry))?;
                Ok(true)
            }
            Err(code) => {
                let shuffle = &generation.key;
                tracing::error!(%shuffle, %code, "lost: not all of it could be written");
                entries.add(&HandoverEntry::Lost)?;
                // A wait for a disk that hangs may never end; the next daemon removes these files
                // as well.
                if code != Code::Overloaded {
                    self.discard(Some(Arc::clone(generation)));
                }
                Ok(false)
            }
        }
    }
}

/// Its attempts and partitions, all of whose data is on disk then.
fn add_parts(
    entries: &mut Writer,
    generation: &Generation,
    resources: &Resources,
    deadline: &ShutdownDeadline,
) -> io::Result<Result<(), Code>> {
    let attempts = match generation.attempts.hand_over(deadline) {
        Ok(attempts) => attempts,
        Err(code) => return Ok(Err(code)),
    };
    for ((map_index, map_id), attempt) in attempts {
        entries.add(&HandoverEntry::Attempt(map_index.0, map_id.0, attempt))?;
    }
    for partition in generation.all_partitions() {
        match partition.to_entry(resources, deadline) {
            Ok(entry) => entries.add(&HandoverEntry::Partition(entry))?,
            Err(code) => return Ok(Err(code)),
        }
    }
    Ok(Ok(()))
}

fn shuffle_entry(generation: &Generation, lease_ms: u64) -> Option<ShuffleEntry> {
    let ShuffleSpec {
        mode: _,
        num_maps,
        num_partitions,
        format,
    } = generation.spec.clone()?;
    let key = &generation.key;
    Some(ShuffleEntry {
        app: key.app.as_str().to_owned(),
        attempt: key.attempt?.0,
        lease_ms,
        shuffle: key.shuffle.0,
        generation: key.generation.0,
        num_maps,
        num_partitions,
        format,
        home: generation.home.to_entry()?,
    })
}
