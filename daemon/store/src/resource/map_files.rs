// SPDX-License-Identifier: Apache-2.0
//! The data files of map outputs that were read in the last moment, open: many readers take small
//! blocks of the same outputs.
//!
//! An open file keeps its space on the disk when it is removed. So all of them are closed again and
//! again ([`MapFiles::close`]), and a file that lost its name is not read any more.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::locked;
use super::map_indexes::MapOutput;
use crate::fs::{File, Version};
use crate::sync::Mutex;

/// The most files that stay open: about as many as tasks of one stage leave on a host in a moment.
/// The daemon counts them when it raises its limit of descriptors.
pub const MAP_FILES_MAX: usize = 512;

/// The open files.
#[derive(Debug, Default)]
pub(crate) struct MapFiles(Mutex<HashMap<MapOutput, Arc<dyn File>>>);

/// A file that was opened.
pub(crate) struct OpenedFile {
    pub(crate) file: Arc<dyn File>,
    /// Its version shows that another hand removed it.
    pub(crate) shows_removal: bool,
}

impl MapFiles {
    /// Returns the data file of an output, and its version now. Opens it if it is not open, or not
    /// there under its name any more.
    pub(crate) fn file(
        &self,
        output: MapOutput,
        open: impl FnOnce() -> io::Result<OpenedFile>,
    ) -> io::Result<(Arc<dyn File>, Version)> {
        let known = locked(&self.0).get(&output).cloned();
        if let Some(file) = known
            && let Ok(version) = file.version()
            && version.names == 1
        {
            return Ok((file, version));
        }
        let OpenedFile {
            file,
            shows_removal,
        } = open()?;
        let version = file.version()?;
        if shows_removal {
            let replaced = self.keep(output, &file);
            drop(replaced);
        }
        Ok((file, version))
    }

    /// Returns the file in whose place this one is. To close it may take a while.
    fn keep(&self, output: MapOutput, file: &Arc<dyn File>) -> Option<Arc<dyn File>> {
        let mut kept = locked(&self.0);
        match kept.len() < MAP_FILES_MAX || kept.contains_key(&output) {
            true => kept.insert(output, Arc::clone(file)),
            false => None,
        }
    }

    /// Closes all of them that nobody reads.
    pub(crate) fn close(&self) {
        let all = std::mem::take(&mut *locked(&self.0));
        drop(all);
    }
}
