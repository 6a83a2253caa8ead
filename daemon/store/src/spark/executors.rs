// SPDX-License-Identifier: Apache-2.0
//! Executors register with Spark's own protocol, and Spark asks for their directories.

use std::path::{Component, Path};
use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Code, Refusal, check_name, is_path_segment};

use super::places::FoundDir;
use crate::resource::dirs::HashedDirs;
use crate::resource::locked;
use crate::resource::names::{HeldNames, Names};
use crate::state::executors::{Executor, ExecutorInfo};
use crate::state::registration_files::Registration;
use crate::state::store::Store;

/// Directories of one executor, subdirectories of one directory.
pub const LOCAL_DIRS_MAX: usize = 1_024;
const SUB_DIRS_MAX: u32 = 4_096;

/// The longest path that Linux takes.
const DIR_BYTES_MAX: usize = 4_096;

/// A directory without its names: here, in lists of directories, and in the file for the next
/// daemon.
const DIR_BYTES: usize = 256;

/// An executor without its directories, and a part of its application.
const EXECUTOR_BYTES: u64 = 512;

/// Memory of the names of an executor's directories: as given, without links, and beside them the
/// merge directory.
fn names_bytes(info: &ExecutorInfo) -> u64 {
    let dirs = info.local_dirs.iter();
    let names = dirs.map(|dir| (3 * dir.len() + DIR_BYTES) as u64);
    EXECUTOR_BYTES + names.sum::<u64>()
}

/// Why an executor is refused, and what its operator can do.
const NO_ROOM: &str = "no room for the names of more executors' directories, or not for those of \
                       this application: the daemon needs more --memory";

impl Store {
    /// Registers an executor, or replaces its earlier registration. The first one of an application
    /// attempt decides where merged files go; a higher attempt replaces the older one.
    pub fn register_executor(
        &self,
        app: &AppId,
        exec: &str,
        attempt: AppAttempt,
        info: ExecutorInfo,
    ) -> Result<(), Refusal> {
        let registration = (attempt, info.clone());
        match self.register(app, exec, None, registration, Names::hold) {
            Err(full) if full.code == Code::Overloaded && self.make_room(app, &info) => {
                self.register(app, exec, None, (attempt, info), Names::hold)
            }
            done => done,
        }
    }

    /// Registers an executor that an earlier daemon knew. It keeps its serial: this daemon may have
    /// read an old file, and the last registration must count when another disk is back.
    pub(crate) fn register_again(&self, registration: Registration) -> Result<(), Refusal> {
        let Registration {
            serial,
            app,
            attempt,
            executor,
            info,
        } = registration;
        let (app, info) = (AppId::new(&app)?, (AppAttempt(attempt), info));
        self.register(&app, &executor, Some(serial), info, Names::hold_again)
    }

    fn register(
        &self,
        app: &AppId,
        exec: &str,
        serial: Option<u64>,
        (attempt, info): (AppAttempt, ExecutorInfo),
        hold: fn(&Arc<Names>, &AppId, u64) -> Option<HeldNames>,
    ) -> Result<(), Refusal> {
        check_name("an executor id", exec)?;
        self.check_dirs(&info)?;
        let names = self.held_names(app, exec, attempt, &info);
        let names = names.or_else(|| {
            let names = hold(&self.resources.names, app, names_bytes(&info));
            names.map(Arc::new)
        });
        let names = names.ok_or_else(|| Code::Overloaded.because(NO_ROOM))?;
        let merge_dirs = match &info.merge_dir {
            None => None,
            Some(name) => Some(self.merge_dirs(&info, name)?),
        };
        let mounts = self.resources.fs().mounts();
        let dirs = info.local_dirs.iter();
        let dirs: Vec<_> = dirs
            .map(|dir| self.found_dir(dir.clone(), Path::new(dir), ""))
            .collect();
        let bases = dirs.iter().map(|dir| dir.base.as_path());
        self.resources.foreign_dirs.close(bases);
        let log = self.registrations.turn();
        let mut replaced = Vec::new();
        let outcome = self.with_application(app, attempt, |state| {
            state.executors.check_room(app, exec)?;
            let mut placed = |dirs: Vec<FoundDir>| {
                let new_disks = &mut state.executors.new_disks;
                let dirs = dirs.into_iter();
                let dirs = dirs.map(|dir| self.placed(dir, &mounts, new_disks));
                HashedDirs::new(dirs.collect(), info.sub_dirs)
            };
            let unix_ms = self.resources.environment.clock.unix_ms();
            let executor = Executor {
                serial: serial.unwrap_or_else(|| self.registrations.next_serial(unix_ms)),
                attempt,
                dirs: placed(dirs).holding(names),
                merge_dir: info.merge_dir,
            };
            let merge_dirs = merge_dirs.map(placed);
            let registration = executor.registration(app, exec);
            let is_news = state.executors.put(app, exec, executor)?;
            if merge_dirs.is_some() && attempt > state.attempt {
                replaced = state.start_attempt(attempt);
            }
            if attempt == state.attempt {
                state.executors.offer_merge_dirs(merge_dirs);
            }
            Ok((is_news, registration))
        });
        if let Ok((is_news, registration)) = &outcome {
            self.write_down(log, *is_news, registration);
        }
        self.discard(replaced);
        outcome.map(|_| ())
    }

    /// Returns the directories of an executor; those of `shuffle-push-merger` are the merge
    /// directories.
    pub fn local_dirs(&self, app: &AppId, exec: &str) -> Result<Vec<String>, Refusal> {
        self.executor_dirs(app, exec).map(|dirs| dirs.names())
    }

    /// Number and bytes of the names of these directories, if the executor is known.
    pub fn local_dirs_size(&self, app: &AppId, exec: &str) -> Option<(usize, usize)> {
        let dirs = self.executor_dirs(app, exec);
        dirs.ok().map(|dirs| dirs.names_size())
    }

    pub(crate) fn executor_dirs(&self, app: &AppId, exec: &str) -> Result<HashedDirs, Refusal> {
        let unknown = || {
            let detail = format!("Executor is not registered (appId={app}, execId={exec})");
            Code::UnknownApplication.because(detail)
        };
        let application = self.application(app).map_err(|_| unknown())?;
        let state = locked(&application.state);
        state.executors.dirs(exec).cloned().ok_or_else(unknown)
    }

    /// Directories become paths that are read, written and removed: they must be real directories
    /// below the roots.
    fn check_dirs(&self, info: &ExecutorInfo) -> Result<(), Refusal> {
        let malformed = |detail: String| Err(Code::Malformed.because(detail));
        if info.local_dirs.is_empty() || info.local_dirs.len() > LOCAL_DIRS_MAX {
            return malformed(format!("{} local directories", info.local_dirs.len()));
        }
        if info.sub_dirs == 0 || info.sub_dirs > SUB_DIRS_MAX {
            return malformed(format!("{} subdirectories", info.sub_dirs));
        }
        for dir in &info.local_dirs {
            if dir.len() > DIR_BYTES_MAX {
                return malformed(format!("a local directory of {} bytes", dir.len()));
            }
            // It would break lines of the log.
            if dir.contains(char::is_control) {
                return malformed("a local directory with a control character".to_owned());
            }
            let path = Path::new(dir);
            let plain = path.components().all(|part| part != Component::ParentDir);
            if !path.is_absolute() || !plain {
                return malformed(format!(
                    "local directory {dir} is not an absolute, plain path"
                ));
            }
            if !self.is_below_roots(path) {
                return malformed(format!(
                    "local directory {dir} is outside of the allowed ones"
                ));
            }
        }
        Ok(())
    }

    /// Returns true if the directory, and also what is made beside it, is below a root. A root
    /// itself is not below it, and a link to a directory below it may be anywhere.
    fn is_below_roots(&self, dir: &Path) -> bool {
        if self.executor_roots.is_empty() {
            return true;
        }
        let fs = self.resources.fs();
        let Some((dir, beside)) = dir
            .parent()
            .and_then(|parent| fs.canonical(dir).ok().zip(fs.canonical(parent).ok()))
        else {
            return false;
        };
        let is_below =
            |root: &Path| dir != root && dir.starts_with(root) && beside.starts_with(root);
        // Roots with links come last: to look for links asks the disks of all roots, and one may
        // hang. A path without links that begins with a root shows that this root has none.
        let mut roots = self.executor_roots.iter();
        roots.clone().any(|root| is_below(root))
            || roots.any(|root| fs.canonical(root).is_ok_and(|root| is_below(&root)))
    }

    /// `<parent of each local directory>/<name>`.
    fn merge_dirs(&self, info: &ExecutorInfo, name: &str) -> Result<Vec<FoundDir>, Refusal> {
        if !is_path_segment(name) {
            let detail = format!("merge directory {name:?} is no plain name");
            return Err(Code::Malformed.because(detail));
        }
        let beside = |dir: &String| {
            let Some(parent) = Path::new(dir).parent() else {
                return Err(Code::Malformed.because(format!("{dir} has no parent")));
            };
            let plain = parent.to_string_lossy();
            let known = format!("{}/{name}", plain.trim_end_matches('/'));
            Ok(self.found_dir(known, parent, name))
        };
        info.local_dirs.iter().map(beside).collect()
    }
}
