// SPDX-License-Identifier: Apache-2.0
//! The blocks that are pushed and fetched: M x R, each with bytes of its own.

pub mod blocks;
pub mod payload;

use std::fmt;
use std::str::FromStr;

use lodestone_units::size;

/// Least block: its head must fit.
pub const MIN_BLOCK_BYTES: u64 = payload::HEAD_BYTES as u64;

/// Largest block. The protocol would take larger ones; Spark's blocks are smaller.
pub const MAX_BLOCK_BYTES: u64 = 32 << 20;

/// Blocks of one shuffle, so that the sets of blocks stay small beside the data.
const MAX_BLOCKS: u64 = 1 << 28;

/// Maps or partitions.
const MAX_SIDE: u64 = 1 << 20;

/// Smallest and largest of mixed blocks: sizes are spread evenly over the orders of magnitude
/// between.
const MIXED_BYTES: (u64, u64) = (1 << 10, 1 << 20);

/// How large blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// All of one size.
    Fixed(u32),
    /// From 1 KiB to 1 MiB, small ones more often, as in a real cluster.
    Mixed,
}

impl BlockSize {
    /// The largest that occurs.
    pub fn most(self) -> u64 {
        match self {
            Self::Fixed(bytes) => bytes.into(),
            Self::Mixed => MIXED_BYTES.1,
        }
    }

    fn mean(self) -> f64 {
        match self {
            Self::Fixed(bytes) => bytes.into(),
            Self::Mixed => {
                let (low, high) = (MIXED_BYTES.0 as f64, MIXED_BYTES.1 as f64);
                (high - low) / (high / low).ln()
            }
        }
    }
}

/// The text that `--block` takes for the same size.
impl fmt::Display for BlockSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mixed => out.write_str("mixed"),
            Self::Fixed(bytes) if bytes.is_multiple_of(1 << 20) => {
                write!(out, "{}MiB", bytes >> 20)
            }
            Self::Fixed(bytes) if bytes.is_multiple_of(1 << 10) => {
                write!(out, "{}KiB", bytes >> 10)
            }
            Self::Fixed(bytes) => write!(out, "{bytes}b"),
        }
    }
}

impl FromStr for BlockSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mixed" {
            return Ok(Self::Mixed);
        }
        let bytes = size(text)?;
        if !(MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(&bytes) {
            return Err(format!(
                "blocks have {MIN_BLOCK_BYTES} to {MAX_BLOCK_BYTES} bytes"
            ));
        }
        Ok(Self::Fixed(bytes as u32))
    }
}

/// One block: the bytes that a map task wrote for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the map task; its attempt id is the same number.
    pub map: u32,
    /// The partition.
    pub reduce: u32,
}

impl fmt::Display for Block {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the block of map {} for partition {}",
            self.map, self.reduce
        )
    }
}

/// Blocks of one map for consecutive partitions, which a client pushes in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushRange {
    /// Index of the map task.
    pub map: u32,
    /// First partition.
    pub from: u32,
    /// Partition after the last.
    pub to: u32,
}

impl PushRange {
    /// Its blocks.
    pub fn blocks(self) -> impl ExactSizeIterator<Item = Block> {
        let map = self.map;
        (self.from..self.to).map(move |reduce| Block { map, reduce })
    }
}

/// The blocks of one shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Map tasks.
    pub maps: u32,
    /// Partitions.
    pub partitions: u32,
    /// Size of the blocks.
    pub size: BlockSize,
    /// The shuffle: part of every block, so that bytes of another shuffle are detected.
    pub shuffle: u32,
}

impl Workload {
    /// Returns as many blocks as make the total, in a square unless a side is given.
    pub fn plan(
        size: BlockSize,
        total: u64,
        maps: Option<u32>,
        partitions: Option<u32>,
    ) -> Result<Self, String> {
        let blocks = (total as f64 / size.mean()).round().max(1.0) as u64;
        let (maps, partitions) = match (maps.map(u64::from), partitions.map(u64::from)) {
            (Some(maps), Some(partitions)) => (maps, partitions),
            (Some(maps), None) => (maps, blocks.div_ceil(maps)),
            (None, Some(partitions)) => (blocks.div_ceil(partitions), partitions),
            (None, None) => {
                let partitions = (blocks as f64).sqrt().round().max(1.0) as u64;
                (blocks.div_ceil(partitions), partitions)
            }
        };
        if maps > MAX_SIDE || partitions > MAX_SIDE || maps * partitions > MAX_BLOCKS {
            return Err(format!(
                "{maps} maps x {partitions} partitions are too many: at most {MAX_SIDE} of each \
                 and {MAX_BLOCKS} blocks; choose larger blocks or a smaller total"
            ));
        }
        Ok(Self {
            maps: maps as u32,
            partitions: partitions as u32,
            size,
            shuffle: 0,
        })
    }

    /// Returns the same blocks as another shuffle.
    pub fn of_shuffle(self, shuffle: u32) -> Self {
        Self { shuffle, ..self }
    }

    /// Returns the number of blocks.
    pub fn blocks(self) -> u64 {
        u64::from(self.maps) * u64::from(self.partitions)
    }

    /// Returns the bytes of one block. They depend on map and partition, not on the shuffle.
    pub fn block_bytes(self, block: Block) -> u32 {
        match self.size {
            BlockSize::Fixed(bytes) => bytes,
            BlockSize::Mixed => {
                let (low, high) = (MIXED_BYTES.0 as f64, MIXED_BYTES.1 as f64);
                let spread = f64::from(mixed(block, 0) as u32) / f64::from(u32::MAX);
                (low * (high / low).powf(spread)) as u32
            }
        }
    }

    /// Bytes of all blocks.
    pub fn total(self) -> u64 {
        match self.size {
            BlockSize::Fixed(bytes) => self.blocks() * u64::from(bytes),
            BlockSize::Mixed => (0..self.maps).map(|map| self.map_bytes(map)).sum(),
        }
    }

    fn map_bytes(self, map: u32) -> u64 {
        self.range_bytes(PushRange {
            map,
            from: 0,
            to: self.partitions,
        })
    }

    /// Returns the bytes of a range.
    pub fn range_bytes(self, range: PushRange) -> u64 {
        let bytes = range
            .blocks()
            .map(|block| u64::from(self.block_bytes(block)));
        bytes.sum()
    }

    /// Returns all blocks in ranges of at most this many bytes, or one block, in an order that
    /// spreads the partitions.
    pub fn ranges(self, most_bytes: u64) -> Vec<PushRange> {
        let mut ranges = Vec::new();
        for map in 0..self.maps {
            let (mut from, mut bytes) = (0, 0);
            for reduce in 0..self.partitions {
                let next = u64::from(self.block_bytes(Block { map, reduce }));
                if reduce > from && bytes + next > most_bytes {
                    let to = reduce;
                    ranges.push(PushRange { map, from, to });
                    (from, bytes) = (reduce, 0);
                }
                bytes += next;
            }
            let to = self.partitions;
            ranges.push(PushRange { map, from, to });
        }
        shuffle(&mut ranges);
        ranges
    }
}

/// Shuffles, in the same order every time: a run can be repeated.
pub fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let other = spread(last as u64) % (last as u64 + 1);
        items.swap(last, other as usize);
    }
}

/// One step of `SplitMix64`: a number that looks random.
fn spread(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns a number of this block of this shuffle.
fn mixed(block: Block, shuffle: u32) -> u64 {
    let coordinates = u64::from(block.map) << 32 | u64::from(block.reduce);
    spread(spread(coordinates) ^ u64::from(shuffle))
}

#[cfg(test)]
mod tests;
