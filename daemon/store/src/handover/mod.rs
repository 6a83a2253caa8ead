// SPDX-License-Identifier: Apache-2.0
//! The handover of remote shuffles from a daemon that is stopped, and not killed, to the next
//! daemon on the same directories. The first one writes out their data, and writes the positions of
//! the data to a file. The next one takes them over under the same incarnation; clients notice only
//! the pause.
//!
//! ```text
//! lodestone-<incarnation>/
//!   handover     on one of the disks: entries with length and checksum; the last one is `End`
//! ```
//!
//! The data of a shuffle is on disk before its entry is. So if a write hangs or fails, the entries
//! before it count.
//!
//! A handover is used once: the daemon removes the file before it uses anything in it. If this
//! daemon is killed, no file is left, and its data is lost like that of any daemon that is killed.

mod entries;
mod read;
mod write;

use std::io::{self, ErrorKind};
use std::path::Path;

pub(crate) use read::TakenOver;

use crate::fs::Fs;

/// The file's name.
pub(crate) const HANDOVER_NAME: &str = "handover";

/// Removes the handover file: the daemon took over its shuffles, or is about to remove them. No
/// later daemon may use it. An error means that a later daemon could.
pub(crate) fn forget(root: &Path, fs: &dyn Fs) -> io::Result<()> {
    match fs.remove_file(&root.join(HANDOVER_NAME)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
