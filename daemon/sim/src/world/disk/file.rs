// SPDX-License-Identifier: Apache-2.0
//! A file of the simulated machine.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lodestone_store::fs::{File, Version};

use super::{Disk, Step, Written, dead, is_data, is_executors};

#[derive(Debug)]
pub(super) struct SimFile {
    inner: Arc<dyn File>,
    disk: Disk,
    path: PathBuf,
    is_data: bool,
}

impl SimFile {
    pub(super) fn new(disk: &Disk, inner: Arc<dyn File>, path: &Path) -> Self {
        let file = Self {
            inner,
            disk: disk.clone(),
            path: path.into(),
            is_data: is_data(path) && !is_executors(path),
        };
        *disk.state().open.at(path) += 1;
        file
    }

    /// A write that continues the one before, which was short, is one with it.
    fn record_write(&self, offset: u64, mut bytes: Vec<u8>) {
        let written = &mut self.disk.state().written;
        match written.last_mut() {
            Some(last)
                if last.path == self.path && last.offset + last.bytes.len() as u64 == offset =>
            {
                last.bytes.append(&mut bytes);
            }
            _ => written.push(Written {
                path: self.path.clone(),
                offset,
                bytes,
            }),
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        *self.disk.state().open.at(&self.path) -= 1;
    }
}

impl File for SimFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        match self.disk.step() {
            Step::Go => {
                let written = self.inner.write_at(parts, offset);
                let written = written.inspect_err(|error| self.disk.count(&self.path, error));
                if let Ok(count) = written
                    && self.is_data
                {
                    let bytes = parts.iter().flat_map(|part| part.iter().copied());
                    self.record_write(offset, bytes.take(count).collect());
                }
                written
            }
            Step::Last(done) => {
                let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
                let torn = bytes.get(..done.unwrap_or(0).min(bytes.len()));
                if let Some(torn) = torn.filter(|torn| !torn.is_empty()) {
                    drop(self.inner.write_at(&[IoSlice::new(torn)], offset));
                }
                Err(dead())
            }
            Step::Dead => Err(dead()),
        }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.check_read(&self.path)?;
        self.inner.read_at(into, offset)
    }

    fn set_size(&self, bytes: u64) -> io::Result<()> {
        self.disk.change(&self.path, || self.inner.set_size(bytes))
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk
            .change(&self.path, || self.inner.punch(offset, length))
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.check_may_be_asked();
        self.inner.size()
    }

    fn version(&self) -> io::Result<Version> {
        self.inner.version()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
