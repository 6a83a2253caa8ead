// SPDX-License-Identifier: Apache-2.0
//! The command line of `lodestone-sort`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

use clap::{Args, Parser, Subcommand};

use crate::generate::{GenerateError, Job, generate};
use crate::progress::Progress;
use crate::record::Form;
use crate::validate::{Files, ValidateError, validate};

/// Makes and checks the records of the Sort Benchmark.
#[derive(Debug, Parser)]
#[command(name = "lodestone-sort", version, arg_required_else_help = true)]
pub struct Command {
    /// The command to run.
    #[command(subcommand)]
    pub verb: SortVerb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum SortVerb {
    /// Make records, byte for byte those of gensort, in files part-00000, part-00001, …
    ///
    /// The same command continues a run that was interrupted. It prints the number of records and
    /// the sum of their CRC-32, which is that of the sorted output as well. Example: lodestone-sort
    /// generate 10m /data/input --files 16
    Generate(GenerateArgs),
    /// Say whether records are in order, in the words of valsort
    ///
    /// Exit code 1: they are not. Example: lodestone-sort validate /data/output
    Validate(ValidateArgs),
}

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// How many records of 100 bytes; k, m and g are thousands, millions and billions
    #[arg(value_name = "RECORDS", value_parser = records)]
    records: u64,
    /// Folder for the files
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// How many files
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    files: u32,
    /// Number of the first record
    #[arg(long, default_value_t = 0)]
    first: u128,
    /// Lines of text instead of binary records
    #[arg(long)]
    ascii: bool,
    /// Threads; each makes 64 MB at a time, of several files or of one [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Files in their order, or folders with files part-*
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
}

/// Why it did not go well.
#[derive(Debug, thiserror::Error)]
pub enum SortError {
    /// Making records.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// Looking at records.
    #[error(transparent)]
    Validate(#[from] ValidateError),
    /// They are not in order: the verdict has been printed.
    #[error("the records are not in order")]
    Unordered,
    /// Stdout is closed.
    #[error("writing to stdout: {0}")]
    Output(#[from] io::Error),
}

/// Runs the command, and prints the result.
pub fn run(verb: &SortVerb) -> Result<(), SortError> {
    match verb {
        SortVerb::Generate(args) => {
            let job = args.job();
            let progress = Progress::of(job.bytes());
            let checksum = progress.show(|| generate(&job, threads(args.threads), &progress))?;
            say(&format!(
                "Records: {}\nChecksum: {checksum:x}\n",
                job.records
            ))
        }
        SortVerb::Validate(args) => {
            let files = Files::of(&args.paths)?;
            let progress = Progress::of(files.bytes());
            let summary = progress.show(|| validate(&files, threads(args.threads), &progress))?;
            say(&format!("{summary}\n"))?;
            if summary.is_in_order() {
                Ok(())
            } else {
                Err(SortError::Unordered)
            }
        }
    }
}

impl GenerateArgs {
    fn job(&self) -> Job {
        Job {
            form: if self.ascii {
                Form::Ascii
            } else {
                Form::Binary
            },
            first: self.first,
            records: self.records,
            files: self.files,
            folder: self.folder.clone(),
        }
    }
}

fn threads(asked: Option<usize>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(cores).max(1)
}

fn say(text: &str) -> Result<(), SortError> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// `10m` and the like. Their bytes must fit a file system's numbers.
fn records(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no number of records: write it as in 1000000, 1000k or 1m");
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k') => (text.strip_suffix('k'), 1_000),
        Some(b'm') => (text.strip_suffix('m'), 1_000_000),
        Some(b'g') => (text.strip_suffix('g'), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let number: u64 = digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(wrong)?;
    let records = number.checked_mul(unit).ok_or_else(wrong)?;
    let most = i64::MAX as u64 / crate::record::RECORD_BYTES as u64;
    if records > most {
        return Err(format!(
            "{records} records are more than a file system holds: at most {most}"
        ));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::records;

    #[test]
    fn numbers_of_records_have_units_and_limits() {
        assert_eq!(records("12"), Ok(12));
        assert_eq!(records("10m"), Ok(10_000_000));
        assert_eq!(records("2g"), Ok(2_000_000_000));
        for wrong in [
            "",
            "m",
            "1.5m",
            "-1",
            "1t",
            "99999999999g",
            "9223372036854775807",
        ] {
            assert!(records(wrong).is_err(), "{wrong:?}");
        }
    }
}
