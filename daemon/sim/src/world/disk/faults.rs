// SPDX-License-Identifier: Apache-2.0
//! What is to go wrong with the calls of a disk, and what went wrong.

use std::io;
use std::path::{Path, PathBuf};

use lodestone_store::fs::fake::Errno;

/// How many calls failed since it was last asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failures {
    /// Calls that change something in the daemon's directories.
    pub changes: u64,
    /// Calls that change something in directories of executors.
    pub removals: u64,
    /// Calls that read.
    pub reads: u64,
    /// Calls that had no descriptor.
    pub descriptors: u64,
}

impl Failures {
    /// True if no call failed.
    pub fn are_none(self) -> bool {
        self.changes + self.reads + self.descriptors == 0
    }
}

/// Calls that will fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Reads that still work before one fails.
    good_reads: Option<u64>,
    /// Nothing below it can be read.
    unreadable: Option<PathBuf>,
    descriptors: Option<Shortage>,
}

/// The process is at its limit of open files.
#[derive(Debug)]
struct Shortage {
    /// Calls that still get a descriptor.
    after: u64,
    /// Calls that get none then.
    left: u64,
}

impl Faults {
    pub(super) fn fail_read(&mut self, after: u64) {
        self.good_reads = Some(after);
    }

    pub(super) fn break_reads(&mut self, dir: &Path) {
        self.unreadable = Some(dir.into());
    }

    pub(super) fn take_descriptors(&mut self, after: u64, left: u64) {
        self.descriptors = Some(Shortage { after, left });
    }

    /// Decides whether a read of a file works.
    pub(super) fn read(&mut self, path: &Path) -> io::Result<()> {
        if self
            .unreadable
            .as_ref()
            .is_some_and(|dir| path.starts_with(dir))
        {
            return Err(Errno::IO.into());
        }
        match &mut self.good_reads {
            Some(0) => {
                self.good_reads = None;
                Err(Errno::IO.into())
            }
            Some(good) => {
                *good -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Decides whether a call gets the descriptor that it needs.
    pub(super) fn descriptor(&mut self) -> io::Result<()> {
        match &mut self.descriptors {
            Some(Shortage { after, .. }) if *after > 0 => {
                *after -= 1;
                Ok(())
            }
            Some(Shortage { left, .. }) if *left > 0 => {
                *left -= 1;
                Err(Errno::MFILE.into())
            }
            _ => Ok(()),
        }
    }
}
