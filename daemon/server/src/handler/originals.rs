// SPDX-License-Identifier: Apache-2.0
//! Originals: blocks as the map tasks wrote them, and what became of a damaged one.

use lodestone_store::{
    Code, CorruptionCause as Verdict, MapId, MapRange, MergeId, ReduceId, Refusal, ShuffleId,
    SuspectBlock,
};
use lodestone_wire::spark::fetch::StreamHandle;
use lodestone_wire::spark::originals::{
    Cause, CorruptionCause, DiagnoseCorruption, FetchShuffleBlocks, OpenBlocks,
};

use super::fetch::open;
use super::{Call, app_id};
use crate::connection::streams::{Block, Source};

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
            single => blocks.extend(single.iter().map(|&reduce| original(shuffle, map, reduce))),
        }
    }
    stream(call, &message.app, message.exec_id, blocks)
}

pub(super) fn open_blocks(call: &Call, message: OpenBlocks) -> Result<StreamHandle, Refusal> {
    let named = |id: &String| {
        block_of(id).ok_or_else(|| Code::Malformed.because(format!("unexpected block id: {id}")))
    };
    let blocks = message
        .block_ids
        .iter()
        .map(named)
        .collect::<Result<_, _>>()?;
    stream(call, &message.app, message.exec_id, blocks)
}

fn stream(
    call: &Call,
    app: &lodestone_wire::AppId,
    exec: String,
    blocks: Vec<Block>,
) -> Result<StreamHandle, Refusal> {
    let app = app_id(app)?;
    open(
        call,
        Source {
            app,
            attempt: None,
            exec,
            range: MapRange::ALL,
            blocks,
        },
    )
}

fn original(shuffle: ShuffleId, map: MapId, reduce: u32) -> Block {
    // Reduce ids come from non-negative 32-bit fields: one more fits.
    Block::Original {
        shuffle,
        map,
        reduces: ReduceId(reduce)..ReduceId(reduce + 1),
    }
}

/// `shuffle_S_M_R`, `shuffleChunk_S_G_R_C` or `rdd_R_P`.
fn block_of(id: &str) -> Option<Block> {
    let (kind, numbers) = id.split_once('_')?;
    let numbers = numbers
        .split('_')
        .map(str::parse)
        .collect::<Result<Vec<i64>, _>>()
        .ok()?;
    let small = |number: i64| i32::try_from(number).ok();
    let index = |number: i64| small(number).and_then(|number| u32::try_from(number).ok());
    match (kind, numbers.as_slice()) {
        ("shuffle", &[shuffle, map, reduce]) => Some(original(
            ShuffleId(small(shuffle)?),
            MapId(map),
            index(reduce)?,
        )),
        ("shuffleChunk", &[shuffle, merge, reduce, chunk]) => Some(Block::Merged {
            shuffle: ShuffleId(small(shuffle)?),
            merge: MergeId(small(merge)?),
            reduce: ReduceId(index(reduce)?),
            chunk: index(chunk)?,
        }),
        ("rdd", &[rdd, split]) => Some(Block::Rdd {
            rdd: small(rdd)?,
            split: small(split)?,
        }),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_names_are_read_as_spark_writes_them() {
        let reduces = ReduceId(3)..ReduceId(4);
        let original = Block::Original {
            shuffle: ShuffleId(1),
            map: MapId(2),
            reduces,
        };
        assert_eq!(block_of("shuffle_1_2_3"), Some(original));
        let (shuffle, merge, reduce) = (ShuffleId(1), MergeId(0), ReduceId(3));
        let merged = Block::Merged {
            shuffle,
            merge,
            reduce,
            chunk: 4,
        };
        assert_eq!(block_of("shuffleChunk_1_0_3_4"), Some(merged));
        assert_eq!(block_of("rdd_7_8"), Some(Block::Rdd { rdd: 7, split: 8 }));
        for bad in [
            "",
            "rdd_1",
            "rdd_1_x",
            "shuffle_1_2",
            "shuffle_1_2_-3",
            "broadcast_1_2",
            "rdd",
        ] {
            assert_eq!(block_of(bad), None, "{bad}");
        }
    }
}
