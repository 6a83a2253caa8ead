// SPDX-License-Identifier: Apache-2.0
//! Executors announce where their files are.
//!
//! ```text
//! RegisterExecutor         2  appId, string execId, string[] localDirs, i32 subDirsPerLocalDir,
//!                             string shuffleManager
//! GetLocalDirsForExecutors 10 appId, string[] execIds
//! LocalDirsForExecutors    11 string[] execIds, i32[] dirsPerExec, string[] dirs
//! ```
//!
//! `RegisterExecutor` is answered with an empty `RpcResponse`.

use bytes::BytesMut;
use lodestone_model::AppId;

use crate::codec::{Field, FieldError, Message, Problem, Reader, message};

message! { lenient, 2;
    /// An executor's directories.
    pub struct RegisterExecutor {
        /// The application.
        pub app: AppId,
        /// The executor.
        pub exec_id: String,
        /// Its block manager directories.
        pub local_dirs: Vec<String>,
        /// Subdirectories in each.
        pub sub_dirs_per_local_dir: u32,
        /// Class name, with push enabled followed by `:` and a piece of JSON.
        pub shuffle_manager: String,
    }
}

message! { lenient, 10;
    /// Asks for the directories of executors on this host.
    pub struct GetLocalDirsForExecutors {
        /// The application.
        pub app: AppId,
        /// The executors.
        pub exec_ids: Vec<String>,
    }
}

impl GetLocalDirsForExecutors {
    /// Returns the application, without decoding the executors, which may be very many.
    pub fn app_of(payload: &[u8]) -> Option<AppId> {
        let mut input = Reader::new(payload);
        let id = input.u8().ok()?;
        (id == Self::ID).then(|| input.field("app").ok()).flatten()
    }
}

/// The directories of each executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalDirsForExecutors {
    /// Executor and its directories.
    pub executors: Vec<(String, Vec<String>)>,
}

impl Message for LocalDirsForExecutors {
    const ID: u8 = 11;
    const NAME: &'static str = "LocalDirsForExecutors";
    const STRICT: bool = false;

    fn encode_fields(&self, out: &mut BytesMut) {
        crate::codec::put_size(self.executors.len(), out);
        for (executor, _) in &self.executors {
            executor.put(out);
        }
        crate::codec::put_size(self.executors.len(), out);
        for (_, dirs) in &self.executors {
            crate::codec::put_size(dirs.len(), out);
        }
        let total = self.executors.iter().map(|(_, dirs)| dirs.len()).sum();
        crate::codec::put_size(total, out);
        for dir in self.executors.iter().flat_map(|(_, dirs)| dirs) {
            dir.put(out);
        }
    }

    fn decode_fields(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        let names: Vec<String> = input.field("exec_ids")?;
        let counts: Vec<u32> = input.field("dirs_per_exec")?;
        let dirs: Vec<String> = input.field("dirs")?;
        if counts.len() != names.len() {
            let problem = Problem::UnequalArrays {
                expected: names.len(),
                actual: counts.len(),
            };
            return Err(FieldError::from(problem).at("dirs_per_exec"));
        }
        let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        if total != dirs.len() as u64 {
            let problem = Problem::UnequalArrays {
                expected: total as usize,
                actual: dirs.len(),
            };
            return Err(FieldError::from(problem).at("dirs"));
        }
        let mut rest = dirs.into_iter();
        let executors = names
            .into_iter()
            .zip(counts)
            .map(|(name, count)| (name, rest.by_ref().take(count as usize).collect()))
            .collect();
        Ok(Self { executors })
    }
}
