// SPDX-License-Identifier: Apache-2.0
//! What one start of the daemon leaves for the next, when it is stopped and not killed: the remote
//! shuffles. Their data is written out, and where it is goes into a file; the next start on the same
//! directories takes it over under the same incarnation, so that nobody notices but by the pause.
//!
//! ```text
//! lodestone-<incarnation>/
//!   handover     on the first disk: notes, each with its length and checksum; the last one is `End`
//! ```
//!
//! It is taken over once: the file is removed before anything in it is used. A start that is killed
//! afterwards leaves no such file, and its data is what that of any killed start is: lost.

mod entries;
mod read;
mod write;

use std::io::{self, ErrorKind};
use std::path::Path;

pub(crate) use read::TakenOver;

use crate::fs::Fs;

/// The file's name.
pub(crate) const HANDOVER_NAME: &str = "handover";

/// What notes name was taken over, or is about to be removed: no later start may believe them. An error
/// says that one might.
pub(crate) fn forget(root: &Path, fs: &dyn Fs) -> io::Result<()> {
    match fs.remove_file(&root.join(HANDOVER_NAME)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
