// SPDX-License-Identifier: Apache-2.0
//! Finds out why a reader found an original block corrupt: compares the reader's checksum, the
//! writer's, and one computed now.

use lodestone_model::{AppId, Cause, ReduceId, SuspectBlock};

use crate::fs::{Open, read_exact_at};
use crate::life::fetch::Part;
use crate::state::store::Store;

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// Checksums that Spark can compute over a shuffle block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    /// `java.util.zip.Adler32`.
    Adler32,
    /// `java.util.zip.CRC32`.
    Crc32,
    /// `java.util.zip.CRC32C`.
    Crc32c,
}

impl Algorithm {
    /// The algorithm of this name, as in `spark.shuffle.checksum.algorithm`.
    fn named(name: &str) -> Option<Self> {
        match name {
            "ADLER32" => Some(Self::Adler32),
            "CRC32" => Some(Self::Crc32),
            "CRC32C" => Some(Self::Crc32c),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "ADLER32",
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
        }
    }

    fn start(self) -> u32 {
        match self {
            Self::Adler32 => 1,
            Self::Crc32 | Self::Crc32c => 0,
        }
    }

    fn append(self, sum: u32, bytes: &[u8]) -> u32 {
        match self {
            Self::Adler32 => adler32(sum, bytes),
            Self::Crc32 => crc32(sum, bytes),
            Self::Crc32c => crc32c::crc32c_append(sum, bytes),
        }
    }
}

impl Store {
    /// Returns the places of the disks that [`Store::diagnose`] reads from. Asks no disk.
    pub fn places_of_suspect(
        &self,
        app: &AppId,
        exec: &str,
        block: &SuspectBlock,
        algorithm: &str,
    ) -> Vec<usize> {
        let checksum = format!("checksum.{algorithm}");
        let suffixes = ["data", "index", &checksum];
        self.places_of_output(app, exec, (block.shuffle, block.map), &suffixes)
    }

    /// Compares the three checksums of a block. Any kind of trouble is an answer, not a refusal.
    pub fn diagnose(&self, app: &AppId, exec: &str, block: SuspectBlock, algorithm: &str) -> Cause {
        let Some(algorithm) = Algorithm::named(algorithm) else {
            return Cause::UnsupportedChecksumAlgorithm;
        };
        let sums = (
            self.written_checksum(app, exec, &block, algorithm),
            self.recomputed_checksum(app, exec, &block, algorithm),
        );
        match sums {
            (Some(writer), Some(now)) if writer != now => Cause::DiskIssue,
            (Some(writer), Some(_)) if writer != block.reader_checksum => Cause::NetworkIssue,
            (Some(_), Some(_)) => Cause::ChecksumVerifyPass,
            _ => Cause::UnknownIssue,
        }
    }

    fn written_checksum(
        &self,
        app: &AppId,
        exec: &str,
        block: &SuspectBlock,
        algorithm: Algorithm,
    ) -> Option<i64> {
        let (shuffle, map, name) = (block.shuffle, block.map, algorithm.name());
        let dirs = self.executor_dirs(app, exec).ok()?;
        let path = dirs.path(&format!("shuffle_{shuffle}_{map}_0.checksum.{name}"));
        let file = self.resources.foreign().open(&path, Open::Read).ok()?;
        let mut bytes = [0; size_of::<i64>()];
        let offset = u64::from(block.reduce.0) * size_of::<i64>() as u64;
        read_exact_at(file.as_ref(), &mut bytes, offset).ok()?;
        Some(i64::from_be_bytes(bytes))
    }

    fn recomputed_checksum(
        &self,
        app: &AppId,
        exec: &str,
        block: &SuspectBlock,
        algorithm: Algorithm,
    ) -> Option<i64> {
        let reduces = block.reduce..ReduceId(block.reduce.0.checked_add(1)?);
        let data = self
            .original_blocks(app, exec, block.shuffle, block.map, reduces)
            .ok()?;
        let mut sum = algorithm.start();
        let mut buffer = vec![0; BUFFER_BYTES];
        for part in data.parts {
            let Part::File {
                file,
                mut offset,
                mut length,
            } = part
            else {
                return None;
            };
            while length > 0 {
                let count = length.min(BUFFER_BYTES as u64);
                let bytes = buffer.get_mut(..usize::try_from(count).ok()?)?;
                read_exact_at(file.as_ref(), bytes, offset).ok()?;
                sum = algorithm.append(sum, bytes);
                offset += count;
                length -= count;
            }
        }
        Some(i64::from(sum))
    }
}

fn adler32(sum: u32, bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    // The most bytes after which the sums still fit 32 bits.
    const ADLER_BYTES: usize = 5_552;
    let (mut low, mut high) = (sum & 0xffff, sum >> 16);
    for part in bytes.chunks(ADLER_BYTES) {
        for &byte in part {
            low += u32::from(byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

fn crc32(sum: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(sum);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_their_published_check_values() {
        let check = |algorithm: Algorithm| {
            let sum = algorithm.append(algorithm.start(), b"1234");
            algorithm.append(sum, b"56789")
        };
        assert_eq!(check(Algorithm::Adler32), 0x091E_01DE);
        assert_eq!(check(Algorithm::Crc32), 0xCBF4_3926);
        assert_eq!(check(Algorithm::Crc32c), 0xE306_9283);
    }

    #[test]
    fn adler32_does_not_overflow_on_long_runs_of_large_bytes() {
        let bytes = vec![0xff; 20_000];
        let (mut low, mut high) = (1_u64, 0_u64);
        for byte in &bytes {
            low = (low + u64::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        assert_eq!(u64::from(adler32(1, &bytes)), high << 16 | low);
    }
}
