// SPDX-License-Identifier: Apache-2.0
//! Unmerged blocks, one by one from the files of map tasks: the cost of a shuffle without merging.

use bytes::Bytes;
use lodestone_model::{AppId, MapId, ReduceId, ShuffleId};
use lodestone_wire::spark::originals::FetchShuffleBlocks;
use lodestone_wire::{Frame, Message};

use super::spark::EXECUTOR;
use super::{Expect, FetchWords, Part, Planned};
use crate::error::Wrong;
use crate::workload::{Block, Workload};

/// Requests about the map outputs of one shuffle.
#[derive(Debug)]
pub struct Words {
    /// The application that registered the executor.
    pub app: AppId,
    /// The blocks, and the shuffle's id.
    pub workload: Workload,
}

impl FetchWords for Words {
    fn layout(&self, _part: Part, _request_id: i64) -> Option<Frame> {
        None
    }

    fn planned(&self, part: Part, _answer: Option<Frame>) -> Result<Vec<Planned>, Wrong> {
        let planned = part.range_of(self.workload.maps).map(|map| {
            let reduce = part.partition;
            let block = Block { map, reduce };
            Planned {
                index: map,
                bytes: self.workload.block_bytes(block).into(),
                expect: Expect::One(block),
            }
        });
        Ok(planned.collect())
    }

    fn open(&self, part: Part, planned: &[Planned]) -> Bytes {
        let block = |chunk: &Planned| (MapId(chunk.index.into()), vec![ReduceId(part.partition)]);
        FetchShuffleBlocks {
            app: self.app.clone(),
            exec_id: EXECUTOR.to_owned(),
            shuffle_id: ShuffleId(self.workload.shuffle.cast_signed()),
            blocks: planned.iter().map(block).collect(),
            batch: false,
        }
        .to_bytes()
    }
}
