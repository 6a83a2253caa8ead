// SPDX-License-Identifier: Apache-2.0
//! The bytes of blocks: made once, shared by all blocks, and different for each.
//!
//! ```text
//! head   i32 map, i32 partition, i32 length with head, i32 shuffle
//! body   a part of one pool of random bytes; its start depends on the three numbers
//! ```
//!
//! A block contains its own name, so that merged bytes can be checked in any order. Its body is
//! compared with the pool, which costs less than a checksum and finds more.

use std::io::{self, Write};

use bytes::{BufMut, Bytes, BytesMut};

use super::{Block, BlockSize, Workload, mixed, spread};
use crate::error::Wrong;

/// Bytes before the body.
pub const HEAD_BYTES: usize = 16;

/// Offsets at which a body can start.
const STARTS: u64 = 1 << 20;

/// The pool.
#[derive(Clone, Debug)]
pub struct Payload(Bytes);

impl Payload {
    /// Returns the pool for blocks of this size.
    pub fn of(size: BlockSize) -> Self {
        let bytes = STARTS + size.most();
        let mut pool = BytesMut::with_capacity(bytes as usize + 8);
        for word in 0..bytes.div_ceil(8) {
            pool.put_u64(spread(word));
        }
        Self(pool.freeze())
    }

    /// Returns the head of the block.
    pub fn head(workload: Workload, block: Block) -> [u8; HEAD_BYTES] {
        let length = workload.block_bytes(block);
        let words = [block.map, block.reduce, length, workload.shuffle];
        let mut head = [0; HEAD_BYTES];
        for (at, word) in head.chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_be_bytes());
        }
        head
    }

    /// Returns the block's body, without a copy.
    pub fn body(&self, workload: Workload, block: Block) -> Bytes {
        let start = (mixed(block, workload.shuffle) % STARTS) as usize;
        let length = workload.block_bytes(block) as usize - HEAD_BYTES;
        self.0.slice(start..start + length)
    }

    fn expected(&self, workload: Workload, block: Block) -> &[u8] {
        let start = (mixed(block, workload.shuffle) % STARTS) as usize;
        let length = workload.block_bytes(block) as usize - HEAD_BYTES;
        self.0.get(start..start + length).unwrap_or_default()
    }

    /// The checksum of a block.
    pub fn crc32c(&self, workload: Workload, block: Block) -> u32 {
        let head = crc32c::crc32c(&Self::head(workload, block));
        crc32c::crc32c_append(head, self.expected(workload, block))
    }

    /// Head and body, to a file.
    pub fn write(&self, workload: Workload, block: Block, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&Self::head(workload, block))?;
        out.write_all(self.expected(workload, block))
    }
}

/// Checks complete blocks in a row while their bytes arrive.
#[derive(Debug, Default)]
pub struct BlockCheck {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    block: Option<Current>,
}

/// The block whose body arrives.
#[derive(Clone, Copy, Debug)]
struct Current {
    block: Block,
    body_bytes: usize,
}

impl BlockCheck {
    /// Checks the bytes, and calls `each` with each block that is complete.
    pub fn feed(
        &mut self,
        payload: &Payload,
        workload: Workload,
        mut bytes: &[u8],
        each: &mut impl FnMut(Block) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        loop {
            let Some(mut current) = self.current(workload, &mut bytes)? else {
                return Ok(());
            };
            let expected = payload.expected(workload, current.block);
            let rest = expected.get(current.body_bytes..).unwrap_or_default();
            let (compared, left) = bytes.split_at(rest.len().min(bytes.len()));
            if rest.get(..compared.len()) != Some(compared) {
                return Err(Wrong::Bytes(current.block));
            }
            bytes = left;
            current.body_bytes += compared.len();
            if current.body_bytes < expected.len() {
                self.block = Some(current);
                return Ok(());
            }
            self.block = None;
            self.head_bytes = 0;
            each(current.block)?;
        }
    }

    /// Returns the block whose body comes next, when its head is complete.
    fn current(&mut self, workload: Workload, bytes: &mut &[u8]) -> Result<Option<Current>, Wrong> {
        if self.block.is_some() {
            return Ok(self.block);
        }
        let space = self.head.get_mut(self.head_bytes..).unwrap_or_default();
        let (taken, rest) = bytes.split_at(space.len().min(bytes.len()));
        for (at, byte) in space.iter_mut().zip(taken) {
            *at = *byte;
        }
        *bytes = rest;
        self.head_bytes += taken.len();
        if self.head_bytes < HEAD_BYTES {
            return Ok(None);
        }
        let block = known(workload, &self.head)?;
        Ok(Some(Current {
            block,
            body_bytes: 0,
        }))
    }

    /// Returns true if no block has begun that is not complete.
    pub fn is_at_an_end(&self) -> bool {
        self.block.is_none() && self.head_bytes == 0
    }
}

/// Returns the block that a head names, if the head is right.
fn known(workload: Workload, head: &[u8; HEAD_BYTES]) -> Result<Block, Wrong> {
    let mut words = head.chunks_exact(4).map(|word| {
        word.iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte))
    });
    let mut word = || words.next().unwrap_or_default();
    let (map, reduce) = (word(), word());
    let block = Block { map, reduce };
    let is_one = map < workload.maps && reduce < workload.partitions;
    if is_one && Payload::head(workload, block) == *head {
        Ok(block)
    } else {
        Err(Wrong::Head)
    }
}
