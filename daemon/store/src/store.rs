// SPDX-License-Identifier: Apache-2.0
//! The store: opening, closing, load, and relief of memory pressure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use crate::fs::Lock;
use crate::life::register::Application;
use crate::model::id::{AppId, Incarnation};
use crate::resource::budget::Budget;
use crate::resource::disk::Disks;
use crate::resource::incarnation::{self, Leftover, OpenError};
use crate::resource::pages::Pages;
use crate::resource::{Environment, Resources, locked, reading, writing};
use crate::spark::registrations::{Earlier, Registrations};

/// Directories (disks) of one store.
const DIRECTORIES_MAX: usize = 1024;

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// One directory per disk.
    pub dirs: Vec<PathBuf>,
    /// Memory for tails and metadata, at first. (What readers and sockets hold is the server's.)
    pub memory_bytes: u64,
    /// If not empty, the local directories that executors register must be below one of these.
    pub executor_roots: Vec<PathBuf>,
}

/// What a store can do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// At least one disk takes writes.
    Serving,
    /// No disk has room.
    DiskFull,
    /// No disk works.
    DiskFailed,
}

/// How busy a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLoad {
    /// What it can do.
    pub state: State,
    /// Bytes of tails and metadata.
    pub memory_used: u64,
    /// The limit of those.
    pub memory_limit: u64,
    /// Bytes free on the disks.
    pub disk_free: u64,
    /// Size of the disks in bytes.
    pub disk_total: u64,
    /// Registered shuffles.
    pub shuffles: u32,
}

/// The merge store. All calls block.
#[derive(Debug)]
pub struct Store {
    pub(crate) resources: Resources,
    /// In order, like all that is walked: a simulation that is run again must do the same.
    pub(crate) applications: RwLock<BTreeMap<AppId, Arc<Application>>>,
    /// Number of the next generation's directory.
    pub(crate) next_home: AtomicU64,
    pub(crate) executor_roots: Vec<PathBuf>,
    pub(crate) registrations: Registrations,
    incarnation: Incarnation,
    /// Held until the store is closed.
    locks: Mutex<Vec<Box<dyn Lock>>>,
}

impl Store {
    /// Checks the directories, removes what crashed daemons left in them, and makes this
    /// incarnation's own.
    pub fn open(config: StoreConfig, environment: Environment) -> Result<Arc<Self>, OpenError> {
        if config.dirs.is_empty() {
            return Err(OpenError::NoDirectory);
        }
        if config.dirs.len() > DIRECTORIES_MAX {
            return Err(OpenError::TooManyDirectories(config.dirs.len()));
        }
        let incarnation = incarnation::draw(environment.random.as_ref())?;
        let fs = environment.fs.as_ref();
        let mut seen = Vec::new();
        let (mut roots, mut locks) = (Vec::new(), Vec::new());
        for dir in &config.dirs {
            let canonical = fs.canonical(dir).unwrap_or_else(|_| dir.clone());
            let made = if seen.contains(&canonical) {
                Err(OpenError::GivenTwice(dir.clone()))
            } else {
                seen.push(canonical);
                incarnation::create(dir, incarnation, &environment)
            };
            match made {
                Ok((root, lock)) => {
                    roots.push(root);
                    locks.push(lock);
                }
                Err(error) => {
                    roots.iter().for_each(|root| incarnation::remove(fs, root));
                    return Err(error);
                }
            }
        }
        let leftovers: Vec<_> = config
            .dirs
            .iter()
            .flat_map(|dir| incarnation::leftovers(dir, fs))
            .collect();
        let earlier = Earlier::read(fs, leftovers.iter().map(|leftover| leftover.root.as_path()));
        let budget = Arc::new(Budget::new(config.memory_bytes));
        let root = roots.first().cloned().unwrap_or_default();
        let store = Arc::new(Self {
            registrations: Registrations::new(root, earlier.number),
            resources: Resources {
                disks: Disks::new(roots),
                pages: Pages::new(Arc::clone(&budget)),
                budget,
                environment,
            },
            applications: RwLock::default(),
            next_home: AtomicU64::new(0),
            executor_roots: config.executor_roots,
            incarnation,
            locks: Mutex::new(locks),
        });
        store.follow(earlier, &leftovers);
        Ok(store)
    }

    /// Takes over from starts that have ended, and removes what they left.
    fn follow(&self, earlier: Earlier, leftovers: &[Leftover]) {
        let fs = self.resources.fs();
        for Leftover { root, .. } in leftovers {
            tracing::info!(dir = %root.display(), "remove what an earlier start left");
            incarnation::remove_data(fs, root);
        }
        let was_read = earlier.is_whole;
        let executors = self.take_over(earlier.registrations);
        if executors > 0 {
            tracing::info!(executors, "executors of an earlier start are taken over");
        }
        if was_read && (executors == 0 || self.registrations.are_kept()) {
            for leftover in leftovers {
                incarnation::remove(fs, &leftover.root);
            }
        }
    }

    /// Removes this incarnation's directories, but for what the next start must know. What is still
    /// asked afterwards is refused as unknown. Files in Spark's merge directories stay: executors
    /// read them without us, and Spark removes them.
    pub fn close(&self) {
        let executors = self.known_registrations().len();
        writing(&self.applications).clear();
        for root in self.resources.disks.roots() {
            let fs = self.resources.fs();
            if executors > 0 && self.registrations.are_in(root) {
                incarnation::remove_data(fs, root);
            } else {
                incarnation::remove(fs, root);
            }
        }
        locked(&self.locks).clear();
    }

    /// Changes the limit of the memory, as that which the host can spare does. What is over it goes to
    /// disk.
    pub fn limit_memory(&self, bytes: u64) {
        self.resources.budget.set_limit(bytes);
        self.relieve_memory();
        self.resources.pages.trim();
    }

    /// Gives memory back that was not needed for half an hour.
    pub fn give_back_idle_memory(&self) {
        self.resources.pages.give_back_idle(self.now_ms());
    }

    /// Memory that the store holds, free pages included.
    pub fn memory_held(&self) -> u64 {
        self.resources.pages.bytes() + self.resources.budget.metadata()
    }

    /// Milliseconds on the store's clock, which never goes back.
    pub fn now_ms(&self) -> u64 {
        self.resources.now_ms()
    }

    /// The id of this daemon start.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// How busy the store is. Tries disks that were taken out, so that a service which is avoided
    /// because of its disks is found well again.
    pub fn load(&self) -> StoreLoad {
        let environment = &self.resources.environment;
        let state = match self.resources.disks.place(0, environment) {
            Ok(_) => State::Serving,
            Err(crate::Code::DiskFull) => State::DiskFull,
            Err(_) => State::DiskFailed,
        };
        let space = self.resources.disks.space(environment);
        let shuffles: usize = self
            .all_applications()
            .iter()
            .map(|app| app.shuffle_count())
            .sum();
        StoreLoad {
            state,
            memory_used: self.resources.budget.used(),
            memory_limit: self.resources.budget.limit(),
            disk_free: space.free,
            disk_total: space.total,
            shuffles: u32::try_from(shuffles).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn all_applications(&self) -> Vec<Arc<Application>> {
        reading(&self.applications).values().cloned().collect()
    }
}
