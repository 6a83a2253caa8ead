// SPDX-License-Identifier: Apache-2.0
//! The open files and the locks of the fake filesystem.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Content, Errno, FakeFs, Fault, Node, locked};
use crate::fs::{File, Lock, Version};

/// The number of the next file.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The content of a file.
#[derive(Debug)]
pub(super) struct Bytes {
    pub(super) bytes: Vec<u8>,
    /// Bytes of files that are in holes.
    pub(super) punched: u64,
    /// No other file ever has it.
    number: u64,
}

impl Bytes {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            punched: 0,
            number: NUMBERS.fetch_add(1, Relaxed),
        }
    }

    pub(super) fn empty(&mut self) {
        self.bytes.clear();
        self.punched = 0;
    }
}

#[derive(Debug)]
pub(super) struct FakeFile {
    pub(super) fs: FakeFs,
    pub(super) path: PathBuf,
    pub(super) content: Content,
    pub(super) writable: bool,
}

#[derive(Debug)]
pub(super) struct FakeLock {
    pub(super) fs: FakeFs,
    pub(super) path: PathBuf,
}

impl Drop for FakeFile {
    fn drop(&mut self) {
        locked(&self.fs.state).open_files -= 1;
    }
}

impl Drop for FakeLock {
    fn drop(&mut self) {
        locked(&self.fs.state).locks.remove(&self.path);
    }
}

impl Lock for FakeLock {}

impl File for FakeFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        if !self.writable {
            return Err(Errno::BADF.into());
        }
        self.fs.gate.pass(&self.path);
        let mut state = locked(&self.fs.state);
        let number = state.writes;
        state.writes += 1;
        state.check(&self.path)?;
        let bytes = parts
            .iter()
            .flat_map(|part| part.iter().copied())
            .collect::<Vec<_>>();
        let (mut count, mut error) = match state.faults.remove(&number) {
            Some(Fault::Short(count)) => (count.min(bytes.len()), None),
            Some(Fault::Torn(count, error)) => (count.min(bytes.len()), Some(error)),
            None => (bytes.len(), None),
        };
        let (capacity, used) = state.usage(&self.path);
        let mut content = locked(&self.content);
        let content = &mut content.bytes;
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let room = usize::try_from(capacity.saturating_sub(used)).unwrap_or(usize::MAX);
        let fitting = (content.len() + room).saturating_sub(start);
        if count > fitting {
            count = fitting;
            error = error.or((count == 0).then_some(Errno::NOSPC));
        }
        if count > 0 {
            let end = start + count;
            if content.len() < end {
                content.resize(end, 0);
            }
            if let (Some(to), Some(from)) = (content.get_mut(start..end), bytes.get(..count)) {
                to.copy_from_slice(from);
            }
        }
        error.map_or(Ok(count), |error| Err(error.into()))
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = locked(&self.content);
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let from = content.bytes.get(start..).unwrap_or_default();
        let count = from.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), from.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn set_size(&self, bytes: u64) -> io::Result<()> {
        let state = locked(&self.fs.state);
        state.check(&self.path)?;
        let (capacity, _) = state.usage(&self.path);
        let size = usize::try_from(bytes).map_err(|_| Errno::FBIG)?;
        if bytes > capacity {
            return Err(Errno::FBIG.into());
        }
        locked(&self.content).bytes.resize(size, 0);
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        if !self.writable {
            return Err(Errno::BADF.into());
        }
        self.fs.gate.pass(&self.path);
        locked(&self.fs.state).check(&self.path)?;
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let length_here = usize::try_from(length).map_err(|_| Errno::FBIG)?;
        let end = start.checked_add(length_here).ok_or(Errno::FBIG)?;
        let mut content = locked(&self.content);
        let hole = content.bytes.get_mut(start..end).ok_or(Errno::INVAL)?;
        hole.fill(0);
        content.punched += length;
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(locked(&self.content).bytes.len() as u64)
    }

    fn version(&self) -> io::Result<Version> {
        let has_name = match locked(&self.fs.state).nodes.get(&self.path) {
            Some(Node::File(content)) => Arc::ptr_eq(content, &self.content),
            _ => false,
        };
        let content = locked(&self.content);
        Ok(Version {
            number: content.number,
            bytes: content.bytes.len() as u64,
            changed_ns: 0,
            names: u64::from(has_name),
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
