// SPDX-License-Identifier: Apache-2.0
//! Spark removes blocks of an executor that is gone.

use std::collections::BTreeMap;

use lodestone_model::{AppId, Refusal, is_path_segment};
use lodestone_planted::{self as planted, Bug};

use crate::resource::dirs::{HashedDirs, NameHash};
use crate::state::store::Store;

/// Blocks of an executor on one disk. They keep the directories that the executor had when Spark
/// named them: a removal may wait for its disk, and the executor may register again meanwhile.
#[derive(Debug)]
pub struct NamedBlocks {
    app: AppId,
    exec: String,
    dirs: HashedDirs,
    place: usize,
    names: Vec<String>,
}

impl NamedBlocks {
    /// The place of their disk.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The names of the blocks.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Store {
    /// Returns these blocks of an executor by the places of their disks. Asks no disk.
    pub fn blocks_by_place(
        &self,
        app: &AppId,
        exec: &str,
        blocks: Vec<String>,
    ) -> Result<Vec<NamedBlocks>, Refusal> {
        let dirs = self.executor_dirs(app, exec)?;
        let mut by_place: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for block in blocks {
            let place = dirs.place_of(NameHash::of(&block));
            by_place.entry(place).or_default().push(block);
        }
        let named = |(place, names)| NamedBlocks {
            app: app.clone(),
            exec: exec.to_owned(),
            dirs: dirs.clone(),
            place,
            names,
        };
        Ok(by_place.into_iter().map(named).collect())
    }

    /// Removes blocks that Spark names, and counts them. Only here the store removes files that it
    /// did not make: their owner asks for it. Asks the disk at their place only. Blocks of an
    /// executor that registered again since they were named stay: their names may be those of new
    /// files.
    pub fn remove_blocks(&self, blocks: &NamedBlocks) -> Result<u32, Refusal> {
        let NamedBlocks {
            app, exec, dirs, ..
        } = blocks;
        let mut removed = 0;
        for block in &blocks.names {
            if self.executor_dirs(app, exec)?.number() != dirs.number()
                && !planted::is(Bug::RegisteredAgainRemoved)
            {
                tracing::info!(%app, exec, "the executor registered again: its blocks stay");
                break;
            }
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
}
