// SPDX-License-Identifier: Apache-2.0
//! Originals: blocks as the map tasks wrote them, and what became of a damaged one.

use lodestone_store::{
    Code, CorruptionCause as Verdict, MapId, ReduceId, Refusal, ShuffleId, SuspectBlock,
};
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::{
    Cause, CorruptionCause, DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks,
};

use super::fetch::open_for;
use super::{Call, app_id};
use crate::connection::streams::Block;

pub(super) fn shuffle_blocks(
    call: &Call,
    message: FetchShuffleBlocks,
) -> Result<StreamHandle, Refusal> {
    let shuffle = ShuffleId(message.shuffle_id);
    let mut blocks = Vec::new();
    for (map, reduces) in &message.blocks {
        let map = MapId(*map);
        match reduces.as_slice() {
            &[start, end] if message.batch => blocks.push(Block::Original {
                shuffle,
                map,
                reduces: ReduceId(start)..ReduceId(end),
            }),
            _ if message.batch => {
                return Err(Code::Malformed.because("a batch has a first and a last partition"));
            }
            single => blocks.extend(
                single
                    .iter()
                    .map(|&reduce| Block::original(shuffle, map, reduce)),
            ),
        }
    }
    open_for(call, &message.app, message.exec_id, blocks)
}

pub(super) fn open_blocks(call: &Call, message: OpenBlocks) -> Result<StreamHandle, Refusal> {
    let named = |id: &String| {
        Block::named(id)
            .ok_or_else(|| Code::Malformed.because(format!("unexpected block id: {id}")))
    };
    let blocks = message
        .block_ids
        .iter()
        .map(named)
        .collect::<Result<_, _>>()?;
    open_for(call, &message.app, message.exec_id, blocks)
}

pub(super) fn diagnose(
    call: &Call,
    message: DiagnoseCorruption,
) -> Result<CorruptionCause, Refusal> {
    let app = app_id(&message.app)?;
    let block = SuspectBlock {
        shuffle: ShuffleId(message.shuffle_id),
        map: MapId(message.map_id),
        reduce: ReduceId(message.reduce_id),
        reader_checksum: message.checksum,
    };
    let verdict = call
        .service
        .store
        .diagnose(&app, &message.exec_id, block, &message.algorithm);
    let cause = match verdict {
        Verdict::DiskIssue => Cause::DiskIssue,
        Verdict::NetworkIssue => Cause::NetworkIssue,
        Verdict::UnknownIssue => Cause::UnknownIssue,
        Verdict::ChecksumVerifyPass => Cause::ChecksumVerifyPass,
        Verdict::UnsupportedChecksumAlgorithm => Cause::UnsupportedChecksumAlgorithm,
    };
    tracing::warn!(
        connection = call.connection, %app, executor = message.exec_id, ?block, ?cause,
        "a reader found a block damaged"
    );
    Ok(CorruptionCause { cause })
}
