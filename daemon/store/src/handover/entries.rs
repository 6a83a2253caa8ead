// SPDX-License-Identifier: Apache-2.0
//! The handover file: its type and version; then entries one after another, each as length and
//! CRC-32C (big-endian) and bytes.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fs::{File, read_exact_at, write_in_pieces};
use crate::merge::PartitionEntry;
use crate::resource::disk::Disks;
use crate::resource::home::HomeEntry;
use crate::state::attempt::Attempt;

/// Bytes of entries that one write takes.
const BUFFER_BYTES: usize = 1024 * 1024;

/// A larger entry was not written by this program: it would be the index of a partition of 100
/// million segments.
const ENTRY_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024 - 1;

/// Length and checksum.
const HEAD_BYTES: usize = 8;

/// The first bytes of the file. The last four are the version of all that follows and of the
/// entries: a daemon that was upgraded must not read a field of one version as a field of another.
const BEGINNING: &[u8; 8] = b"LSHO\0\0\0\x05";

/// One thing to know.
#[derive(Serialize, Deserialize)]
pub(super) enum HandoverEntry {
    /// The first one.
    Start(StartEntry),
    /// Map index, map id; of the shuffle that comes.
    Attempt(u32, i64, Attempt),
    /// A partition of the next shuffle entry.
    Partition(PartitionEntry),
    /// The attempts and partitions since the last one are this one's.
    Shuffle(ShuffleEntry),
    /// They are of no use.
    Lost,
    /// The last one. If it is missing, the daemon ended before it had written the rest.
    End,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StartEntry {
    /// When it was written, in milliseconds since 1970: of two handovers the newer one counts.
    pub(super) unix_ms: u64,
    /// Disks that were tried before: files there may hold shuffles as well.
    pub(super) disks_before: u32,
    /// The data directories, in the order of the disks that the entries name.
    pub(super) dirs: Vec<String>,
    /// Number of the next generation's directory.
    pub(super) next_home: u64,
    /// The start of the machine: after another one, what was written may be gone.
    pub(super) boot_id: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ShuffleEntry {
    pub(super) app: String,
    pub(super) attempt: i32,
    /// The length of the application's lease: for this time the service promised to keep the
    /// shuffle.
    pub(super) lease_ms: u64,
    pub(super) shuffle: i32,
    pub(super) generation: i32,
    pub(super) num_maps: u32,
    pub(super) num_partitions: u32,
    pub(super) format: String,
    pub(super) home: HomeEntry,
}

/// Writes entries, which may take long: each piece counts as progress.
pub(super) struct Writer<'a> {
    file: Arc<dyn File>,
    disks: &'a Disks,
    buffer: Vec<u8>,
    end: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(file: Arc<dyn File>, disks: &'a Disks) -> Self {
        Self {
            file,
            disks,
            buffer: BEGINNING.to_vec(),
            end: 0,
        }
    }

    pub(super) fn add(&mut self, entry: &HandoverEntry) -> io::Result<()> {
        let bytes = postcard::to_stdvec(entry).map_err(io::Error::other)?;
        let length = u32::try_from(bytes.len()).map_err(|_| ErrorKind::FileTooLarge)?;
        self.buffer.extend_from_slice(&length.to_be_bytes());
        self.buffer
            .extend_from_slice(&crc32c::crc32c(&bytes).to_be_bytes());
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Nothing follows.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.add(&HandoverEntry::End)?;
        self.flush()
    }

    /// Writes the entries so far.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let got_on = || self.disks.count_step();
        write_in_pieces(self.file.as_ref(), &[&self.buffer], self.end, got_on)?;
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads entries.
pub(super) struct Reader {
    file: Arc<dyn File>,
    at: u64,
    end: u64,
}

impl Reader {
    pub(super) fn new(file: Arc<dyn File>) -> io::Result<Self> {
        let end = file.size()?;
        let mut beginning = [0; BEGINNING.len()];
        read_exact_at(file.as_ref(), &mut beginning, 0)?;
        if beginning != *BEGINNING {
            return Err(damaged("another version of the daemon wrote it"));
        }
        let at = BEGINNING.len() as u64;
        Ok(Self { file, at, end })
    }

    /// The next one, or `None` if the file ends before it does. Damage is an error.
    pub(super) fn next(&mut self) -> io::Result<Option<HandoverEntry>> {
        let mut head = [0; HEAD_BYTES];
        if self.left() < HEAD_BYTES as u64 {
            return Ok(None);
        }
        read_exact_at(self.file.as_ref(), &mut head, self.at)?;
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let crc = u32::from_be_bytes([e, f, g, h]);
        if length > ENTRY_BYTES_MAX {
            return Err(damaged("an entry is too long"));
        }
        if (HEAD_BYTES + length) as u64 > self.left() {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        read_exact_at(self.file.as_ref(), &mut bytes, self.at + HEAD_BYTES as u64)?;
        if crc32c::crc32c(&bytes) != crc {
            return Err(damaged("an entry has another checksum"));
        }
        self.at += (HEAD_BYTES + length) as u64;
        postcard::from_bytes(&bytes)
            .map(Some)
            .map_err(io::Error::other)
    }

    fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }
}

pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
