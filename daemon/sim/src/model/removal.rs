// SPDX-License-Identifier: Apache-2.0
//! Spark removes blocks of an executor: which files must be gone after it, and no other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lodestone_server::handler::Answer;
use lodestone_wire::spark::remove::RemoveBlocks;

use super::refusal::{Judged, agree, breach};
use super::{Model, decoded};
use crate::client::path_of;

/// A removal that the daemon has begun.
#[derive(Clone, Debug)]
pub struct Removal {
    app: String,
    exec: String,
    /// Registrations of the executor before.
    registrations: u64,
    /// The files, for each of the registrations that the daemon may have.
    paths: Vec<BTreeSet<PathBuf>>,
}

impl Model {
    /// Judges whether a removal may begin. `refused`: the answer, if it does not.
    pub fn begin_removal(
        &mut self,
        request: &[u8],
        refused: Option<&Answer>,
    ) -> Judged<Option<Removal>> {
        let request: RemoveBlocks = decoded(request)?;
        let (app, exec) = (request.app.as_str(), request.exec_id.as_str());
        let known = self.executors.of(app, exec);
        if let Some(answer) = refused {
            agree("answer", &matches!(answer, Answer::Failure(_)), &true)?;
            return match known.narrow(Option::is_none) {
                true => Ok(None),
                false => breach(format!("executor {exec} must be known")),
            };
        }
        if !known.narrow(Option::is_some) {
            return breach(format!("executor {exec} must not be known"));
        }
        let is_block = |name: &&String| name.starts_with("shuffle") || name.starts_with("rdd_");
        let names = request.block_ids.iter().filter(is_block);
        let paths = |dirs: &Vec<String>| names.clone().map(|name| path_of(dirs, name)).collect();
        let removal = Removal {
            app: app.to_owned(),
            exec: exec.to_owned(),
            registrations: known.registrations,
            paths: known.now.iter().flatten().map(paths).collect(),
        };
        let all = removal.paths.iter().flatten().cloned();
        self.files.removing.extend(all);
        Ok(Some(removal))
    }

    /// Judges the part of a removal at one place. `there` says whether a file is on the disk;
    /// `is_troubled`: it could not be asked for all that it was to do.
    pub fn removed(
        &mut self,
        removal: &Removal,
        parts: &BTreeSet<String>,
        outcome: &Result<u32, Answer>,
        is_troubled: bool,
        there: impl Fn(&Path) -> bool,
    ) -> Judged {
        let known = self.executors.of(&removal.app, &removal.exec);
        let count = match outcome {
            Ok(count) => *count as usize,
            Err(_) if known.narrow(Option::is_none) => 0,
            Err(answer) => return breach(format!("a removal was refused: {answer:?}")),
        };
        let is_same = known.registrations == removal.registrations && outcome.is_ok();
        let of_part = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| parts.contains(name))
        };
        let candidates = removal.paths.iter();
        let mut candidates = candidates.map(|paths| paths.iter().filter(of_part));
        let files = &mut self.files;
        let removed = |path: &&PathBuf| is_same && files.has(path) && !there(path);
        let mut gone: BTreeSet<PathBuf> = BTreeSet::new();
        for paths in candidates.clone() {
            gone.extend(paths.filter(removed).cloned());
        }
        agree("blocks removed", &count, &gone.len())?;
        if let (Some(only), None) = (candidates.next(), candidates.next())
            && is_same
            && !is_troubled
        {
            let mut left = only.filter(|path| files.has(path) && there(path));
            if let Some(left) = left.next() {
                return breach(format!("{} was not removed", left.display()));
            }
        }
        files.keep(|path| !gone.contains(path));
        Ok(())
    }

    /// The daemon was killed: of the removals that it had begun, some are done.
    pub fn removals_end(&mut self, there: impl Fn(&Path) -> bool) {
        let removing = std::mem::take(&mut self.files.removing);
        self.files
            .keep(|path| !removing.contains(path) || there(path));
    }
}
