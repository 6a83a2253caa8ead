// SPDX-License-Identifier: Apache-2.0
//! Executors' files: they are written, directories vanish, and the daemon removes what Spark names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use lodestone_server::handler::Answer;
use lodestone_store::NamedBlocks;

use super::{Judged, Pending, Run};
use crate::client::{Deed, EXECUTOR_DIRS, EXECUTOR_DISKS, MERGE_DIRS};
use crate::model::Removal;
use crate::network::Envelope;

/// A removal of which a part is left.
pub(super) struct OpenRemoval {
    connection: u64,
    removal: Removal,
    parts: Vec<NamedBlocks>,
    count: u32,
}

impl Run {
    /// Does what executors decided to do in their directories.
    pub(super) fn executors_write(&mut self) {
        for deed in self.clients.take_deeds() {
            let fake = &self.world.disk.fake;
            if let Deed::Make(dirs) = &deed {
                dirs.iter().for_each(|dir| fake.add_dir(Path::new(dir)));
            }
            deed.written()
                .for_each(|(path, bytes)| fake.add_file(path, bytes));
            self.trace.record("executor", &[], || {
                format!("{deed:?}").chars().take(200).collect()
            });
            self.model.executor_did(deed);
        }
    }

    /// A directory of executors is removed by hand, or its disk is unmounted.
    pub(super) fn directory_vanishes(&mut self) {
        if let Some(dir) = self.dice.pick(&EXECUTOR_DIRS) {
            self.trace
                .record("vanishes", dir.as_bytes(), || dir.to_owned());
            self.count("directory vanished");
            self.world.disk.fake.wipe(Path::new(dir));
            self.model.vanish(dir);
        }
    }

    pub(super) fn begin_removal(&mut self, envelope: &Envelope, body: &Bytes) -> Judged {
        let connection = envelope.connection;
        let Some(begun) = self.world.begin_removal(connection, body) else {
            return Ok(());
        };
        self.trace
            .record("removal", body, || format!("of blocks: {begun:?}"));
        if self.settle()?.is_none() {
            return Ok(());
        }
        let refused = begun.as_ref().err();
        let removal = self.model.begin_removal(body, refused)?;
        if let (Ok(parts), Some(removal)) = (begun, removal) {
            self.pending.push(Pending::Removal(OpenRemoval {
                connection,
                removal,
                parts,
                count: 0,
            }));
        }
        Ok(())
    }

    /// Removes the blocks at one place. Others may do something before the next place.
    pub(super) fn remove_some(&mut self, mut open: OpenRemoval) -> Judged {
        let Some(part) = open.parts.pop() else {
            return Ok(());
        };
        let Some(outcome) = self.world.remove_some(open.connection, &part) else {
            return Ok(());
        };
        self.trace.record("removed", &[], || {
            format!("{:?}: {outcome:?}", part.names())
        });
        let Some(trouble) = self.settle()? else {
            return Ok(());
        };
        let fake = &self.world.disk.fake;
        let there = |path: &Path| fake.content(path).is_some();
        let names: BTreeSet<String> = part.names().iter().cloned().collect();
        let is_troubled = trouble.removals || trouble.descriptors;
        self.model
            .removed(&open.removal, &names, &outcome, is_troubled, there)?;
        open.count += outcome.as_ref().map_or(0, |count| *count);
        match outcome {
            Ok(_) if open.parts.is_empty() => {
                self.count(match open.count {
                    0 => "no block removed",
                    _ => "blocks removed",
                });
                self.check_files()
            }
            Ok(_) => {
                self.pending.push(Pending::Removal(open));
                Ok(())
            }
            Err(Answer::Failure(_)) => Ok(()),
            Err(other) => Err(format!("a removal was answered with {other:?}")),
        }
    }

    /// Compares the files on the disks of executors with those that they wrote.
    pub(super) fn check_files(&self) -> Judged {
        let fake = &self.world.disk.fake;
        let disks = EXECUTOR_DISKS.iter();
        let paths = disks.flat_map(|disk| fake.below(Path::new(disk)));
        let is_merged = |path: &PathBuf| MERGE_DIRS.iter().any(|dir| path.starts_with(dir));
        let mut paths = paths.filter(|path| !is_merged(path));
        let content = |path: PathBuf| Some((path.clone(), fake.content(&path)?));
        let found: BTreeMap<_, _> = paths.by_ref().filter_map(content).collect();
        self.model.check_files(&found)
    }
}
