// SPDX-License-Identifier: Apache-2.0
//! Files of records. Any free thread makes the next piece, of several files or of one. A file under
//! its final name is complete, and a file that is not is continued.

use std::fs;
use std::path::PathBuf;

use crate::disk::{self, DiskError};
use crate::part::Part;
use crate::progress::Progress;
use crate::record::{Form, RECORD_BYTES};
use crate::threads::divide;

/// The files to make.
#[derive(Clone, Debug)]
pub struct Job {
    /// Kind of records.
    pub form: Form,
    /// Number of the first one.
    pub first: u128,
    /// How many.
    pub records: u64,
    /// Number of files.
    pub files: u32,
    /// Where. It is made if it is not there.
    pub folder: PathBuf,
}

/// The reason why not all records were made. The next run continues the files.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// An error of the disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It would have to be overwritten.
    #[error("{} holds other records than these: remove it, or choose another folder", .0.display())]
    Foreign(PathBuf),
}

impl Job {
    fn part(&self, index: u32) -> Result<Part, GenerateError> {
        let (each, more) = (
            self.records / u64::from(self.files),
            self.records % u64::from(self.files),
        );
        let path = self.folder.join(format!("part-{index:05}"));
        let (index, before) = (u64::from(index), u64::from(index).min(more));
        let first = self.first + u128::from(index * each + before);
        Part::at(path, self.form, first, each + u64::from(index < more))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.records * RECORD_BYTES as u64
    }
}

/// Makes the missing records; returns the sum of the CRC-32 of all records.
pub fn generate(job: &Job, threads: usize, progress: &Progress) -> Result<u128, GenerateError> {
    fs::create_dir_all(&job.folder).map_err(disk::at(&job.folder))?;
    // All of them before the first is written: if one belongs to another run, nothing is written.
    let parts = divide(threads, job.files as usize, |index| job.part(index as u32))?;
    let of = |part| (0..Part::pieces(part)).map(move |piece| (part, piece));
    let pieces: Vec<(&Part, u64)> = parts.iter().flat_map(of).collect();
    let sums = divide(threads, pieces.len(), |index| match pieces.get(index) {
        Some((part, piece)) => part.make(*piece, progress),
        None => Ok(0),
    })?;
    Ok(sums.into_iter().sum())
}
