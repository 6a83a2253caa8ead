// SPDX-License-Identifier: Apache-2.0
//! Originals: blocks as the map tasks wrote them, and the diagnosis of a damaged one.

use lodestone_model::{Code, Refusal};
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::{
    CorruptionCause, DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks,
};

use super::Call;
use super::fetch::open_for;
use crate::connection::streams::StreamItem;

pub(super) fn shuffle_blocks(
    call: &Call,
    message: FetchShuffleBlocks,
) -> Result<StreamHandle, Refusal> {
    let shuffle = message.shuffle_id;
    let mut items = Vec::new();
    for (map, reduces) in &message.blocks {
        let map = *map;
        match reduces.as_slice() {
            &[start, end] if message.batch => items.push(StreamItem::Original {
                shuffle,
                map,
                reduces: start..end,
            }),
            _ if message.batch => {
                return Err(Code::Malformed.because("a batch has a first and a last partition"));
            }
            single => items.extend(
                single
                    .iter()
                    .map(|&reduce| StreamItem::original(shuffle, map, reduce)),
            ),
        }
    }
    open_for(call, message.app, message.exec_id, items)
}

pub(super) fn open_blocks(call: &Call, message: OpenBlocks) -> Result<StreamHandle, Refusal> {
    let named = |id: &String| {
        StreamItem::named(id)
            .ok_or_else(|| Code::Malformed.because(format!("unexpected block id: {id}")))
    };
    let items = message
        .block_ids
        .iter()
        .map(named)
        .collect::<Result<_, _>>()?;
    open_for(call, message.app, message.exec_id, items)
}

pub(super) fn diagnose(
    call: &Call,
    message: DiagnoseCorruption,
) -> Result<CorruptionCause, Refusal> {
    let DiagnoseCorruption {
        app,
        exec_id,
        block,
        algorithm,
    } = message;
    let store = &call.service.store;
    let cause = store.diagnose(&app, &exec_id, block, &algorithm);
    tracing::warn!(
        connection = call.connection, %app, executor = exec_id, ?block, ?cause,
        "a reader found a block damaged"
    );
    Ok(CorruptionCause { cause })
}
