// SPDX-License-Identifier: Apache-2.0
//! The end of a push-merged shuffle, answered with what is in it.
//!
//! ```text
//! FinalizeShuffleMerge 13 appId, i32 appAttempt, i32 shuffleId, i32 shuffleMergeId
//! MergeStatuses        14 i32 shuffleId, i32 shuffleMergeId, bitmap[], i32[] reduceIds,
//!                         i64[] sizes
//! ```

use bytes::{BufMut, BytesMut};
use lodestone_model::{GenerationId, MergeStatus, ReduceId, ShuffleId, ShuffleKey};
use roaring::RoaringBitmap;

use crate::codec::{Field, FieldError, Message, Problem, Reader, message};

message! { lenient, 13;
    /// Stop appends.
    pub struct FinalizeShuffleMerge {
        /// Which shuffle.
        pub key: ShuffleKey,
    }
}

/// The merged partitions of a shuffle.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeStatuses {
    /// The shuffle.
    pub shuffle_id: ShuffleId,
    /// Its generation.
    pub shuffle_merge_id: GenerationId,
    /// One for each partition with at least one block.
    pub partitions: Vec<MergeStatus>,
}

/// The portable Roaring form, without a length before it.
struct Portable(RoaringBitmap);

impl Field for Portable {
    const MIN_BYTES: usize = 8;

    fn put(&self, out: &mut BytesMut) {
        put_bitmap(&self.0, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        match RoaringBitmap::deserialize_from(input.rest()) {
            Ok(bitmap) => Ok(Self(bitmap)),
            Err(_) => Err(Problem::NotABitmap.into()),
        }
    }
}

fn put_bitmap(bitmap: &RoaringBitmap, out: &mut BytesMut) {
    out.reserve(bitmap.serialized_size());
    let written = bitmap.serialize_into(out.writer());
    debug_assert!(written.is_ok(), "a buffer in memory takes every byte");
}

impl Message for MergeStatuses {
    const ID: u8 = 14;
    const NAME: &'static str = "MergeStatuses";
    const STRICT: bool = false;

    fn encode_fields(&self, out: &mut BytesMut) {
        self.shuffle_id.put(out);
        self.shuffle_merge_id.put(out);
        crate::codec::put_size(self.partitions.len(), out);
        for partition in &self.partitions {
            put_bitmap(&partition.maps, out);
        }
        crate::codec::put_size(self.partitions.len(), out);
        for partition in &self.partitions {
            partition.reduce_id.put(out);
        }
        crate::codec::put_size(self.partitions.len(), out);
        for partition in &self.partitions {
            partition.bytes.put(out);
        }
    }

    fn decode_fields(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        let shuffle_id = input.field("shuffle_id")?;
        let shuffle_merge_id = input.field("shuffle_merge_id")?;
        let bitmaps: Vec<Portable> = input.field("bitmaps")?;
        let reduce_ids: Vec<ReduceId> = input.field("reduce_ids")?;
        let sizes: Vec<u64> = input.field("sizes")?;
        for (field, actual) in [("reduce_ids", reduce_ids.len()), ("sizes", sizes.len())] {
            if actual != bitmaps.len() {
                let problem = Problem::UnequalArrays {
                    expected: bitmaps.len(),
                    actual,
                };
                return Err(FieldError::from(problem).at(field));
            }
        }
        let partitions = bitmaps
            .into_iter()
            .zip(reduce_ids)
            .zip(sizes)
            .map(|((Portable(maps), reduce_id), bytes)| MergeStatus {
                reduce_id,
                maps,
                bytes,
            })
            .collect();
        Ok(Self {
            shuffle_id,
            shuffle_merge_id,
            partitions,
        })
    }
}
