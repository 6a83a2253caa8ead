// SPDX-License-Identifier: Apache-2.0
//! The blocks that all connections fetch together, and the parts that each of them takes.

use std::sync::Arc;

use super::scene::Pushed;
use super::tally::{Queue, Tally};
use crate::dialect::{CHUNK_BYTES, Dialect, FetchWords, Part};
use crate::workload::blocks::BlockSet;
use crate::workload::payload::Payload;
use crate::workload::{Workload, shuffle as shuffled};

/// The state that all connections fetch from.
#[derive(Debug)]
pub struct FetchWork {
    /// The blocks.
    pub workload: Workload,
    /// Their bytes.
    pub payload: Payload,
    /// How requests are made.
    pub words: Arc<dyn FetchWords>,
    /// The parts that are left to be fetched.
    pub queue: Queue<Part>,
    /// The blocks that may come.
    pub merged: Arc<BlockSet>,
    /// The blocks that have come.
    pub fetched: BlockSet,
    /// Bytes that one connection asks for before it waits for them.
    pub window_bytes: u64,
    /// Counters.
    pub tally: Arc<Tally>,
}

/// How the work is divided, so that each connection gets some.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Connections.
    pub connections: u32,
    /// Bytes that one of them asks for before it waits.
    pub window_bytes: u64,
}

impl Shape {
    /// Returns the shape for each of this many shuffles.
    pub fn divided_by(self, shuffles: usize) -> Self {
        let shuffles = u32::try_from(shuffles).unwrap_or(u32::MAX).max(1);
        Self {
            connections: self.connections.div_ceil(shuffles),
            ..self
        }
    }
}

impl FetchWork {
    /// Everything that was merged.
    pub fn merged(pushed: &Pushed, shape: Shape, tally: Arc<Tally>) -> Self {
        let (shuffle, merged) = (&pushed.shuffle, Arc::clone(&pushed.merged));
        let workload = shuffle.workload;
        let queue = if shuffle.dialect == Dialect::Bare {
            let file = |partition| Part {
                partition,
                part: 0,
                parts: 1,
            };
            let files = shape.connections.min(workload.partitions);
            (0..files).map(file).collect()
        } else {
            let mut has_blocks = vec![false; workload.partitions as usize];
            for block in merged.blocks() {
                if let Some(has) = has_blocks.get_mut(block.reduce as usize) {
                    *has = true;
                }
            }
            let partitions = (0..).zip(has_blocks).filter(|(_, has)| *has);
            // More parts than chunks would only ask for layouts.
            let partition_bytes = workload.total() / u64::from(workload.partitions.max(1));
            let chunks = partition_bytes.div_ceil(CHUNK_BYTES) as u32;
            let partitions = partitions.map(|(partition, _)| partition);
            parts(partitions, (workload.partitions, chunks), shape)
        };
        Self {
            workload,
            payload: shuffle.payload.clone(),
            words: shuffle.fetch_words(),
            queue: Queue::of(queue),
            merged,
            fetched: BlockSet::of(workload),
            window_bytes: shape.window_bytes,
            tally,
        }
    }

    /// Every block as it was written.
    pub fn originals(
        (workload, payload): (Workload, Payload),
        words: Arc<dyn FetchWords>,
        shape: Shape,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            workload,
            payload,
            words,
            queue: Queue::of(parts(
                0..workload.partitions,
                (workload.partitions, workload.maps),
                shape,
            )),
            merged: Arc::new(BlockSet::all(workload)),
            fetched: BlockSet::of(workload),
            window_bytes: shape.window_bytes,
            tally,
        }
    }
}

/// Returns as many parts of each partition as are needed to keep all connections busy, if there are
/// so many.
fn parts(
    partitions: impl Iterator<Item = u32>,
    (count, most_parts): (u32, u32),
    shape: Shape,
) -> Vec<Part> {
    let wanted = shape.connections.div_ceil(count.max(1));
    let parts = wanted.clamp(1, most_parts.max(1));
    let of_partition = |partition| {
        (0..parts).map(move |part| Part {
            partition,
            part,
            parts,
        })
    };
    let mut all: Vec<Part> = partitions.flat_map(of_partition).collect();
    shuffled(&mut all);
    all
}
