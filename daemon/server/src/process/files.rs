// SPDX-License-Identifier: Apache-2.0
//! The limit of open files.

use lodestone_store::MAP_FILES_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::connection::GATHERED_CHUNKS;
use crate::service::lanes::{FOREIGN_READS, READS};

/// Descriptors for other things than connections: listeners, locks, files that are open for
/// writing, directories of executors.
const OTHER_FILES: usize = 512;

/// These, map outputs that stay open, and blocks that are sent together.
const SPARE_FILES: u64 =
    (OTHER_FILES + MAP_FILES_MAX + (READS + FOREIGN_READS) * GATHERED_CHUNKS) as u64;

/// Returns the number of files that a daemon may have open with so many connections: each takes a
/// descriptor, and one more while a chunk of a file is sent on it.
pub fn needed(max_connections: usize) -> u64 {
    2 * max_connections as u64 + SPARE_FILES
}

/// Returns the number of files that this process may open after it has raised its limit. None:
/// any number.
pub fn hard_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// The usual soft limit of 1024 is far below the hard one, and is for programs that use `select`.
pub fn raise_file_limit(max_connections: usize) {
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: before.maximum,
        ..before
    };
    let limit = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => wanted.current,
        Err(_) => before.current,
    };
    let needed = needed(max_connections);
    if limit.is_some_and(|limit| limit < needed) {
        tracing::warn!(
            limit,
            needed,
            "too few open files (ulimit -Hn) for that many connections"
        );
    }
}
