// SPDX-License-Identifier: Apache-2.0
//! The segments of a simulated map attempt.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::dice::Dice;

/// A segment of an attempt.
#[derive(Clone, Debug)]
pub(super) struct SimSegment {
    pub(super) reduce: u32,
    pub(super) sequence: u32,
    pub(super) bytes: Bytes,
}

impl SimSegment {
    pub(super) fn records(&self) -> i32 {
        i32::from(!self.bytes.is_empty())
    }
}

/// Returns segments of these partitions and bytes. The last one of each block is marked, or one
/// without bytes that comes after all others.
pub(super) fn numbered(parts: Vec<(u32, Bytes)>, dice: &mut Dice) -> Vec<SimSegment> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    let mut segments = Vec::new();
    for (reduce, bytes) in parts {
        let count = counts.entry(reduce).or_default();
        let sequence = 2 * *count;
        *count += 1;
        segments.push(SimSegment {
            reduce,
            sequence,
            bytes,
        });
    }
    for (reduce, count) in counts {
        let mut of_block = segments.iter_mut().rev();
        match of_block.find(|segment| segment.reduce == reduce) {
            Some(last) if dice.chance(70) => last.sequence += 1,
            _ => segments.push(SimSegment {
                reduce,
                sequence: 2 * count + 1,
                bytes: Bytes::new(),
            }),
        }
    }
    segments
}
