// SPDX-License-Identifier: Apache-2.0
//! Push: a batch of whole segments of one map task, each for another partition.

use std::collections::HashSet;

use crate::model::code::{Code, Refusal};
use crate::model::id::{MapId, MapIndex, ReduceId, ShuffleKey};
use crate::model::segment::{LaidSegment, SegmentHeader};
use crate::register::ShuffleSpec;
use crate::store::Store;

impl Store {
    /// Merges the segments that stand one after another in `body`. One code per segment, in order;
    /// a refusal as a whole has no effect at all.
    pub fn push_batch(
        &self,
        key: &ShuffleKey,
        map_index: MapIndex,
        map_id: MapId,
        segments: &[SegmentHeader],
        body: &[u8],
    ) -> Result<Vec<Code>, Refusal> {
        let generation = match self.generation(key, Code::TooLate) {
            // Late is an answer per segment, whether it is late for all or only for some.
            Err(refusal) if refusal.code == Code::TooLate => {
                return Ok(vec![Code::TooLate; segments.len()]);
            }
            other => other?,
        };
        let Some(spec) = &generation.spec else {
            return Err(Code::Malformed.because(format!("{key} belongs to Spark's own push")));
        };
        check_batch(spec, map_index, segments, body)?;
        let reduces = segments.iter().map(|segment| segment.reduce);
        let partitions = match generation.open_partitions(&self.resources, reduces) {
            Ok(partitions) => partitions,
            Err(code) => return Ok(vec![code; segments.len()]),
        };
        let mut rest = body;
        let codes = segments.iter().zip(&partitions).map(|(header, partition)| {
            let (bytes, after) = rest.split_at(header.length as usize);
            rest = after;
            if crc32c::crc32c(bytes) != header.crc {
                return Code::ChecksumMismatch;
            }
            let segment = LaidSegment {
                map_index,
                map_id,
                length: header.length,
                records: header.records,
                crc: header.crc,
            };
            let code = partition.append(&self.resources, &segment, bytes);
            self.relieve_memory();
            code
        });
        Ok(codes.collect())
    }
}

/// What makes a batch malformed as a whole, looked at before anything is done.
fn check_batch(
    spec: &ShuffleSpec,
    map_index: MapIndex,
    segments: &[SegmentHeader],
    body: &[u8],
) -> Result<(), Refusal> {
    let malformed = |detail: String| Err(Code::Malformed.because(detail));
    if map_index.0 >= spec.num_maps {
        return malformed(format!("map index {map_index} of {} maps", spec.num_maps));
    }
    for segment in segments {
        if segment.reduce.0 >= spec.num_partitions {
            let (reduce, count) = (segment.reduce, spec.num_partitions);
            return malformed(format!("reduce id {reduce} of {count} partitions"));
        }
        if segment.length == 0 {
            return malformed(format!("empty segment for partition {}", segment.reduce));
        }
    }
    let total: u64 = segments
        .iter()
        .map(|segment| u64::from(segment.length))
        .sum();
    if total != body.len() as u64 {
        return malformed(format!(
            "segments sum up to {total}, the body has {}",
            body.len()
        ));
    }
    if has_repeats(segments) {
        return malformed("two segments of one map for the same partition".into());
    }
    Ok(())
}

fn has_repeats(segments: &[SegmentHeader]) -> bool {
    // Clients send runs of partitions: almost always in order.
    if segments.is_sorted_by(|a, b| a.reduce < b.reduce) {
        return false;
    }
    let mut seen: HashSet<ReduceId> = HashSet::with_capacity(segments.len());
    !segments.iter().all(|segment| seen.insert(segment.reduce))
}
