// SPDX-License-Identifier: Apache-2.0
//! Originals: blocks as the map tasks wrote them, and the diagnosis of a damaged one.

use lodestone_model::{AppId, Code, MapId, ReduceId, Refusal, ShuffleId, check_name};
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::{
    CorruptionCause, DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks,
};

use super::Call;
use super::fetch::{NotOpened, open, source_for};
use crate::streams::StreamItem;
use crate::streams::items::Items;
use crate::streams::source::Source;

/// Refuses blocks of an executor that is not registered, before there is a list of them: two names
/// that nobody registered could hold the memory for all lists. Spark's own service opens such a
/// stream, and refuses its first chunk with the same text. Its clients do the same after both: they
/// repeat neither, and the task reports that it cannot fetch.
fn check_executor(call: &Call, app: &AppId, exec: &str) -> Result<(), Refusal> {
    check_name("an executor id", exec)?;
    call.service.store.check_executor(app, exec)
}

pub(super) fn shuffle_blocks(
    call: &Call,
    message: FetchShuffleBlocks,
) -> Result<StreamHandle, NotOpened> {
    check_executor(call, &message.app, &message.exec_id)?;
    open(call, of_blocks(message)?)
}

pub(super) fn of_blocks(message: FetchShuffleBlocks) -> Result<Source, Refusal> {
    let items = match message.batch {
        true => batches(message.shuffle_id, &message.blocks)?,
        false => Items::originals(message.shuffle_id, &message.blocks),
    };
    source_for(message.app, message.exec_id, items)
}

/// Several partitions of each map output, as one block.
fn batches(shuffle: ShuffleId, blocks: &[(MapId, Vec<ReduceId>)]) -> Result<Items, Refusal> {
    let batch = |(map, reduces): &(MapId, Vec<ReduceId>)| match reduces.as_slice() {
        &[start, end] => Ok((*map, start..end)),
        _ => Err(Code::Malformed.because("a batch has a first and a last partition")),
    };
    let blocks = blocks.iter().map(batch).collect::<Result<_, _>>()?;
    Ok(Items::batches(shuffle, blocks))
}

pub(super) fn open_blocks(call: &Call, message: OpenBlocks) -> Result<StreamHandle, NotOpened> {
    check_executor(call, &message.app, &message.exec_id)?;
    open(call, of_names(message)?)
}

pub(super) fn of_names(message: OpenBlocks) -> Result<Source, Refusal> {
    let named = |id: &String| {
        StreamItem::named(id)
            .ok_or_else(|| Code::Malformed.because(format!("unexpected block id: {id}")))
    };
    let items = message
        .block_ids
        .iter()
        .map(named)
        .collect::<Result<_, _>>()?;
    source_for(message.app, message.exec_id, Items::Mixed(items))
}

/// The places of the disks on which the files of the map output are.
pub(super) fn places(call: &Call, message: &DiagnoseCorruption) -> Vec<usize> {
    let (app, exec, block) = (&message.app, &message.exec_id, &message.block);
    let store = &call.service.store;
    store.places_of_suspect(app, exec, block, &message.algorithm)
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
