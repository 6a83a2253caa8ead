// SPDX-License-Identifier: Apache-2.0
//! Opening the store, and closing it.

use std::path::PathBuf;
use std::sync::Arc;

use lodestone_planted::{self as planted, Bug};

use crate::fs::Fs;
use crate::handover::{TakenOver, forget};
use crate::index::kind::Kind;
use crate::resource::bodies::Bodies;
use crate::resource::budget::Budget;
use crate::resource::data_files::remove_data;
use crate::resource::disk::Disks;
use crate::resource::elsewhere::Elsewhere;
use crate::resource::foreign::ForeignDirs;
use crate::resource::incarnation::{self, Leftover, OpenError, StartDirs};
use crate::resource::map_files::MapFiles;
use crate::resource::map_indexes::MapIndexes;
use crate::resource::names::Names;
use crate::resource::pages::{Pages, TAIL_PART_BYTES};
use crate::resource::reserve::Reserve;
use crate::resource::trash::Trash;
use crate::resource::write_calls::WriteCalls;
use crate::resource::{Environment, Resources, locked, writing};
use crate::state::registration_files::Earlier;
use crate::state::registrations::Registrations;
use crate::state::store::Store;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, RwLock};

/// Directories (disks) of one store.
const DIRECTORIES_MAX: usize = 1024;

/// Names of executors' directories have this part of the store's memory, or this much.
const NAMES_PART: u64 = 16;
const NAMES_LEAST_BYTES: u64 = 1 << 20;

/// Space of aborted attempts is freed for so long after a handover was written, on all disks
/// together: the next daemon does not know it.
const LAST_HOLES_MS: u64 = 2_000;

/// The settings that the operator chooses.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// One directory per disk.
    pub dirs: Vec<PathBuf>,
    /// Memory for tails and metadata, at first. (The server accounts for the memory of readers and
    /// sockets.)
    pub memory_bytes: u64,
    /// Percentage of the memory for metadata that one application may take, and of that for data if
    /// there are several.
    pub quota_percent: u8,
    /// A part of a tail of this length gets no more segments: [`crate::TAIL_PART_BYTES`], or less
    /// if small partitions are to have many parts.
    pub tail_part_bytes: usize,
    /// So many bytes of pushes are written to one disk at a time: a disk that hangs keeps their
    /// memory. The pushes that wait for locks meanwhile may have as many.
    pub hanging_bytes: u64,
    /// The space that stays free on each disk.
    pub reserve: Reserve,
    /// If not empty, the local directories that executors register must be below one of these.
    pub executor_roots: Vec<PathBuf>,
}

impl StoreConfig {
    /// The settings of a store with these directories and this memory, if an operator says nothing
    /// else, but that it leaves no space free: for tests and benches.
    pub fn of(dirs: Vec<PathBuf>, memory_bytes: u64) -> Self {
        Self {
            dirs,
            memory_bytes,
            quota_percent: 75,
            tail_part_bytes: TAIL_PART_BYTES,
            hanging_bytes: u64::MAX,
            reserve: Reserve::Bytes(0),
            executor_roots: Vec::new(),
        }
    }
}

impl Store {
    /// Checks the directories, removes the data of daemons that crashed, and makes the directories
    /// of this incarnation.
    pub fn open(config: StoreConfig, environment: Environment) -> Result<Arc<Self>, OpenError> {
        if config.dirs.is_empty() {
            return Err(OpenError::NoDirectory);
        }
        if config.dirs.len() > DIRECTORIES_MAX {
            return Err(OpenError::TooManyDirectories(config.dirs.len()));
        }
        let fs = environment.fs.as_ref();
        let dirs = named_once(&config.dirs, fs)?;
        warn_of_other_writers(&dirs, fs);
        let left: Vec<_> = config
            .dirs
            .iter()
            .map(|dir| incarnation::leftovers(dir, fs))
            .collect();
        let is_all = left.iter().all(|left| left.is_all);
        let (mut leftovers, doubtful): (Vec<_>, Vec<_>) = left
            .into_iter()
            .map(|left| (left.found, left.doubtful))
            .unzip();
        let mut taken_over = TakenOver::find(&dirs, &mut leftovers, fs)?;
        let leftovers: Vec<_> = leftovers.into_iter().flatten().collect();
        let (incarnation, roots, locks) = match &mut taken_over {
            Some(taken_over) => taken_over.take_start_dirs(),
            None => make_start_dirs(&config.dirs, &environment)?,
        };
        let process_number = environment.random.next_u64().map_err(OpenError::NoRandom)?;
        let earlier_roots = leftovers.iter().map(|leftover| &leftover.root);
        let earlier = Earlier::read(fs, earlier_roots.chain(&roots).map(PathBuf::as_path));
        let budget = Arc::new(Budget::new(config.memory_bytes, config.quota_percent));
        let is_private = are_private(&roots, fs);
        let store = Arc::new(Self {
            registrations: Registrations::new(&roots, &earlier),
            resources: Resources {
                trash: Trash::new(roots.len()),
                write_calls: WriteCalls::new(roots.len()),
                disks: Disks::new(roots, fs, config.reserve, config.hanging_bytes),
                bodies: Bodies::new(config.hanging_bytes),
                pages: Pages::new(Arc::clone(&budget), config.tail_part_bytes),
                foreign_dirs: ForeignDirs::default(),
                elsewhere: Elsewhere::default(),
                map_indexes: MapIndexes::default(),
                map_files: MapFiles::default(),
                names: Names::new((config.memory_bytes / NAMES_PART).max(NAMES_LEAST_BYTES)),
                budget,
                environment,
            },
            applications: RwLock::default(),
            next_home: AtomicU64::new(0),
            dirs,
            executor_roots: config.executor_roots,
            draining: AtomicBool::new(false),
            drain_turn: Mutex::default(),
            unfinished: Mutex::default(),
            incarnation,
            process_number,
            is_private,
            locks: Mutex::new(locks),
        });
        store.follow(earlier, &leftovers, is_all);
        if is_all {
            store.remove_doubtful(doubtful.iter().flatten());
        }
        if let Some(taken_over) = taken_over {
            store.go_on(taken_over);
        }
        store.look_after_all();
        Ok(store)
    }

    /// Takes over from earlier daemons that have ended, and removes their directories. If a disk
    /// did not list all of its entries, nothing is removed: a later daemon may find a handover
    /// there.
    fn follow(&self, earlier: Earlier, leftovers: &[Leftover], is_all: bool) {
        let fs = self.resources.fs();
        let is_all = is_all && !planted::is(Bug::LeftoversKept);
        for Leftover { root, .. } in leftovers.iter().filter(|_| is_all) {
            tracing::info!(dir = %root.display(), "an earlier daemon left this: removed");
            remove_data(fs, root, &|| {});
        }
        let read: Vec<_> = leftovers
            .iter()
            .filter(|leftover| earlier.has_read(&leftover.root))
            .collect();
        let executors = self.take_over(earlier.registrations);
        if is_all && (executors == 0 || self.registrations.are_kept()) {
            for leftover in read {
                incarnation::remove(fs, &leftover.root, &|| {});
            }
        }
    }

    /// Removes directories of earlier daemons from which nothing is taken over.
    fn remove_doubtful<'a>(&self, doubtful: impl Iterator<Item = &'a Leftover>) {
        let fs = self.resources.fs();
        for Leftover { root, .. } in doubtful {
            // A handover that cannot be removed keeps its directory, which is not empty then.
            let _ = forget(root, fs);
            incarnation::remove(fs, root, &|| {});
        }
    }

    /// Removes this incarnation's directories, except what the next daemon must know. Later
    /// requests are refused as unknown. Files in Spark's merge directories stay: executors read
    /// them without the daemon, and Spark removes them.
    pub fn close(&self) {
        self.close_registrations();
        let executors = self.known_registrations().len() + self.registrations.without_room_count();
        writing(&self.applications).clear();
        let fs = self.resources.fs();
        let got_on = || self.resources.disks.count_step();
        // A handover that was written half, and cannot be removed, may turn out to be complete: its
        // data stays for the next daemon, which decides.
        if self
            .resources
            .disks
            .roots()
            .all(|root| forget(root, fs).is_ok())
        {
            for root in self.resources.disks.roots() {
                if executors > 0 {
                    remove_data(fs, root, &got_on);
                } else {
                    incarnation::remove(fs, root, &got_on);
                }
            }
        }
        locked(&self.locks).clear();
    }

    fn close_registrations(&self) {
        let known = || self.known_registrations();
        let closed = self
            .registrations
            .close(&self.resources.environment, &known);
        if let Err(error) = closed {
            tracing::warn!(%error, "the next daemon will not know all executors");
        }
    }

    /// Gives the directories free for the next daemon: a write of this one hangs, and its process
    /// cannot end. Not before everything else has ended, or hangs.
    pub fn unlock(&self) {
        locked(&self.locks).clear();
    }

    /// Closes the store like [`Store::close`], but hands remote shuffles over to the next daemon on
    /// the same directories, which continues them. Writes out the data in memory.
    pub fn hand_over(&self) {
        // First: the handover waits for disks that may hang.
        self.close_registrations();
        if !self.write_handover() {
            self.close();
            return;
        }
        let applications = self.all_applications();
        let all = applications.iter().flat_map(|app| app.generations());
        self.discard(all.filter(|generation| generation.kind() == Kind::Merge));
        // Those of executors keep their files, and may hang.
        let (resources, places) = (&self.resources, usize::from(self.disk_count()));
        for place in 0..places {
            let end_ms = self.now_ms() + LAST_HOLES_MS / places as u64;
            while resources.trash.empty(place, resources) && self.now_ms() < end_ms {}
        }
        writing(&self.applications).clear();
        locked(&self.locks).clear();
    }
}

/// The directories, each by its one name.
fn named_once(dirs: &[PathBuf], fs: &dyn Fs) -> Result<Vec<String>, OpenError> {
    let mut named = Vec::new();
    for dir in dirs {
        let canonical = fs.canonical(dir).unwrap_or_else(|_| dir.clone());
        let name = canonical.to_string_lossy().into_owned();
        if named.contains(&name) {
            return Err(OpenError::GivenTwice(dir.clone()));
        }
        named.push(name);
    }
    Ok(named)
}

/// Names the data directories in which other users may rename and replace the daemon's own.
fn warn_of_other_writers(dirs: &[String], fs: &dyn Fs) {
    for dir in dirs {
        // A directory that cannot be looked at cannot be used either.
        let access = fs.dir_access(dir.as_ref()).ok();
        if let Some(access) = access.filter(|access| access.lets_others_replace()) {
            tracing::warn!(
                dir, mode = %access,
                "other users may write to this data directory, and rename or replace what the \
                 daemon keeps there: let only its own user write to it (chmod go-w)"
            );
        }
    }
}

/// Returns true if this user alone may change these directories of this daemon. Some filesystems
/// give every directory one mode or one owner.
fn are_private(roots: &[PathBuf], fs: &dyn Fs) -> bool {
    let is_private = |root: &&PathBuf| match fs.dir_access(root) {
        Ok(access) if !access.is_private() => {
            tracing::warn!(
                dir = %root.display(), mode = %access, is_own = access.is_own,
                "this directory has another mode or owner than the daemon gives it: a restart will \
                 lose remote shuffles and registrations of executors. Mount the disk so that the \
                 daemon's user owns its files and directories have mode 700 (dir_mode=0700), or \
                 choose another --dir"
            );
            false
        }
        // A disk that cannot be looked at now may be well when the daemon stops.
        _ => true,
    };
    roots.iter().filter(is_private).count() == roots.len()
}

/// Makes a new incarnation's directory on each disk.
fn make_start_dirs(dirs: &[PathBuf], environment: &Environment) -> Result<StartDirs, OpenError> {
    let incarnation = incarnation::draw(environment.random.as_ref())?;
    let (mut roots, mut locks) = (Vec::new(), Vec::new());
    for dir in dirs {
        match incarnation::create(dir, incarnation, environment) {
            Ok((root, lock)) => {
                roots.push(root);
                locks.push(lock);
            }
            Err(error) => {
                let fs = environment.fs.as_ref();
                roots
                    .iter()
                    .for_each(|root| incarnation::remove(fs, root, &|| {}));
                return Err(error);
            }
        }
    }
    Ok((incarnation, roots, locks))
}
