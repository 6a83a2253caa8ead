// SPDX-License-Identifier: Apache-2.0
//! One file of records. Several threads make its pieces, under a name that the file loses when it
//! is complete.
//!
//! A run that was interrupted leaves pieces in any order, and holes between them. The next one does
//! not ask which are complete: it has to make every record again for the checksum, compares, and
//! writes the missing bytes. A hole is zeros; any other byte that is not ours belongs to another
//! run, and ends this one before it is overwritten.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk;
use crate::generate::GenerateError;
use crate::progress::Progress;
use crate::random::Sequence;
use crate::record::{Form, RECORD_BYTES};
use crate::threads::PIECE_RECORDS;

/// Extension of a file whose records are not all there.
pub(crate) const UNFINISHED: &str = "unfinished";

/// Records of one write.
const WRITE_RECORDS: usize = 10_000;

/// Records in a row, and the file that they are for.
#[derive(Debug)]
pub(crate) struct Part {
    form: Form,
    first: u128,
    records: u64,
    whole: PathBuf,
    unfinished: PathBuf,
    found: Found,
    /// Pieces that are not made.
    left: AtomicU64,
    /// Open from the first piece to the last: the system reports an error of the disk to the
    /// process that has the file open.
    file: Mutex<Option<Arc<File>>>,
}

/// The files of an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// All of it.
    Whole,
    /// So many bytes, with holes in them.
    Some(u64),
}

impl Part {
    /// Looks for existing files, and writes nothing.
    pub(crate) fn at(
        whole: PathBuf,
        form: Form,
        first: u128,
        records: u64,
    ) -> Result<Self, GenerateError> {
        let mut part = Self {
            form,
            first,
            records,
            unfinished: whole.with_extension(UNFINISHED),
            whole,
            found: Found::Whole,
            left: AtomicU64::new(0),
            file: Mutex::default(),
        };
        part.left = AtomicU64::new(part.pieces());
        part.found = part.look()?;
        Ok(part)
    }

    fn look(&self) -> Result<Found, GenerateError> {
        for (path, is_whole) in [(&self.whole, true), (&self.unfinished, false)] {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(disk::at(path)(error).into()),
            };
            let bytes = file.metadata().map_err(disk::at(path))?.len();
            let wanted = self.records * RECORD_BYTES as u64;
            let is_ours = bytes == wanted || (bytes < wanted && !is_whole);
            if !is_ours || !self.owns_ends(&file, bytes).map_err(disk::at(path))? {
                return Err(GenerateError::Foreign(path.clone()));
            }
            return Ok(match is_whole {
                true => Found::Whole,
                false => Found::Some(bytes),
            });
        }
        Ok(Found::Some(0))
    }

    /// Returns true if the records at both ends can be of this part. No other run has any of them
    /// at the same offset.
    fn owns_ends(&self, file: &File, bytes: u64) -> io::Result<bool> {
        let ends = [0, bytes.saturating_sub(1) / RECORD_BYTES as u64];
        for at in ends {
            let offset = at * RECORD_BYTES as u64;
            let mut found = vec![0; (bytes - offset).min(RECORD_BYTES as u64) as usize];
            file.read_exact_at(&mut found, offset)?;
            let number = self.first + u128::from(at);
            let random = Sequence::from(number).next().unwrap_or_default();
            if !is_or_becomes(&found, &self.form.record(random, number)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns how many pieces it has. A part without records has one: its file has to exist as
    /// well.
    pub(crate) fn pieces(&self) -> u64 {
        self.records.div_ceil(PIECE_RECORDS).max(1)
    }

    /// Makes one piece; with the last one the file is complete. Returns the sum of the CRC-32 of
    /// its records.
    pub(crate) fn make(&self, piece: u64, progress: &Progress) -> Result<u128, GenerateError> {
        let start = piece * PIECE_RECORDS;
        let records = start..self.records.min(start + PIECE_RECORDS);
        let Found::Some(found) = self.found else {
            return self.fill(records, |_, _| Ok(()), progress);
        };
        let file = self.open().map_err(disk::at(&self.unfinished))?;
        let checksum = self.fill(
            records,
            |at, bytes| self.put(&file, found, at, bytes),
            progress,
        )?;
        drop(file);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish().map_err(disk::at(&self.unfinished))?;
        }
        Ok(checksum)
    }

    fn open(&self) -> io::Result<Arc<File>> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = held.as_ref() {
            return Ok(Arc::clone(file));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = Arc::new(options.open(&self.unfinished)?);
        *held = Some(Arc::clone(&file));
        Ok(file)
    }

    fn finish(&self) -> io::Result<()> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = held.take() {
            file.sync_all()?;
        }
        fs::rename(&self.unfinished, &self.whole)
    }

    /// Makes the records of a piece, and passes them on with their offset in the file, some at a
    /// time.
    fn fill(
        &self,
        records: Range<u64>,
        mut put: impl FnMut(u64, &[u8]) -> Result<(), GenerateError>,
        progress: &Progress,
    ) -> Result<u128, GenerateError> {
        let mut checksum = 0;
        let mut random = Sequence::from(self.first + u128::from(records.start));
        let mut bytes = Vec::with_capacity(WRITE_RECORDS * RECORD_BYTES);
        for start in records.clone().step_by(WRITE_RECORDS) {
            let end = records.end.min(start + WRITE_RECORDS as u64);
            bytes.clear();
            for (at, random) in (start..end).zip(&mut random) {
                let record = self.form.record(random, self.first + u128::from(at));
                checksum += u128::from(crc32fast::hash(&record));
                bytes.extend_from_slice(&record);
            }
            put(start * RECORD_BYTES as u64, &bytes)?;
            progress.add(bytes.len() as u64);
        }
        Ok(checksum)
    }

    /// Writes the missing bytes. `found`: the length of the file before this run.
    fn put(&self, file: &File, found: u64, at: u64, bytes: &[u8]) -> Result<(), GenerateError> {
        let there = found.saturating_sub(at).min(bytes.len() as u64);
        if there > 0 {
            let mut there = vec![0; there as usize];
            let read = file.read_exact_at(&mut there, at);
            read.map_err(disk::at(&self.unfinished))?;
            if there == bytes {
                return Ok(());
            }
            if !is_or_becomes(&there, bytes) {
                return Err(GenerateError::Foreign(self.unfinished.clone()));
            }
        }
        let written = file.write_all_at(bytes, at);
        Ok(written.map_err(disk::at(&self.unfinished))?)
    }
}

/// Returns true if each byte is the one that is wanted, or one of a hole.
fn is_or_becomes(found: &[u8], wanted: &[u8]) -> bool {
    let mut pairs = found.iter().zip(wanted);
    pairs.all(|(found, wanted)| found == wanted || *found == 0)
}
