// SPDX-License-Identifier: Apache-2.0
//! Files of records. Each file is made by one thread, from its first record to its last, under a name that it
//! loses when it is whole: what is there under the final name is complete, and what is not is continued.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use crate::disk::{self, DiskError};
use crate::progress::Progress;
use crate::random::Sequence;
use crate::record::{Form, RECORD_BYTES};
use crate::threads::share_out;

/// Extension of a file whose records are not all there.
pub(crate) const UNFINISHED: &str = "unfinished";

/// Records of one write.
const WRITE_RECORDS: usize = 10_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Job {
    /// Kind of records.
    pub form: Form,
    /// Number of the first one.
    pub first: u128,
    /// How many.
    pub records: u64,
    /// In how many files.
    pub files: u32,
    /// Where. It is made if it is not there.
    pub folder: PathBuf,
}

/// Why not all records were made. What was made is continued by the next run.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The disk said so.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It would have to be overwritten.
    #[error("{} holds other records than these: remove it, or choose another folder", .0.display())]
    Foreign(PathBuf),
}

/// The records of one file.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u128,
    records: u64,
}

impl Job {
    fn part(&self, index: u32) -> Part {
        let (each, more) = (
            self.records / u64::from(self.files),
            self.records % u64::from(self.files),
        );
        let (index, before) = (u64::from(index), u64::from(index).min(more));
        Part {
            first: self.first + u128::from(index * each + before),
            records: each + u64::from(index < more),
        }
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.records * RECORD_BYTES as u64
    }
}

/// Makes what is missing; the sum of the CRC-32 of all records.
pub fn generate(job: &Job, threads: usize, progress: &Progress) -> Result<u128, GenerateError> {
    fs::create_dir_all(&job.folder).map_err(disk::at(&job.folder))?;
    let make = |index| make(job, index as u32, progress);
    let sums = share_out(threads, job.files as usize, make)?;
    Ok(sums.into_iter().sum())
}

fn make(job: &Job, index: u32, progress: &Progress) -> Result<u128, GenerateError> {
    let part = job.part(index);
    let whole = job.folder.join(format!("part-{index:05}"));
    let unfinished = whole.with_extension(UNFINISHED);
    if let Ok(file) = File::open(&whole) {
        let kept = kept(&file, job.form, part).map_err(disk::at(&whole))?;
        return match kept {
            Some(records) if records == part.records => {
                Ok(fill(job.form, part, part.records, None, progress).map_err(disk::at(&whole))?)
            }
            _ => Err(GenerateError::Foreign(whole)),
        };
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&unfinished)
        .map_err(disk::at(&unfinished))?;
    let Some(records) = kept(&file, job.form, part).map_err(disk::at(&unfinished))? else {
        return Err(GenerateError::Foreign(unfinished));
    };
    let finish = || {
        file.set_len(records * RECORD_BYTES as u64)?;
        (&file).seek(SeekFrom::End(0))?;
        let checksum = fill(job.form, part, records, Some(&file), progress)?;
        file.sync_all()?;
        fs::rename(&unfinished, &whole)?;
        Ok(checksum)
    };
    Ok(finish().map_err(disk::at(&unfinished))?)
}

/// How many whole records of this part are there already; `None` if they are others.
fn kept(file: &File, form: Form, part: Part) -> io::Result<Option<u64>> {
    let records = file.metadata()?.len() / RECORD_BYTES as u64;
    if records > part.records {
        return Ok(None);
    }
    let ends = [0, records.saturating_sub(1)];
    for at in ends.into_iter().filter(|at| *at < records) {
        let number = part.first + u128::from(at);
        let random = Sequence::from(number).next().unwrap_or_default();
        if record_at(file, at)? != form.record(random, number) {
            return Ok(None);
        }
    }
    Ok(Some(records))
}

fn record_at(mut file: &File, at: u64) -> io::Result<[u8; RECORD_BYTES]> {
    let mut record = [0; RECORD_BYTES];
    file.seek(SeekFrom::Start(at * RECORD_BYTES as u64))?;
    file.read_exact(&mut record)?;
    Ok(record)
}

/// Makes all records of the part, and writes those behind the first `kept` ones.
fn fill(
    form: Form,
    part: Part,
    kept: u64,
    mut file: Option<&File>,
    progress: &Progress,
) -> io::Result<u128> {
    let mut checksum = 0;
    let mut buffer = Vec::with_capacity(WRITE_RECORDS * RECORD_BYTES);
    let numbers = (0..part.records).map(|at| part.first + u128::from(at));
    let mut records = (0..)
        .zip(Sequence::from(part.first).zip(numbers))
        .peekable();
    while records.peek().is_some() {
        let mut made = 0;
        for (at, (random, number)) in records.by_ref().take(WRITE_RECORDS) {
            let record = form.record(random, number);
            checksum += u128::from(crc32fast::hash(&record));
            if at >= kept {
                buffer.extend_from_slice(&record);
            }
            made += RECORD_BYTES as u64;
        }
        if let Some(file) = &mut file {
            file.write_all(&buffer)?;
        }
        buffer.clear();
        progress.add(made);
    }
    Ok(checksum)
}
