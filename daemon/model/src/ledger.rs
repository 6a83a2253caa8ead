// SPDX-License-Identifier: Apache-2.0
//! The ledger: a few numbers that describe a set of segments, whatever their order. Two sides
//! compare them.

use serde::{Deserialize, Serialize};

use crate::id::ReduceId;
use crate::segment::LaidSegment;

/// The number of segments, and the sum of a hash of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Segments.
    pub segments: u64,
    /// Sum of their hashes, without carry: the order does not matter.
    pub checksum: u64,
}

impl Ledger {
    /// Returns the ledger of these segments of one partition.
    pub fn of(reduce: ReduceId, segments: impl IntoIterator<Item = LaidSegment>) -> Self {
        let mut ledger = Self::default();
        for segment in segments {
            ledger.segments += 1;
            ledger.checksum = ledger.checksum.wrapping_add(hash(reduce, &segment));
        }
        ledger
    }

    /// Returns the ledger of both sets together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            checksum: self.checksum.wrapping_add(other.checksum),
        }
    }
}

/// docs/protocol.md defines the hash, so that other programs can compute it.
fn hash(reduce: ReduceId, segment: &LaidSegment) -> u64 {
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    [
        segment.map_id.0.cast_unsigned(),
        pair(segment.map_index.0, reduce.0),
        pair(segment.length, segment.crc32c.0),
        pair(segment.sequence, segment.records.cast_unsigned()),
    ]
    .into_iter()
    .fold(0, |sofar, word| mix(sofar ^ word))
}

/// One step of SplitMix64 from the state `word`: each bit of the input changes half of the
/// output's.
pub fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{MapId, MapIndex};
    use crate::segment::Crc32c;

    fn segment(map: u32) -> LaidSegment {
        LaidSegment {
            map_index: MapIndex(map),
            map_id: MapId(7_000_000_000),
            sequence: 0,
            length: 10,
            records: -1,
            crc32c: Crc32c(5),
        }
    }

    #[test]
    fn every_field_of_a_segment_counts_and_the_order_does_not() {
        let one = Ledger::of(ReduceId(1), [segment(1), segment(2)]);
        assert_eq!(one, Ledger::of(ReduceId(1), [segment(2), segment(1)]));
        assert_eq!(
            one,
            Ledger::of(ReduceId(1), [segment(1)]).and(Ledger::of(ReduceId(1), [segment(2)]))
        );
        let changes: [fn(&mut LaidSegment); 6] = [
            |s| s.map_index.0 = 3,
            |s| s.map_id.0 += 1,
            |s| s.sequence = 1,
            |s| s.length = 11,
            |s| s.records = 0,
            |s| s.crc32c = Crc32c(6),
        ];
        for change in changes {
            let mut other = segment(2);
            change(&mut other);
            assert_ne!(one, Ledger::of(ReduceId(1), [segment(1), other]));
        }
        assert_ne!(one, Ledger::of(ReduceId(2), [segment(1), segment(2)]));
    }

    /// The plugin computes the same: `LedgerSuite` has the same number.
    #[test]
    fn the_checksum_is_the_one_of_the_protocol() {
        let ledger = Ledger::of(ReduceId(3), [segment(1), segment(2)]);
        assert_eq!(ledger.segments, 2);
        assert_eq!(format!("{:016x}", ledger.checksum), "a0b26d251a03772f");
    }
}
