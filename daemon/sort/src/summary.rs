// SPDX-License-Identifier: Apache-2.0
//! The result of a validator for records in a row.

use std::cmp::Ordering;
use std::fmt;

use crate::record::{KEY_BYTES, RECORD_BYTES};

type Key = [u8; KEY_BYTES];

/// Counts and checksum of some records, and the keys at their ends, so that the next records can be
/// added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records.
    pub records: u64,
    /// Sum of the CRC-32 of each: the order does not matter.
    pub checksum: u128,
    /// Records whose key is that of the record before.
    pub duplicates: u64,
    /// Records whose key is below that of the record before.
    pub unordered: u64,
    /// The first of those, from 0.
    pub first_unordered: Option<u64>,
    ends: Option<(Key, Key)>,
}

impl Summary {
    /// Adds the next record.
    pub fn add(&mut self, record: &[u8; RECORD_BYTES]) {
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(&record[..KEY_BYTES]);
        self.append(&Self {
            records: 1,
            checksum: u128::from(crc32fast::hash(record)),
            ends: Some((key, key)),
            ..Self::default()
        });
    }

    /// Adds the records that come next.
    pub fn append(&mut self, next: &Self) {
        let Some((next_first, next_last)) = next.ends else {
            return;
        };
        let seam = self.ends.map(|(_, last)| next_first.cmp(&last));
        let breaks = seam == Some(Ordering::Less);
        let inside = next.first_unordered.map(|at| at + self.records);
        let here = if breaks { Some(self.records) } else { inside };
        self.first_unordered = self.first_unordered.or(here);
        self.unordered += next.unordered + u64::from(breaks);
        self.duplicates += next.duplicates + u64::from(seam == Some(Ordering::Equal));
        self.records += next.records;
        self.checksum += next.checksum;
        let first = self.ends.map_or(next_first, |(first, _)| first);
        self.ends = Some((first, next_last));
    }

    /// Returns true if no record comes before one with a smaller key.
    pub fn is_in_order(&self) -> bool {
        self.unordered == 0
    }
}

/// In the words of `valsort`, for scripts that read them.
impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.first_unordered {
            writeln!(out, "First unordered record is record {at}")?;
        }
        writeln!(out, "Records: {}", self.records)?;
        writeln!(out, "Checksum: {:x}", self.checksum)?;
        if self.is_in_order() {
            writeln!(out, "Duplicate keys: {}", self.duplicates)?;
            write!(out, "SUCCESS - all records are in order")
        } else {
            write!(
                out,
                "ERROR - there are {} unordered records",
                self.unordered
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: &[u8]) -> Summary {
        let mut summary = Summary::default();
        for key in keys {
            summary.add(&[*key; RECORD_BYTES]);
        }
        summary
    }

    #[test]
    fn order_and_duplicates_are_those_of_neighbours() {
        let summary = of(&[1, 2, 2, 2, 1, 9, 8]);
        assert_eq!((summary.records, summary.duplicates), (7, 2));
        assert_eq!((summary.unordered, summary.first_unordered), (2, Some(4)));
        assert!(of(&[]).is_in_order() && of(&[3, 3]).is_in_order());
    }

    #[test]
    fn parts_in_a_row_say_the_same_as_the_whole() {
        let keys = [5, 1, 1, 7, 7, 7, 2, 9, 9, 3];
        for cut in 0..=keys.len() {
            for second in cut..=keys.len() {
                let mut joined = of(&keys[..cut]);
                joined.append(&of(&keys[cut..second]));
                joined.append(&of(&keys[second..]));
                assert_eq!(joined, of(&keys), "{cut} {second}");
            }
        }
    }

    #[test]
    fn only_the_key_is_compared() {
        let (mut low, mut high) = ([7; RECORD_BYTES], [7; RECORD_BYTES]);
        low[KEY_BYTES] = 0;
        high[KEY_BYTES] = 9;
        let mut summary = Summary::default();
        summary.add(&high);
        summary.add(&low);
        assert_eq!((summary.unordered, summary.duplicates), (0, 1));
    }

    #[test]
    fn the_verdict_is_in_the_words_that_scripts_know() {
        let good = of(&[1, 1]).to_string();
        assert!(good.starts_with("Records: 2\nChecksum: "), "{good}");
        assert!(good.ends_with("Duplicate keys: 1\nSUCCESS - all records are in order"));
        let bad = of(&[2, 1]).to_string();
        assert!(
            bad.starts_with("First unordered record is record 1\n"),
            "{bad}"
        );
        assert!(bad.ends_with("ERROR - there are 1 unordered records"));
    }
}
