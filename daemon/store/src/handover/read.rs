// SPDX-License-Identifier: Apache-2.0
//! Reads the handover of an earlier daemon.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lodestone_model::{
    AppAttempt, AppId, Code, GenerationId, MapId, MapIndex, Mode, ReduceId, Refusal, ShuffleId,
    ShuffleKey, ShuffleSpec,
};
use lodestone_planted::{self as planted, Bug};

use super::entries::{HandoverEntry, Reader, ShuffleEntry, StartEntry, damaged};
use super::{HANDOVER_NAME, boot_id, forget};
use crate::fs::{Fs, Lock, Open};
use crate::merge::{Partition, PartitionEntry};
use crate::resource::data_files::remove_data_except;
use crate::resource::home::Home;
use crate::resource::incarnation::{self, Incarnation, Leftover, OpenError, StartDirs};
use crate::resource::writing;
use crate::state::application::{FIRST_LEASE_MS, LONGEST_LEASE_MS};
use crate::state::attempt::Attempt;
use crate::state::generation::Generation;
use crate::state::store::Store;

/// The directories, incarnation and remote shuffles of a daemon that was stopped.
pub(crate) struct TakenOver {
    incarnation: Incarnation,
    roots: Vec<PathBuf>,
    locks: Vec<Box<dyn Lock>>,
    next_home: u64,
    shuffles: Vec<Shuffle>,
}

struct Shuffle {
    entry: ShuffleEntry,
    attempts: Vec<(u32, i64, Attempt)>,
    partitions: Vec<PartitionEntry>,
}

impl Shuffle {
    /// Application, its attempt, shuffle and generation.
    fn name(&self) -> (String, i32, i32, i32) {
        let entry = &self.entry;
        (
            entry.app.clone(),
            entry.attempt,
            entry.shuffle,
            entry.generation,
        )
    }
}

impl TakenOver {
    /// Returns the incarnation and the directories that this daemon takes over.
    pub(crate) fn take_start_dirs(&mut self) -> StartDirs {
        let roots = std::mem::take(&mut self.roots);
        (self.incarnation, roots, std::mem::take(&mut self.locks))
    }

    /// Looks for a handover in the `leftovers` of each of the directories `dirs`, and takes what it
    /// finds out of `leftovers`. No later daemon will find a handover there, whether this one did
    /// or not.
    pub(crate) fn find(
        dirs: &[String],
        leftovers: &mut [Vec<Leftover>],
        fs: &dyn Fs,
    ) -> Result<Option<Self>, OpenError> {
        let roots: Vec<PathBuf> = leftovers
            .iter()
            .flatten()
            .map(|leftover| leftover.root.clone())
            .collect();
        let found: Vec<_> = roots
            .iter()
            .filter_map(|root| Found::at(root, dirs, leftovers, fs))
            .collect();
        let newest = found.iter().max_by_key(|found| found.start.unix_ms);
        let newest = newest.map(|newest| newest.incarnation);
        let taken_over = newest.map(|newest| Self::of(newest, found, leftovers));
        for root in roots
            .iter()
            .filter(|_| !planted::is(Bug::HandoverBelievedTwice))
        {
            let forgotten = forget(root, fs);
            forgotten.map_err(|source| OpenError::Unusable {
                dir: root.clone(),
                source,
            })?;
        }
        Ok(taken_over)
    }

    /// Takes over the daemon of this incarnation, whose handover may have several files.
    fn of(incarnation: Incarnation, found: Vec<Found>, leftovers: &mut [Vec<Leftover>]) -> Self {
        let mut taken_over = Self {
            incarnation,
            roots: Vec::new(),
            locks: Vec::new(),
            next_home: 0,
            shuffles: Vec::new(),
        };
        let own = found.iter().filter(|file| file.incarnation == incarnation);
        let expected = own
            .clone()
            .map(|file| file.start.disks_before.saturating_add(1))
            .max();
        let missing = (expected.unwrap_or(0) as usize).saturating_sub(own.count());
        if missing > 0 {
            let lost =
                "shuffles in files on disks that were tried before are lost, if there are any";
            tracing::warn!(missing, "{lost}");
        }
        // A shuffle whose entry could not be flushed is in the next file again.
        let mut seen = BTreeSet::new();
        for file in found {
            if file.incarnation != incarnation {
                let (of, lost) = (file.incarnation, file.shuffles.len());
                tracing::error!(%of, lost, "remote shuffles are lost: a newer handover is there");
                continue;
            }
            taken_over.next_home = taken_over.next_home.max(file.start.next_home);
            let is_new = |shuffle: &Shuffle| seen.insert(shuffle.name());
            taken_over
                .shuffles
                .extend(file.shuffles.into_iter().filter(is_new));
        }
        let name = format!("{}{incarnation}", incarnation::PREFIX);
        for of_dir in leftovers {
            for taken in of_dir.extract_if(.., |one| one.is_named(name.as_ref())) {
                let (root, lock) = taken.into_parts();
                taken_over.roots.push(root);
                taken_over.locks.push(lock);
            }
        }
        taken_over
    }
}

/// A file of a handover.
struct Found {
    incarnation: Incarnation,
    start: StartEntry,
    shuffles: Vec<Shuffle>,
}

impl Found {
    fn at(root: &Path, dirs: &[String], leftovers: &[Vec<Leftover>], fs: &dyn Fs) -> Option<Self> {
        let path = root.join(HANDOVER_NAME);
        let (start, shuffles) = match read(&path, fs) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                let path = path.display();
                tracing::error!(%path, %error, "remote shuffles are lost: unreadable");
                return None;
            }
        };
        if start.dirs != dirs {
            let before = &start.dirs;
            tracing::error!(?before, now = ?dirs, "remote shuffles are lost: other directories");
            return None;
        }
        if start.boot_id != boot_id(fs) {
            let why = "the machine was started again, and what was written may be gone";
            tracing::error!("remote shuffles are lost: {why}");
            return None;
        }
        let name = root.file_name()?;
        let incarnation = incarnation_of(name.to_str()?)?;
        let is_there = |of_dir: &Vec<Leftover>| of_dir.iter().any(|one| one.is_named(name));
        if !leftovers.iter().all(is_there) {
            return None;
        }
        Some(Self {
            incarnation,
            start,
            shuffles,
        })
    }
}

fn read(path: &Path, fs: &dyn Fs) -> io::Result<(StartEntry, Vec<Shuffle>)> {
    let mut entries = Reader::new(fs.open(path, Open::Read)?)?;
    let Some(HandoverEntry::Start(start)) = entries.next()? else {
        return Err(damaged("the first entry is missing"));
    };
    let (mut shuffles, mut attempts, mut partitions) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(entry) = entries.next()? {
        match entry {
            HandoverEntry::Attempt(map_index, map_id, attempt) => {
                attempts.push((map_index, map_id, attempt))
            }
            HandoverEntry::Partition(partition) => partitions.push(partition),
            HandoverEntry::Shuffle(entry) => shuffles.push(Shuffle {
                entry,
                attempts: std::mem::take(&mut attempts),
                partitions: std::mem::take(&mut partitions),
            }),
            HandoverEntry::Lost => {
                attempts.clear();
                partitions.clear();
            }
            HandoverEntry::Start(_) => return Err(damaged("there are two first entries")),
            HandoverEntry::End => return Ok((start, shuffles)),
        }
    }
    if shuffles.is_empty() {
        return Err(damaged("it ends before the first shuffle"));
    }
    let (path, kept) = (path.display(), shuffles.len());
    tracing::error!(
        %path, kept,
        "this file has no end entry: shuffles that are in no other file are lost"
    );
    Ok((start, shuffles))
}

fn incarnation_of(name: &str) -> Option<Incarnation> {
    let hex = name.strip_prefix(incarnation::PREFIX)?;
    let number = u64::from_str_radix(hex, 16).ok()?;
    NonZeroU64::new(number).map(Incarnation)
}

impl Store {
    /// Continues the shuffles of a daemon that was stopped.
    pub(crate) fn go_on(&self, taken_over: TakenOver) {
        self.next_home.fetch_max(taken_over.next_home, Relaxed);
        for shuffle in taken_over.shuffles {
            let name = format!("{} of {}", shuffle.entry.shuffle, shuffle.entry.app);
            match self.go_on_with(shuffle) {
                Ok(()) => tracing::info!(shuffle = name, "taken over from the daemon before"),
                Err(refusal) => tracing::error!(shuffle = name, %refusal, "this shuffle is lost"),
            }
        }
        self.remove_lost();
    }

    /// Removes the data of shuffles that are in no entry, and that the daemon before could not
    /// remove.
    fn remove_lost(&self) {
        let kept: BTreeSet<String> = self
            .all_applications()
            .iter()
            .flat_map(|application| application.generations())
            .filter_map(|generation| generation.home.dir_name().map(str::to_owned))
            .collect();
        for root in self.resources.disks.roots() {
            remove_data_except(self.resources.fs(), root, &kept, &|| {});
        }
    }

    fn go_on_with(&self, shuffle: Shuffle) -> Result<(), Refusal> {
        let Shuffle {
            entry,
            attempts,
            partitions,
        } = shuffle;
        let app = AppId::new(&entry.app)?;
        let attempt = AppAttempt(entry.attempt);
        let key = ShuffleKey {
            app: app.clone(),
            attempt: Some(attempt),
            shuffle: ShuffleId(entry.shuffle),
            generation: GenerationId(entry.generation),
        };
        let spec = ShuffleSpec {
            mode: Mode::Remote,
            num_maps: entry.num_maps,
            num_partitions: entry.num_partitions,
            format: entry.format,
        };
        let home = Home::from_entry(entry.home)?;
        let disks = self.resources.disks.len();
        if !partitions.iter().all(|partition| partition.is_sound(disks)) {
            return Err(Code::Internal.because(format!("{key} has data in no file of this daemon")));
        }
        let lease_ms = entry.lease_ms.min(LONGEST_LEASE_MS);
        let lease_until_ms = self.now_ms() + lease_ms.max(FIRST_LEASE_MS);
        self.with_application(&app, attempt, |state| {
            state.attempt = state.attempt.max(attempt);
            // Its driver could not renew the lease while no daemon ran.
            state.lease_until_ms = Some(lease_until_ms);
            state.lease_ms = lease_ms;
            let generation = state.start(&key, Some(spec), home);
            fill(&generation, attempts, partitions);
        });
        Ok(())
    }
}

/// Puts the attempts and partitions of the entries into their generation.
fn fill(
    generation: &Generation,
    attempts: Vec<(u32, i64, Attempt)>,
    partitions: Vec<PartitionEntry>,
) {
    for (map_index, map_id, attempt) in attempts {
        let id = (MapIndex(map_index), MapId(map_id));
        generation
            .attempts
            .restore(&generation.account, id, attempt);
    }
    let mut all = writing(&generation.partitions);
    for entry in partitions {
        let reduce: ReduceId = entry.reduce();
        let (home, account) = (
            Arc::clone(&generation.home),
            Arc::clone(&generation.account),
        );
        let partition = Partition::from_entry(entry, home, account);
        all.by_reduce.insert(reduce, Arc::new(partition));
    }
}
