// SPDX-License-Identifier: Apache-2.0
//! Executors, which each next daemon must know: the registrations of each executor that the running
//! daemon, or the next one, may have.

use std::collections::{BTreeMap, BTreeSet};

use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::spark::register::{
    GetLocalDirsForExecutors, LocalDirsForExecutors, RegisterExecutor,
};

use super::originals::Files;
use super::refusal::{Judged, agree, breach};
use super::{Model, Trouble, decoded};
use crate::client::{EXECUTOR_APP, PUSHING_APP, PUSHING_EXECUTOR};

/// The directories of an executor, or nothing if it is not known.
pub(super) type Dirs = Option<Vec<String>>;

/// The possible registrations.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) now: BTreeSet<Dirs>,
    /// How often it registered at this daemon.
    pub(super) registrations: u64,
    next: BTreeSet<Dirs>,
    /// Registrations that a troubled daemon may not have read. Their age is unknown.
    missed: BTreeSet<Dirs>,
}

impl Known {
    /// Finds out that only some of the registrations are possible. Returns false if none is.
    pub(super) fn narrow(&mut self, is_possible: impl Fn(&Dirs) -> bool) -> bool {
        let possible: BTreeSet<_> = self
            .now
            .iter()
            .filter(|dirs| is_possible(dirs))
            .cloned()
            .collect();
        if possible.is_empty() {
            return false;
        }
        self.now = possible;
        true
    }
}

/// By application and executor.
#[derive(Debug, Default)]
pub(super) struct Executors(BTreeMap<(String, String), Known>);

impl Executors {
    pub(super) fn of(&mut self, app: &str, exec: &str) -> &mut Known {
        let nothing = || Known {
            now: BTreeSet::from([None]),
            registrations: 0,
            next: BTreeSet::from([None]),
            missed: BTreeSet::new(),
        };
        let name = (app.to_owned(), exec.to_owned());
        self.0.entry(name).or_insert_with(nothing)
    }

    /// The executor for which blocks of Spark's own push are merged.
    pub(super) fn pushing(&mut self) -> &mut Known {
        self.of(PUSHING_APP, PUSHING_EXECUTOR)
    }

    /// A daemon starts. It does not know what it could not read, and leaves that for the next one.
    /// Executors whose directories are gone are not taken over.
    pub(super) fn start(&mut self, is_troubled: bool, files: &Files) {
        let present = |dirs: &Dirs| dirs.clone().filter(|dirs| !files.are_gone(dirs));
        for known in self.0.values_mut() {
            known.registrations = 0;
            known.now = known.next.iter().map(present).collect();
            known.next.append(&mut known.now.clone());
            if is_troubled {
                known.missed.append(&mut known.next.clone());
                known.now.insert(None);
            }
        }
    }
}

impl Model {
    /// A request is about to be carried out: if the daemon dies meanwhile, it may have been carried
    /// out, or not.
    pub fn ask(&mut self, request: &[u8]) {
        if let Ok(register) = RegisterExecutor::from_bytes(request) {
            let known = self.executors.of(register.app.as_str(), &register.exec_id);
            known.next.insert(Some(register.local_dirs));
        }
    }

    pub(super) fn register_executor(
        &mut self,
        request: &[u8],
        answer: &Answer,
        trouble: Trouble,
    ) -> Judged {
        let request: RegisterExecutor = decoded(request)?;
        agree("answer", answer, &Answer::Response(bytes::Bytes::new()))?;
        let dirs = BTreeSet::from([Some(request.local_dirs)]);
        let known = self.executors.of(request.app.as_str(), &request.exec_id);
        known.now = dirs;
        known.registrations += 1;
        if !trouble.writes && !trouble.descriptors {
            // Together with all that could not be written before.
            for known in self.executors.0.values_mut() {
                known.next = known.now.union(&known.missed).cloned().collect();
            }
        }
        Ok(())
    }

    pub(super) fn local_dirs(&mut self, request: &[u8], answer: &Answer) -> Judged {
        let request: GetLocalDirsForExecutors = decoded(request)?;
        let Some(exec) = request.exec_ids.first() else {
            return breach("a question for nobody");
        };
        let found = match answer {
            Answer::Failure(_) | Answer::Close => None,
            Answer::Response(bytes) => {
                let reply = LocalDirsForExecutors::from_bytes(bytes);
                let reply = reply.map_err(|error| format!("local directories: {error}"))?;
                reply.executors.into_iter().next().map(|(_, dirs)| dirs)
            }
        };
        let known = self.executors.of(request.app.as_str(), exec);
        if !known.now.contains(&found) {
            let possible = &known.now;
            return breach(format!(
                "executor {exec}: is {found:?}, may be {possible:?}"
            ));
        }
        known.now = BTreeSet::from([found]);
        Ok(())
    }

    /// An application is forgotten when all directories of its executors have been gone for long.
    pub(super) fn forget_gone(&mut self, app: &str) -> Judged {
        agree(
            "an application without executors that is forgotten",
            &app,
            &EXECUTOR_APP,
        )?;
        let of_app = self.executors.0.iter_mut();
        for ((_, exec), known) in of_app.filter(|((of, _), _)| of == app) {
            let is_there = |dirs: &Vec<String>| !self.files.are_gone(dirs);
            if known
                .now
                .iter()
                .all(|dirs| dirs.as_ref().is_some_and(is_there))
            {
                return breach(format!("executor {exec} is forgotten, and has directories"));
            }
            known.now = BTreeSet::from([None]);
            known.next.insert(None);
        }
        Ok(())
    }
}
