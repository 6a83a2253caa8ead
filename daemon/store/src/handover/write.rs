// SPDX-License-Identifier: Apache-2.0
//! Writes a handover for the next daemon.

use std::io;
use std::path::{Path, PathBuf};
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
        if generations.is_empty() {
            return false;
        }
        let written = self.write_entries(&self.handover_path(), &generations);
        if let Err(error) = &written {
            tracing::error!(%error, "remote shuffles cannot be handed over");
        }
        written.is_ok_and(|shuffles| shuffles > 0)
    }

    /// The next daemon looks for the file on all disks.
    fn handover_path(&self) -> PathBuf {
        let (disks, environment) = (&self.resources.disks, &self.resources.environment);
        let disk = disks.known_pick(0, environment).unwrap_or_default();
        disks.root(disk).join(HANDOVER_NAME)
    }

    /// Returns the number of shuffles in the handover. Those come first whose data is on disk, and
    /// each is in the file before the next write of data: a write that hangs costs no shuffle
    /// before it.
    fn write_entries(&self, path: &Path, generations: &[Arc<Generation>]) -> io::Result<usize> {
        let file = self.resources.fs().open(path, Open::Create)?;
        let mut entries = Writer::new(file);
        entries.add(&HandoverEntry::Start(StartEntry {
            dirs: self.dirs.clone(),
            next_home: self.next_home.load(Relaxed),
        }))?;
        let mut shuffles = 0;
        let deadline = ShutdownDeadline::default();
        let (on_disk, in_memory): (Vec<_>, Vec<_>) = generations
            .iter()
            .partition(|generation| is_on_disk(generation));
        for generation in on_disk.into_iter().chain(in_memory) {
            let added = self.add_shuffle(&mut entries, generation, &deadline);
            match added.and_then(|is_kept| entries.flush().map(|()| is_kept)) {
                Ok(is_kept) => {
                    shuffles += usize::from(is_kept);
                    self.resources.disks.count_step();
                }
                // The entries before it count as far as they go.
                Err(error) if shuffles > 0 => {
                    tracing::error!(%error, shuffles, "only these remote shuffles are handed over");
                    return Ok(shuffles);
                }
                Err(error) => return Err(error),
            }
        }
        if let Err(error) = entries.finish() {
            tracing::warn!(%error, "the handover has no end");
        }
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

fn is_on_disk(generation: &Generation) -> bool {
    let partitions = generation.all_partitions();
    partitions
        .iter()
        .all(|partition| partition.tail_hint() == 0)
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
