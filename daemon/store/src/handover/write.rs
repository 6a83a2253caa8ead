// SPDX-License-Identifier: Apache-2.0
//! Writes a handover for the next daemon.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lodestone_model::{Code, ShuffleSpec};

use super::entries::{HandoverEntry, ShuffleEntry, StartEntry, Writer};
use super::{HANDOVER_NAME, boot_id};
use crate::fs::Open;
use crate::resource::timed_mutex::ShutdownDeadline;
use crate::resource::{Resources, locked};
use crate::state::attempt::Attempt;
use crate::state::attempts::AttemptId;
use crate::state::generation::Generation;
use crate::state::store::Store;

impl Store {
    /// Returns true if the next daemon takes over what this one hands over. Asks no disk.
    pub fn hands_over(&self) -> bool {
        self.is_private
    }

    /// Writes out the data of remote shuffles that is in memory, and writes a handover for the next
    /// daemon on the same directories. Returns false if there is nothing to hand over, or it could
    /// not be written; the data then goes with [`Store::close`]. No request may be in work any
    /// more, except a thread that writes out: a partition in the handover has nothing in memory.
    pub(crate) fn write_handover(&self) -> bool {
        let generations = self.all_remote();
        let (disks, environment) = (&self.resources.disks, &self.resources.environment);
        // Before the reserve is opened, which makes a full disk look like one that takes writes.
        let mut roots = (0..).zip(disks.roots_by_room(environment));
        disks.open_reserve();
        if generations.is_empty() {
            return false;
        }
        if !self.hands_over() {
            let shuffles = generations.len();
            tracing::error!(
                shuffles,
                "remote shuffles are lost: other users may write to the directories"
            );
            return false;
        }
        let written = self.write_entries(&mut roots, &generations);
        if let Err(error) = &written {
            tracing::error!(%error, "remote shuffles cannot be handed over");
        }
        written.is_ok_and(|shuffles| shuffles > 0)
    }

    /// Returns the number of shuffles in the handover. Those come first whose data is on disk, and
    /// each is in the file before the next write of data: a write that hangs costs no shuffle
    /// before it.
    fn write_entries<'a>(
        &'a self,
        roots: &mut impl Iterator<Item = (u32, &'a Path)>,
        generations: &[Arc<Generation>],
    ) -> io::Result<usize> {
        let mut entries = self.next_file(roots, ErrorKind::NotFound.into())?;
        let mut shuffles = 0;
        let deadline = ShutdownDeadline::default();
        let (on_disk, in_memory): (Vec<_>, Vec<_>) = generations
            .iter()
            .partition(|generation| is_on_disk(generation));
        for generation in on_disk.into_iter().chain(in_memory) {
            match self.hand_over_one(&mut entries, roots, (generation, &deadline)) {
                Ok(Ok(())) => shuffles += 1,
                Ok(Err(code)) => self.lost(generation, code),
                // The entries of all files count as far as they go.
                Err(error) if shuffles > 0 => {
                    tracing::error!(%error, shuffles, "only these remote shuffles are handed over");
                    return Ok(shuffles);
                }
                Err(error) => return Err(error),
            }
            self.resources.disks.count_step();
        }
        if let Err(error) = entries.finish() {
            tracing::warn!(%error, "the handover has no end");
        }
        Ok(shuffles)
    }

    /// Writes the entries of one shuffle, or returns why it is lost. If the file cannot be written,
    /// the handover continues with this shuffle in a file on another disk.
    fn hand_over_one<'a>(
        &'a self,
        entries: &mut Writer<'a>,
        roots: &mut impl Iterator<Item = (u32, &'a Path)>,
        (generation, deadline): (&Generation, &ShutdownDeadline),
    ) -> io::Result<Result<(), Code>> {
        // Once: nothing changes an attempt afterwards.
        let attempts = generation.attempts.hand_over(deadline);
        let mut outcome = attempts.as_ref().map(|_| ()).map_err(|code| *code);
        loop {
            // A lost shuffle stays lost: another try must not find the rest of it complete.
            let added = match (&attempts, outcome) {
                (Ok(attempts), Ok(())) => {
                    self.add_shuffle(entries, (generation, attempts, deadline), &mut outcome)
                }
                _ => entries.add(&HandoverEntry::Lost),
            };
            match added.and_then(|()| entries.flush()) {
                Ok(()) => return Ok(outcome),
                Err(error) => *entries = self.next_file(roots, error)?,
            }
        }
    }

    /// Begins a file in the next directory where this works. Fails with the last error.
    fn next_file<'a>(
        &'a self,
        roots: &mut impl Iterator<Item = (u32, &'a Path)>,
        mut error: io::Error,
    ) -> io::Result<Writer<'a>> {
        for (number, root) in roots {
            let path = root.join(HANDOVER_NAME);
            tracing::info!(path = %path.display(), "remote shuffles are handed over");
            match self.begin_file(&path, number) {
                Ok(entries) => return Ok(entries),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    fn begin_file(&self, path: &Path, disks_before: u32) -> io::Result<Writer<'_>> {
        let file = self.resources.fs().open(path, Open::Create)?;
        let mut entries = Writer::new(file, &self.resources.disks);
        entries.add(&HandoverEntry::Start(StartEntry {
            unix_ms: self.resources.environment.clock.unix_ms(),
            disks_before,
            dirs: self.dirs.clone(),
            next_home: self.next_home.load(Relaxed),
            boot_id: boot_id(self.resources.fs()),
        }))?;
        Ok(entries)
    }

    fn lease_ms(&self, generation: &Generation) -> u64 {
        let application = self.application(&generation.key.app);
        application.map_or(0, |application| locked(&application.state).lease_ms)
    }

    /// Adds the entries of a shuffle, all of whose data is on disk then. Otherwise it is lost, and
    /// `outcome` has the reason.
    fn add_shuffle(
        &self,
        entries: &mut Writer<'_>,
        (generation, attempts, deadline): (&Generation, &[(AttemptId, Attempt)], &ShutdownDeadline),
        outcome: &mut Result<(), Code>,
    ) -> io::Result<()> {
        *outcome = add_parts(entries, generation, attempts, (&self.resources, deadline))?;
        let entry = || shuffle_entry(generation, self.lease_ms(generation)).ok_or(Code::Internal);
        match outcome.and_then(|()| entry()) {
            Ok(entry) => entries.add(&HandoverEntry::Shuffle(entry)),
            Err(code) => {
                *outcome = Err(code);
                entries.add(&HandoverEntry::Lost)
            }
        }
    }

    fn lost(&self, generation: &Arc<Generation>, code: Code) {
        let shuffle = &generation.key;
        tracing::error!(%shuffle, %code, "lost: not all of it could be written");
        // A wait for a disk that hangs may never end; the next daemon removes these files as well.
        if code != Code::Overloaded {
            self.discard(Some(Arc::clone(generation)));
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
    entries: &mut Writer<'_>,
    generation: &Generation,
    attempts: &[(AttemptId, Attempt)],
    (resources, deadline): (&Resources, &ShutdownDeadline),
) -> io::Result<Result<(), Code>> {
    for ((map_index, map_id), attempt) in attempts {
        let attempt = attempt.clone();
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
