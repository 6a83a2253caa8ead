// SPDX-License-Identifier: Apache-2.0
//! Executors register with Spark's own protocol, and Spark asks for their directories.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use lodestone_model::{AppAttempt, AppId, Code, Refusal, check_name, is_path_segment};

use crate::resource::dirs::{HashedDirs, SpreadDir};
use crate::resource::locked;
use crate::resource::names::{HeldNames, Names};
use crate::state::executors::{Executor, ExecutorInfo};
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
        match self.register(app, exec, (attempt, info.clone()), Names::hold) {
            Err(full) if full.code == Code::Overloaded && self.make_room(app, &info) => {
                self.register(app, exec, (attempt, info), Names::hold)
            }
            done => done,
        }
    }

    /// Registers an executor that an earlier daemon knew.
    pub(crate) fn register_again(
        &self,
        app: &AppId,
        exec: &str,
        attempt: AppAttempt,
        info: ExecutorInfo,
    ) -> Result<(), Refusal> {
        self.register(app, exec, (attempt, info), Names::hold_again)
    }

    fn register(
        &self,
        app: &AppId,
        exec: &str,
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
        let local_dirs = info.local_dirs.iter().map(|dir| SpreadDir {
            name: dir.clone(),
            base: self.without_links(Path::new(dir)),
            below: PathBuf::new(),
        });
        let executor = Executor {
            attempt,
            dirs: HashedDirs::new(local_dirs.collect(), info.sub_dirs).holding(names),
            merge_dir: info.merge_dir,
        };
        self.resources.foreign_dirs.close(executor.dirs.bases());
        let log = self.registrations.turn();
        let mut replaced = Vec::new();
        let outcome = self.with_application(app, attempt, |state| {
            let is_news = state.executors.put(app, exec, executor.clone())?;
            if merge_dirs.is_some() && attempt > state.attempt {
                replaced = state.start_attempt(attempt);
            }
            if attempt == state.attempt {
                state.executors.offer_merge_dirs(merge_dirs);
            }
            Ok(is_news)
        });
        if let Ok(is_news) = outcome {
            self.write_down(log, is_news, &executor.registration(app, exec));
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

    /// Removes blocks of an executor that Spark names, and counts them. Only here the store removes
    /// files that it did not make: their owner asks for it.
    pub fn remove_blocks(
        &self,
        app: &AppId,
        exec: &str,
        blocks: &[String],
    ) -> Result<u32, Refusal> {
        let dirs = self.executor_dirs(app, exec)?;
        let mut removed = 0;
        for block in blocks {
            let is_block_file = block.starts_with("shuffle") || block.starts_with("rdd_");
            if !is_block_file || !is_path_segment(block) {
                tracing::warn!(%app, exec, block, "this name is no block: kept");
                continue;
            }
            match self.resources.foreign().remove(&dirs.path(block)) {
                Ok(()) => removed += 1,
                Err(error) => {
                    tracing::info!(%app, exec, block, %error, "a block cannot be removed")
                }
            }
        }
        Ok(removed)
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
            let path = Path::new(dir);
            let plain = path.components().all(|part| part != Component::ParentDir);
            if !path.is_absolute() || !plain || dir.contains('\0') {
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
        self.executor_roots.iter().any(|root| {
            fs.canonical(root).is_ok_and(|root| {
                dir != root && dir.starts_with(&root) && beside.starts_with(&root)
            })
        })
    }

    /// `<parent of each local directory>/<name>`.
    fn merge_dirs(&self, info: &ExecutorInfo, name: &str) -> Result<HashedDirs, Refusal> {
        if !is_path_segment(name) {
            let detail = format!("merge directory {name} is no plain name");
            return Err(Code::Malformed.because(detail));
        }
        let beside = |dir: &String| {
            let Some(parent) = Path::new(dir).parent() else {
                return Err(Code::Malformed.because(format!("{dir} has no parent")));
            };
            let plain = parent.to_string_lossy();
            Ok(SpreadDir {
                name: format!("{}/{name}", plain.trim_end_matches('/')),
                base: self.without_links(parent),
                below: PathBuf::from(name),
            })
        };
        let dirs: Result<_, Refusal> = info.local_dirs.iter().map(beside).collect();
        Ok(HashedDirs::new(dirs?, info.sub_dirs))
    }

    /// From now on a directory is found without links: its owner could change them. A directory
    /// that does not exist yet is found only if there are none in its path.
    fn without_links(&self, dir: &Path) -> PathBuf {
        let found = self.resources.fs().canonical(dir);
        found.unwrap_or_else(|_| dir.into())
    }
}
