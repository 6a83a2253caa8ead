// SPDX-License-Identifier: Apache-2.0
//! How fast a directory takes data. The file has no name while it is written, so that nothing is
//! left of it, whatever ends this process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::metrics::stopwatch::Stopwatch;

/// The most that is written.
const MOST_BYTES: u64 = 64 << 20;

/// When the writing ends; what is under way goes to the disk.
const MOST_SECONDS: f64 = 2.0;

/// One write. It is on the disk before the next one begins.
const PART_BYTES: usize = 4 << 20;

/// What was written.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

impl Measured {
    pub(super) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-6)
    }
}

pub(super) fn of(dir: &Path) -> io::Result<Measured> {
    let mut file = nameless(dir)?;
    // Zeros, which some disks do not store, would be fast.
    let part: Vec<u8> = (0..PART_BYTES).map(|at| (at * 37 % 251) as u8).collect();
    let (watch, mut bytes) = (Stopwatch::start(), 0);
    while bytes < MOST_BYTES && watch.seconds() < MOST_SECONDS {
        file.write_all(&part)?;
        file.sync_data()?;
        bytes += PART_BYTES as u64;
    }
    let seconds = watch.seconds();
    Ok(Measured { bytes, seconds })
}

fn nameless(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    let flags = OFlags::TMPFILE.bits().cast_signed();
    if let Ok(file) = options.clone().custom_flags(flags).mode(0o600).open(dir) {
        return Ok(file);
    }
    // Some file systems have no files without a name.
    let path = dir.join(format!("lodestone-doctor-{}", std::process::id()));
    let file = options.create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
