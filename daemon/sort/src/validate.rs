// SPDX-License-Identifier: Apache-2.0
//! Checks whether the records of files, one file after the other, are in order.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::disk::{self, DiskError};
use crate::part::UNFINISHED;
use crate::progress::Progress;
use crate::record::RECORD_BYTES;
use crate::summary::Summary;
use crate::threads::{PIECE_RECORDS, divide};

const READ_BYTES: usize = 10_000 * RECORD_BYTES;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// An error of the disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A record is cut.
    #[error("{} has {bytes} bytes, which are no whole records of 100", path.display())]
    Cut {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A folder whose records are not all made.
    #[error("{} is unfinished: let the job that makes it go on to its end", .0.display())]
    Unfinished(PathBuf),
    /// A folder without output.
    #[error("{} holds no file part-*: name files, or the folder of a job", .0.display())]
    NoParts(PathBuf),
}

/// Files in order, and how long they are.
#[derive(Debug)]
pub struct Files(Vec<(PathBuf, u64)>);

impl Files {
    /// A folder stands for the files `part-*` in it, by name.
    pub fn of(paths: &[PathBuf]) -> Result<Self, ValidateError> {
        let mut files = Vec::new();
        for path in paths {
            if path.is_dir() {
                for part in parts_of(path)? {
                    files.push(sized(part)?);
                }
            } else {
                files.push(sized(path.clone())?);
            }
        }
        Ok(Self(files))
    }

    /// Returns the bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    fn ranges(&self) -> Vec<Range<'_>> {
        let mut ranges = Vec::new();
        for (path, bytes) in &self.0 {
            let all = bytes / RECORD_BYTES as u64;
            let starts = (0..all).step_by(PIECE_RECORDS as usize);
            ranges.extend(starts.map(|start| Range {
                path,
                start,
                records: PIECE_RECORDS.min(all - start),
            }));
        }
        ranges
    }
}

fn parts_of(folder: &Path) -> Result<Vec<PathBuf>, ValidateError> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut parts: Vec<PathBuf> = listed
        .map_err(disk::at(folder))?
        .into_iter()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("part-"))
        .map(|entry| entry.path())
        .collect();
    parts.sort();
    let mut unfinished = parts
        .iter()
        .filter(|part| part.extension().is_some_and(|end| end == UNFINISHED));
    if let Some(part) = unfinished.next() {
        return Err(ValidateError::Unfinished(part.clone()));
    }
    if parts.is_empty() {
        return Err(ValidateError::NoParts(folder.to_path_buf()));
    }
    Ok(parts)
}

fn sized(path: PathBuf) -> Result<(PathBuf, u64), ValidateError> {
    let bytes = fs::metadata(&path).map_err(disk::at(&path))?.len();
    if bytes.is_multiple_of(RECORD_BYTES as u64) {
        Ok((path, bytes))
    } else {
        Err(ValidateError::Cut { path, bytes })
    }
}

/// Records in a row of one file.
#[derive(Debug)]
struct Range<'a> {
    path: &'a Path,
    start: u64,
    records: u64,
}

impl Range<'_> {
    fn summary(&self, progress: &Progress) -> io::Result<Summary> {
        let mut file = File::open(self.path)?;
        file.seek(SeekFrom::Start(self.start * RECORD_BYTES as u64))?;
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        let mut summary = Summary::default();
        let mut record = [0; RECORD_BYTES];
        for _ in 0..self.records {
            reader.read_exact(&mut record)?;
            summary.add(&record);
        }
        progress.add(self.records * RECORD_BYTES as u64);
        Ok(summary)
    }
}

/// The summary of all records.
pub fn validate(
    files: &Files,
    threads: usize,
    progress: &Progress,
) -> Result<Summary, ValidateError> {
    let ranges = files.ranges();
    let summaries = divide(threads, ranges.len(), |index| match ranges.get(index) {
        Some(range) => range.summary(progress).map_err(disk::at(range.path)),
        None => Ok(Summary::default()),
    })?;
    let mut whole = Summary::default();
    for summary in &summaries {
        whole.append(summary);
    }
    Ok(whole)
}
