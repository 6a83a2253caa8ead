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
//! What was written is with the system, not yet on the disk: a handover counts only until the
//! machine is started again.
//!
//! A handover is used once: the daemon removes the file before it uses anything in it. If this
//! daemon is killed, no file is left, and its data is lost like that of any daemon that is killed.

mod entries;
mod read;
mod write;

use std::io::{self, ErrorKind};
use std::path::Path;

pub(crate) use read::TakenOver;

use crate::fs::{Fs, Open};

/// The file's name.
pub(crate) const HANDOVER_NAME: &str = "handover";

/// Where Linux names the current start of the machine.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// The longest name of a start.
const BOOT_ID_BYTES: usize = 64;

/// Returns the name of the current start of the machine; nothing if the system tells none.
fn boot_id(fs: &dyn Fs) -> Vec<u8> {
    let mut bytes = vec![0; BOOT_ID_BYTES];
    let file = fs.open(BOOT_ID_PATH.as_ref(), Open::Read);
    let read = file.and_then(|file| file.read_at(&mut bytes, 0));
    bytes.truncate(read.unwrap_or(0));
    bytes
}

/// Removes the handover file: the daemon took over its shuffles, or is about to remove them. No
/// later daemon may use it. An error means that a later daemon could.
pub(crate) fn forget(root: &Path, fs: &dyn Fs) -> io::Result<()> {
    match fs.remove_file(&root.join(HANDOVER_NAME)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
