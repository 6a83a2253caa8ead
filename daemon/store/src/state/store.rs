// SPDX-License-Identifier: Apache-2.0
//! The store: its state, and the look-ups in it. The modules above say what is done with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lodestone_model::{AppAttempt, AppId, Code, Load, Refusal, ShuffleKey, State};
use lodestone_planted::{self as planted, Bug};

use super::application::{Application, ApplicationState, unknown_application};
use super::generation::Generation;
use super::registration_files::Registration;
use super::registrations::Registrations;
use super::removal::Removal;
use crate::fs::Lock;
use crate::resource::account::Account;
use crate::resource::disk::DiskIndex;
use crate::resource::incarnation::Incarnation;
use crate::resource::{Resources, locked, reading, writing};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, RwLock};

/// The merge store. Calls block, unless they say that they ask no disk.
#[derive(Debug)]
pub struct Store {
    pub(crate) resources: Resources,
    /// Sorted, like everything that is iterated over: a simulation that is repeated must do the
    /// same.
    pub(crate) applications: RwLock<BTreeMap<AppId, Arc<Application>>>,
    /// Number of the next generation's directory.
    pub(crate) next_home: AtomicU64,
    /// The data directories, without links and dots.
    pub(crate) dirs: Vec<String>,
    pub(crate) executor_roots: Vec<PathBuf>,
    pub(crate) registrations: Registrations,
    /// Removals that other threads hold up.
    pub(crate) unfinished: Mutex<Vec<Removal>>,
    /// Nothing new is taken.
    pub(crate) draining: AtomicBool,
    /// A drain begins, or is cancelled.
    pub(crate) drain_turn: Mutex<()>,
    pub(crate) incarnation: Incarnation,
    /// A random number of this daemon; an incarnation may have had several daemons.
    pub(crate) process_number: u64,
    /// This user alone may change the directories of this incarnation: the next daemon takes over
    /// from them.
    pub(crate) is_private: bool,
    /// Held until the store is closed.
    pub(crate) locks: Mutex<Vec<Box<dyn Lock>>>,
}

impl Store {
    /// Milliseconds on the store's clock, which never goes back.
    pub fn now_ms(&self) -> u64 {
        self.resources.now_ms()
    }

    /// Milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.resources.environment.clock.unix_ms()
    }

    /// Returns the incarnation under which clients know the shuffles: of this daemon, or of the one
    /// that handed them over.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns a random number of this daemon, which no other daemon has.
    pub fn process_number(&self) -> u64 {
        self.process_number
    }

    /// Closes the map outputs that stay open: removed ones keep their space until then. May block
    /// as long as a disk hangs. Call every second.
    pub fn close_map_files(&self) {
        self.resources.map_files.close();
    }

    /// Looks after all places: see [`Store::look_after`].
    pub fn look_after_all(&self) {
        self.close_map_files();
        (0..self.places_in_use()).for_each(|place| self.look_after(place));
    }

    /// Looks after one place. It asks the disk of a data directory how much room it has, and probes
    /// a disk that is out of use: drivers use the service again when the disk works. Then it
    /// deletes the files there that nobody needs any more, and frees the space of aborted attempts
    /// in others. The places of executors' disks follow
    /// those of the data directories. Blocks as long as the disk hangs.
    pub fn look_after(&self, place: usize) {
        let resources = &self.resources;
        if let Ok(index) = DiskIndex::try_from(place) {
            resources.disks.look_at(index, &resources.environment);
        }
        self.repair_registrations(place);
        resources.trash.empty(place, resources);
    }

    /// Returns the number of places that are in use: those of the data directories, and after these
    /// those of disks of executors. It grows.
    pub fn places_in_use(&self) -> usize {
        let disks = &self.resources.disks;
        disks.len() + disks.foreign().in_use()
    }

    /// Returns the number of data directories.
    pub fn disk_count(&self) -> u16 {
        u16::try_from(self.resources.disks.len()).unwrap_or(u16::MAX)
    }

    /// Returns for each data directory the reason why it takes no data, as far as is known. Asks no
    /// disk.
    pub fn disk_refusals(&self) -> Vec<Option<Code>> {
        self.resources.disks.refusals(&self.resources.environment)
    }

    /// Returns for each data directory the bytes that stay free on its disk. Asks no disk.
    pub fn disk_reserves(&self) -> Vec<u64> {
        self.resources.disks.reserves()
    }

    /// Returns the number of applications that are known.
    pub fn application_count(&self) -> usize {
        reading(&self.applications).len()
    }

    /// Returns how busy the store is; the store knows no connections. Asks no disk: what it says of
    /// them was seen at the last look.
    pub fn load(&self) -> Load {
        let environment = &self.resources.environment;
        let state = match self.resources.disks.known(environment) {
            _ if self.is_draining() => State::Draining,
            Ok(_) => State::Serving,
            Err(Code::DiskFull) => State::DiskFull,
            Err(_) => State::DiskFailed,
        };
        let space = self.resources.disks.space();
        let shuffles: usize = self
            .all_applications()
            .iter()
            .map(|app| app.shuffle_count())
            .sum();
        Load {
            state,
            memory_used: self.resources.budget.used(),
            memory_limit: self.resources.budget.limit(),
            disk_free: space.free,
            disk_total: space.total,
            connections: 0,
            shuffles: u32::try_from(shuffles).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Runs `work` on the application, which is made if it is unknown.
    pub(crate) fn with_application<T>(
        &self,
        app: &AppId,
        attempt: AppAttempt,
        work: impl FnOnce(&mut ApplicationState) -> T,
    ) -> T {
        loop {
            let known = reading(&self.applications).get(app).cloned();
            let application = known.unwrap_or_else(|| {
                let mut applications = writing(&self.applications);
                Arc::clone(applications.entry(app.clone()).or_insert_with(|| {
                    let account = Account::new(&self.resources.budget);
                    Arc::new(Application {
                        state: Mutex::new(ApplicationState::new(attempt, account)),
                    })
                }))
            });
            let mut state = locked(&application.state);
            if !state.ended {
                return work(&mut state);
            }
        }
    }

    /// Ok if the application is known.
    pub fn check_application(&self, app: &AppId) -> Result<(), Refusal> {
        self.application(app).map(drop)
    }

    /// The application, if it is known.
    pub(crate) fn application(&self, app: &AppId) -> Result<Arc<Application>, Refusal> {
        reading(&self.applications)
            .get(app)
            .cloned()
            .ok_or_else(|| unknown_application(app))
    }

    /// The generation that `key` names. A removed one is refused with `removed`.
    pub(crate) fn generation(
        &self,
        key: &ShuffleKey,
        removed: Code,
    ) -> Result<Arc<Generation>, Refusal> {
        let application = self.application(&key.app)?;
        let state = locked(&application.state);
        state.check_attempt(&key.app, key.attempt)?;
        let stale = |generation| {
            Code::StaleGeneration.because(format!("{key}: generation {generation} is known"))
        };
        if let Some(current) = state.shuffles.get(&key.shuffle) {
            if current.home.is_lost() {
                return Err(Code::UnknownShuffle.because(format!("{key} has lost files here")));
            }
            match current.key.generation {
                generation if generation == key.generation => return Ok(Arc::clone(current)),
                generation if generation > key.generation => {
                    return match planted::is(Bug::StaleGenerationTaken) {
                        true => Ok(Arc::clone(current)),
                        false => Err(stale(generation)),
                    };
                }
                _ => {}
            }
        } else if let Some(generation) = state.tombstones.get(key.shuffle) {
            match generation {
                generation if generation == key.generation => {
                    return Err(removed.because(format!("{key} was removed")));
                }
                generation if generation > key.generation => return Err(stale(generation)),
                _ => {}
            }
        }
        Err(Code::UnknownShuffle.because(format!("{key} was never registered here")))
    }

    pub(crate) fn all_applications(&self) -> Vec<Arc<Application>> {
        reading(&self.applications).values().cloned().collect()
    }

    /// All generations whose data is nowhere else.
    pub(crate) fn all_remote(&self) -> Vec<Arc<Generation>> {
        self.all_applications()
            .iter()
            .flat_map(|application| application.generations())
            .filter(|generation| !generation.kind().has_originals())
            .collect()
    }

    pub(crate) fn known_registrations(&self) -> Vec<Registration> {
        let applications = reading(&self.applications);
        let of = |(app, application): (&AppId, &Arc<Application>)| {
            let state = locked(&application.state);
            state.executors.registrations(app).collect::<Vec<_>>()
        };
        applications.iter().flat_map(of).collect()
    }
}
