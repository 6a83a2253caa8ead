// SPDX-License-Identifier: Apache-2.0
//! The data files of map outputs that were read in the last moment, open: many readers take small
//! blocks of the same outputs.
//!
//! An open file keeps its space on the disk when it is removed. So all of them are closed again and
//! again ([`MapFiles::close`]). A file that was removed, or whose name another one took, is not
//! read any more.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use lodestone_model::Code;
use lodestone_planted::{self as planted, Bug};

use super::disk::code_of;
use super::locked;
use super::map_indexes::MapOutput;
use crate::fs::{File, Version};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The most files that stay open: about as many as tasks of one stage leave on a host in a moment.
/// The daemon counts them when it raises its limit of descriptors.
pub const MAP_FILES_MAX: usize = 512;

/// The open files.
#[derive(Debug, Default)]
pub(crate) struct MapFiles {
    files: Mutex<HashMap<MapOutput, Arc<dyn File>>>,
    /// Files are being closed, which may take as long as a disk hangs.
    is_closing: AtomicBool,
}

/// A file that was opened.
pub(crate) struct OpenedFile {
    pub(crate) file: Arc<dyn File>,
    /// Its version shows that another hand removed it.
    pub(crate) shows_removal: bool,
}

impl MapFiles {
    /// Returns the data file of an output, and its version now. Opens it if it is not open, or
    /// removed.
    pub(crate) fn file(
        &self,
        output: MapOutput,
        open: impl Fn() -> io::Result<OpenedFile>,
    ) -> io::Result<(Arc<dyn File>, Version)> {
        let known = locked(&self.files).get(&output).cloned();
        if let Some(file) = known
            && let Ok(version) = file.version()
            && (version.names == 1 || planted::is(Bug::RemovedOutputRead))
        {
            return Ok((file, version));
        }
        let OpenedFile {
            file,
            shows_removal,
        } = open().or_else(|error| match code_of(&error) {
            // This process is at its limit of open files, and does not need these.
            Code::Overloaded => {
                self.close();
                open()
            }
            _ => Err(error),
        })?;
        let version = file.version()?;
        if shows_removal {
            let replaced = self.keep(output, &file);
            drop(replaced);
        }
        Ok((file, version))
    }

    /// Returns the file in whose place this one is. To close it may take a while.
    fn keep(&self, output: MapOutput, file: &Arc<dyn File>) -> Option<Arc<dyn File>> {
        if self.is_closing.load(Relaxed) {
            return None;
        }
        let mut kept = locked(&self.files);
        match kept.len() < MAP_FILES_MAX || kept.contains_key(&output) {
            true => kept.insert(output, Arc::clone(file)),
            false => None,
        }
    }

    /// Closes all of them that nobody reads.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Relaxed);
        let all = std::mem::take(&mut *locked(&self.files));
        drop(all);
        self.is_closing.store(false, Relaxed);
    }
}
