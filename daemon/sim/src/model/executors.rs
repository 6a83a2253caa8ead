// SPDX-License-Identifier: Apache-2.0
//! Executors, which each next daemon must know: the registrations of each executor that the running
//! daemon, or the next one, may have.

use std::collections::{BTreeMap, BTreeSet};

use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::spark::register::{
    GetLocalDirsForExecutors, LocalDirsForExecutors, RegisterExecutor,
};

use super::refusal::{Judged, agree, breach};
use super::{Model, Trouble, decoded};

/// The directories of an executor, or nothing if it is not known.
type Dirs = Option<Vec<String>>;

/// The possible registrations.
#[derive(Clone, Debug)]
struct Known {
    now: BTreeSet<Dirs>,
    next: BTreeSet<Dirs>,
    /// Registrations that a troubled daemon may not have read. Their age is unknown.
    missed: BTreeSet<Dirs>,
}

/// By application and executor.
#[derive(Debug, Default)]
pub(super) struct Executors(BTreeMap<(String, String), Known>);

impl Executors {
    fn of(&mut self, app: &str, exec: &str) -> &mut Known {
        let nothing = || Known {
            now: BTreeSet::from([None]),
            next: BTreeSet::from([None]),
            missed: BTreeSet::new(),
        };
        let name = (app.to_owned(), exec.to_owned());
        self.0.entry(name).or_insert_with(nothing)
    }

    /// A daemon starts. It does not know what it could not read, and leaves that for the next one.
    pub(super) fn start(&mut self, is_troubled: bool) {
        for known in self.0.values_mut() {
            known.now.clone_from(&known.next);
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
        if !trouble.writes {
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
}
