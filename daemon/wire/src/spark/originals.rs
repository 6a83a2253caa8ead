// SPDX-License-Identifier: Apache-2.0
//! Blocks as the map tasks wrote them, on the executors' disks.
//!
//! ```text
//! OpenBlocks          0 appId, string execId, string[] blockIds
//! FetchShuffleBlocks  9 appId, string execId, i32 shuffleId, i64[] mapIds,
//!                       i32 n, n x i32[] reduceIds, bool batch
//! DiagnoseCorruption 16 appId, string execId, i32 shuffleId, i64 mapId, i32 reduceId,
//!                       i64 checksum, string algorithm
//! CorruptionCause    17 i8 cause
//! ```
//!
//! The first two are answered with a `StreamHandle`.

use bytes::BytesMut;
use lodestone_model::{AppId, Cause, MapId, ReduceId, ShuffleId, SuspectBlock};

use crate::codec::{Field, FieldError, Message, Problem, Reader, byte, fields, message, put_size};

message! { lenient, 0;
    /// Asks for blocks by name.
    pub struct OpenBlocks {
        /// The application.
        pub app: AppId,
        /// The executor that wrote them.
        pub exec_id: String,
        /// `shuffle_S_M_R`, `shuffleChunk_S_G_R_C` or `rdd_R_P`, all of one kind.
        pub block_ids: Vec<String>,
    }
}

/// Asks for shuffle blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchShuffleBlocks {
    /// The application.
    pub app: AppId,
    /// The executor that wrote them.
    pub exec_id: String,
    /// The shuffle.
    pub shuffle_id: ShuffleId,
    /// Task attempt ids, and the partitions of each, in the order of the stream.
    pub blocks: Vec<(MapId, Vec<ReduceId>)>,
    /// Whether the partitions of each map are `[start, end)` of one contiguous range.
    pub batch: bool,
}

impl Message for FetchShuffleBlocks {
    const ID: u8 = 9;
    const NAME: &'static str = "FetchShuffleBlocks";
    const STRICT: bool = false;

    fn encode_fields(&self, out: &mut BytesMut) {
        self.app.put(out);
        self.exec_id.put(out);
        self.shuffle_id.put(out);
        put_per_id(&self.blocks, out);
        self.batch.put(out);
    }

    fn decode_fields(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            app: input.field("app")?,
            exec_id: input.field("exec_id")?,
            shuffle_id: input.field("shuffle_id")?,
            blocks: get_per_id(input, "map_ids", "reduce_ids")?,
            batch: input.field("batch")?,
        })
    }
}

/// Spark's way to write a list of lists: the ids, then a count, then a list for each id.
pub(crate) fn put_per_id<Id: Field, Item: Field>(entries: &[(Id, Vec<Item>)], out: &mut BytesMut) {
    put_size(entries.len(), out);
    for (id, _) in entries {
        id.put(out);
    }
    put_size(entries.len(), out);
    for (_, list) in entries {
        list.put(out);
    }
}

/// The inverse of [`put_per_id`].
pub(crate) fn get_per_id<Id: Field, Item: Field>(
    input: &mut Reader<'_>,
    ids_name: &'static str,
    lists_name: &'static str,
) -> Result<Vec<(Id, Vec<Item>)>, FieldError> {
    let ids: Vec<Id> = input.field(ids_name)?;
    let lists: Vec<Vec<Item>> = input.field(lists_name)?;
    if ids.len() != lists.len() {
        let problem = Problem::UnequalArrays {
            expected: ids.len(),
            actual: lists.len(),
        };
        return Err(FieldError::from(problem).at(lists_name));
    }
    Ok(ids.into_iter().zip(lists).collect())
}

message! { lenient, 16;
    /// Asks why a block that was fetched did not have its checksum.
    pub struct DiagnoseCorruption {
        /// The application.
        pub app: AppId,
        /// The executor that wrote the block.
        pub exec_id: String,
        /// The block, and what the reader computed.
        pub block: SuspectBlock,
        /// `ADLER32`, `CRC32` or `CRC32C`.
        pub algorithm: String,
    }
}

message! { lenient, 17;
    /// The verdict.
    pub struct CorruptionCause {
        /// Where the bytes were damaged.
        pub cause: Cause,
    }
}

byte!(Cause);

fields! { SuspectBlock {
    shuffle: ShuffleId as "shuffle_id",
    map: MapId as "map_id",
    reduce: ReduceId as "reduce_id",
    reader_checksum: i64 as "checksum",
} }
