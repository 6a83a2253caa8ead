// SPDX-License-Identifier: Apache-2.0
//! The set of merged blocks, and of blocks that came back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Block, Workload};

/// A set of blocks of one shuffle, filled by many connections at once.
#[derive(Debug)]
pub struct BlockSet {
    words: Vec<AtomicU64>,
    workload: Workload,
}

impl BlockSet {
    /// Empty.
    pub fn of(workload: Workload) -> Self {
        let words = workload.blocks().div_ceil(64) as usize;
        Self {
            words: std::iter::repeat_with(AtomicU64::default)
                .take(words)
                .collect(),
            workload,
        }
    }

    /// Returns a set with all blocks.
    pub fn all(workload: Workload) -> Self {
        let set = Self::of(workload);
        for map in 0..workload.maps {
            for reduce in 0..workload.partitions {
                set.insert(Block { map, reduce });
            }
        }
        set
    }

    /// Adds the block. Returns true if it was not in the set.
    pub fn insert(&self, block: Block) -> bool {
        let (word, bit) = self.bit_of(block);
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Returns true if the block is in the set.
    pub fn contains(&self, block: Block) -> bool {
        let (word, bit) = self.bit_of(block);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn bit_of(&self, block: Block) -> (Option<&AtomicU64>, u64) {
        let partitions = u64::from(self.workload.partitions);
        let index = u64::from(block.map) * partitions + u64::from(block.reduce);
        (self.words.get((index / 64) as usize), 1 << (index % 64))
    }

    /// How many blocks.
    pub fn count(&self) -> u64 {
        let ones = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        self.words.iter().map(ones).sum()
    }

    /// How many, and how many bytes they have.
    pub fn totals(&self) -> (u64, u64) {
        let bytes = self.blocks().map(|block| self.workload.block_bytes(block));
        bytes.fold((0, 0), |(count, sum), bytes| {
            (count + 1, sum + u64::from(bytes))
        })
    }

    /// Every block in it.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        let partitions = self.workload.partitions;
        let all = (0..self.workload.maps)
            .flat_map(move |map| (0..partitions).map(move |reduce| Block { map, reduce }));
        all.filter(|block| self.contains(*block))
    }

    /// Returns a block that is in the other set and not in this one.
    pub fn lacks(&self, other: &Self) -> Option<Block> {
        other.blocks().find(|block| !self.contains(*block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::BlockSize;

    #[test]
    fn a_block_is_new_once_and_missing_until_then() {
        let workload = Workload::plan(BlockSize::Fixed(100), 10_000, Some(3), Some(50)).unwrap();
        let (some, all) = (BlockSet::of(workload), BlockSet::all(workload));
        let block = Block { map: 2, reduce: 49 };
        assert_eq!(all.totals(), (150, 15_000));
        assert!(some.insert(block) && !some.insert(block));
        assert_eq!((some.count(), some.totals()), (1, (1, 100)));
        assert_eq!(some.lacks(&all), Some(Block { map: 0, reduce: 0 }));
        assert_eq!(all.lacks(&some), None);
    }
}
