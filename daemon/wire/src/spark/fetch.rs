// SPDX-License-Identifier: Apache-2.0
//! Streams over merged chunks.
//!
//! ```text
//! FetchShuffleBlockChunks 15 appId, string execId, i32 shuffleId, i32 shuffleMergeId,
//!                            i32[] reduceIds, i32 n, n x i32[] chunkIds
//! StreamHandle             3 i64 streamId, i32 numChunks
//! ```

use bytes::BytesMut;
use lodestone_model::{AppId, GenerationId, ReduceId, ShuffleId};

use super::originals::{get_per_id, put_per_id};
use crate::codec::{Field, FieldError, Message, Reader, message};

message! { lenient, 3;
    /// A stream is open.
    pub struct StreamHandle {
        /// Its id, bound to the connection.
        pub stream_id: i64,
        /// Chunks in it.
        pub num_chunks: u32,
    }
}

/// Asks for chunks of merged partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchShuffleBlockChunks {
    /// The application.
    pub app: AppId,
    /// Always [`super::MERGER_EXECUTOR`].
    pub exec_id: String,
    /// The shuffle.
    pub shuffle_id: ShuffleId,
    /// Its generation.
    pub shuffle_merge_id: GenerationId,
    /// Partitions, and the chunks of each, in the order of the stream.
    pub chunks: Vec<(ReduceId, Vec<u32>)>,
}

impl Message for FetchShuffleBlockChunks {
    const ID: u8 = 15;
    const NAME: &'static str = "FetchShuffleBlockChunks";
    const STRICT: bool = false;

    fn encode_fields(&self, out: &mut BytesMut) {
        self.app.put(out);
        self.exec_id.put(out);
        self.shuffle_id.put(out);
        self.shuffle_merge_id.put(out);
        put_per_id(&self.chunks, out);
    }

    fn decode_fields(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            app: input.field("app")?,
            exec_id: input.field("exec_id")?,
            shuffle_id: input.field("shuffle_id")?,
            shuffle_merge_id: input.field("shuffle_merge_id")?,
            chunks: get_per_id(input, "reduce_ids", "chunk_ids")?,
        })
    }
}
