// SPDX-License-Identifier: Apache-2.0
//! Executors that registered with Spark's own protocol, and their directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lodestone_model::{AppAttempt, AppId, Code, Refusal};
use serde::{Deserialize, Serialize};

use super::registrations::Registration;
use crate::resource::dirs::HashedDirs;

/// The executor whose "local directories" are the application's merge directories.
pub(crate) const MERGER: &str = "shuffle-push-merger";

/// Executors of one application.
pub const EXECUTORS_MAX: usize = 65_536;

/// The registration of an executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorInfo {
    /// Its block manager's directories.
    pub local_dirs: Vec<String>,
    /// Subdirectories in each, over which files are spread.
    pub sub_dirs: u32,
    /// Name of the merge directory beside each local directory, if pushes are on.
    pub merge_dir: Option<String>,
}

/// The executors of one application.
#[derive(Debug, Default)]
pub(crate) struct Executors {
    by_id: BTreeMap<String, Executor>,
    merge_dirs: Option<HashedDirs>,
}

/// One executor, as it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executor {
    pub(crate) attempt: AppAttempt,
    pub(crate) dirs: HashedDirs,
    pub(crate) merge_dir: Option<String>,
}

impl Executors {
    /// Puts an executor in place of what is known of it. Returns true if that changed anything.
    pub(crate) fn put(
        &mut self,
        app: &AppId,
        id: &str,
        executor: Executor,
    ) -> Result<bool, Refusal> {
        let before = self.by_id.get(id);
        if before.is_none() && self.by_id.len() >= EXECUTORS_MAX {
            return Err(Code::TooLarge.because(format!("{app} has {EXECUTORS_MAX} executors")));
        }
        let is_news = before != Some(&executor);
        self.by_id.insert(id.into(), executor);
        Ok(is_news)
    }

    /// The first ones stay, until they are forgotten.
    pub(crate) fn offer_merge_dirs(&mut self, dirs: Option<HashedDirs>) {
        if self.merge_dirs.is_none() {
            self.merge_dirs = dirs;
        }
    }

    pub(crate) fn merge_dirs(&self) -> Option<&HashedDirs> {
        self.merge_dirs.as_ref()
    }

    pub(crate) fn forget_merge_dirs(&mut self) {
        self.merge_dirs = None;
    }

    /// Every directory that was registered.
    pub(crate) fn all_dirs(&self) -> Vec<PathBuf> {
        let local = self.by_id.values().map(|executor| &executor.dirs);
        let dirs = local.chain(&self.merge_dirs);
        dirs.flat_map(|dirs| dirs.names().into_iter().map(PathBuf::from))
            .collect()
    }

    /// True if any directory was registered.
    pub(crate) fn has_dirs(&self) -> bool {
        self.bases().next().is_some()
    }

    /// The directories in which files of executors are found.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &Path> {
        let local = self.by_id.values().map(|executor| &executor.dirs);
        local.chain(&self.merge_dirs).flat_map(HashedDirs::bases)
    }

    /// The directories of this executor.
    pub(crate) fn dirs(&self, exec: &str) -> Option<&HashedDirs> {
        if exec == MERGER {
            self.merge_dirs.as_ref()
        } else {
            self.by_id.get(exec).map(|executor| &executor.dirs)
        }
    }

    pub(crate) fn registrations(&self, app: &AppId) -> impl Iterator<Item = Registration> {
        self.by_id
            .iter()
            .map(move |(exec, executor)| executor.registration(app, exec))
    }
}

impl Executor {
    pub(crate) fn registration(&self, app: &AppId, exec: &str) -> Registration {
        Registration {
            app: app.to_string(),
            attempt: self.attempt.0,
            executor: exec.to_owned(),
            info: ExecutorInfo {
                local_dirs: self.dirs.names(),
                sub_dirs: self.dirs.sub_dirs(),
                merge_dir: self.merge_dir.clone(),
            },
        }
    }
}
