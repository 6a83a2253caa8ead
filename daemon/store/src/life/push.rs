// SPDX-License-Identifier: Apache-2.0
//! Push: a batch of whole segments of one map attempt.

use std::sync::Arc;

use lodestone_model::{
    Code, LaidSegment, Ledger, MapId, MapIndex, ReduceId, Refusal, Segment, ShuffleKey, ShuffleSpec,
};
use lodestone_planted::{self as planted, Bug};

use crate::merge::Partition;
use crate::resource::timed_mutex::{Caller, Wait};
use crate::state::attempt::Attempt;
use crate::state::generation::Generation;
use crate::state::store::Store;

/// Segments of one attempt: their numbers, in the attempt and in blocks, have 31 bits on the wire.
const SEQUENCES_MAX: usize = 1 << 31;

/// A push takes no more segments after this time: when memory is full, each goes to disk. The
/// client repeats the rest, and meanwhile other batches of the attempt get their turn.
const TAKES_MS: u64 = 2_000;

/// The segments of one push, and their map attempt.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The map.
    pub map_index: MapIndex,
    /// Its attempt.
    pub map_id: MapId,
    /// Number of the first segment among all that the attempt pushes: the name of the batch when
    /// the client repeats it.
    pub first_segment: u32,
    /// The segments, in the order of their bytes.
    pub segments: &'a [Segment],
    /// The bytes.
    pub body: &'a [u8],
}

impl Store {
    /// Ok if a batch for this shuffle may have an effect, or gets a code for each segment.
    pub fn check_push(&self, key: &ShuffleKey) -> Result<(), Refusal> {
        match self.generation(key, Code::TooLate) {
            Err(refusal) if refusal.code != Code::TooLate => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Takes the segments of a batch. Returns one code per segment, in order. A refusal has no
    /// effect at all.
    pub fn push_batch(&self, key: &ShuffleKey, batch: &Batch<'_>) -> Result<Vec<Code>, Refusal> {
        self.push_batch_if(Wait::InTime, key, batch)
    }

    /// Takes the segments of a batch that it can take without waiting, if it must not wait: the
    /// same batch, repeated, continues behind them.
    pub fn push_batch_if(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        batch: &Batch<'_>,
    ) -> Result<Vec<Code>, Refusal> {
        let generation = match self.generation(key, Code::TooLate) {
            // "Too late" is an answer per segment, also if it is the same for all of them.
            Err(refusal) if refusal.code == Code::TooLate => {
                return Ok(vec![Code::TooLate; batch.segments.len()]);
            }
            other => other?,
        };
        let Some(spec) = &generation.spec else {
            return Err(Code::Malformed.because(format!("{key} belongs to Spark's own push")));
        };
        check_batch(spec, batch)?;
        if !wait.is_allowed() && self.is_draining() {
            return Ok(vec![Code::Overloaded; batch.segments.len()]);
        }
        if self.is_draining() && !planted::is(Bug::DrainIgnored) {
            return Ok(self.refuse_rest(&generation, batch));
        }
        let reduces = batch.segments.iter().map(|segment| segment.reduce_id);
        let partitions = match generation.open_partitions(reduces) {
            Ok(partitions) => partitions,
            Err(code) => return Ok(vec![code; batch.segments.len()]),
        };
        Ok(self.take_batch(wait, &generation, batch, &partitions))
    }

    /// Takes a prefix of the batch, which grows when the batch is repeated. The attempt's lock is
    /// held meanwhile: batches of the same attempt wait for one another, those of other attempts do
    /// not.
    fn take_batch(
        &self,
        wait: Wait,
        generation: &Generation,
        batch: &Batch<'_>,
        partitions: &[Arc<Partition>],
    ) -> Vec<Code> {
        let count = batch.segments.len();
        let account = &generation.account;
        let id = (batch.map_index, batch.map_id);
        let attempt = match generation.attempts.open(account, id, generation.num_maps()) {
            Ok(attempt) => attempt,
            Err(code) => return vec![code; count],
        };
        let attempts = &generation.attempts;
        let body = self.resources.body(batch.body.len() as u64);
        let caller = Caller { wait, body };
        let taken = attempts.change_for(&caller, account, &attempt, |attempt| {
            let before = match planted::is(Bug::BatchTakenTwice) {
                true => 0,
                false => batch.taken_of(attempt)?,
            };
            let (codes, more) = self.append_some(&caller, batch, partitions, before);
            attempt.take(batch.first_segment, more);
            Ok(codes)
        });
        self.resources.call_if_short();
        match taken {
            Ok(Ok(codes)) => codes,
            Ok(Err(code)) | Err(code) => {
                // A call that must not wait is repeated by one that may.
                if code == Code::OtherContent && wait.is_allowed() {
                    let (map_index, map_id) = id;
                    let (shuffle, first) = (&generation.key, batch.first_segment);
                    tracing::error!(
                        %shuffle, %map_index, %map_id, first,
                        "a batch came again with other segments: refused"
                    );
                }
                vec![code; count]
            }
        }
    }

    /// Appends the segments after the first `before` ones, until one is refused or the time is
    /// over. Returns a code for each segment of the batch, and the ledger of what was appended.
    fn append_some(
        &self,
        caller: &Caller<'_>,
        batch: &Batch<'_>,
        partitions: &[Arc<Partition>],
        before: usize,
    ) -> (Vec<Code>, Ledger) {
        let mut codes = vec![Code::Duplicate; before];
        let mut more = Ledger::default();
        let end_ms = self.now_ms() + TAKES_MS;
        for (segment, partition) in batch.segments().zip(partitions).skip(before) {
            let code = match more.segments > 0 && self.now_ms() >= end_ms {
                true => Code::Overloaded,
                false => self.append(caller, partition, &segment),
            };
            if code != Code::Ok {
                codes.resize(batch.segments.len(), code);
                break;
            }
            more = more.and(segment.ledger());
            codes.push(Code::Ok);
        }
        (codes, more)
    }

    fn append(
        &self,
        caller: &Caller<'_>,
        partition: &Partition,
        segment: &BatchSegment<'_>,
    ) -> Code {
        let is_sound = crc32c::crc32c(segment.bytes) == segment.laid.crc32c.0;
        if !is_sound && !planted::is(Bug::ChecksumUnchecked) {
            return Code::ChecksumMismatch;
        }
        partition.append(&self.resources, caller, &segment.laid, segment.bytes)
    }
}

/// One segment of a batch.
struct BatchSegment<'a> {
    reduce: ReduceId,
    laid: LaidSegment,
    bytes: &'a [u8],
}

impl BatchSegment<'_> {
    fn ledger(&self) -> Ledger {
        Ledger::of(self.reduce, [self.laid])
    }
}

impl<'a> Batch<'a> {
    /// How many of its first segments were taken of this attempt before.
    pub(crate) fn taken_of(&self, attempt: &Attempt) -> Result<usize, Code> {
        let ledger = |count| {
            let segments = self.segments().take(count);
            segments.fold(Ledger::default(), |sum, segment| sum.and(segment.ledger()))
        };
        attempt.taken(self.first_segment, self.segments.len(), ledger)
    }

    fn segments(&self) -> impl Iterator<Item = BatchSegment<'a>> {
        let (map_index, map_id) = (self.map_index, self.map_id);
        let mut rest = self.body;
        self.segments.iter().map(move |header| {
            let (bytes, after) = rest.split_at(header.length as usize);
            rest = after;
            BatchSegment {
                reduce: header.reduce_id,
                laid: header.laid(map_index, map_id),
                bytes,
            }
        })
    }
}

/// Refuses a batch that is malformed as a whole, before anything is done.
fn check_batch(spec: &ShuffleSpec, batch: &Batch<'_>) -> Result<(), Refusal> {
    let malformed = |detail: String| Err(Code::Malformed.because(detail));
    let (map_index, segments, body) = (batch.map_index, batch.segments, batch.body);
    if map_index.0 >= spec.num_maps {
        return malformed(format!("map index {map_index} of {} maps", spec.num_maps));
    }
    for segment in segments {
        let (reduce, count) = (segment.reduce_id, spec.num_partitions);
        if reduce.0 >= count {
            return malformed(format!("reduce id {reduce} of {count} partitions"));
        }
        if segment.length == 0 && !segment.is_end_alone() {
            return malformed(format!("empty segment for partition {reduce}"));
        }
        let sequence = segment.sequence;
        if sequence as usize >= SEQUENCES_MAX {
            return malformed(format!("sequence {sequence} for partition {reduce}"));
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
    let past_end = batch.first_segment as usize + segments.len();
    if past_end > SEQUENCES_MAX {
        return malformed(format!("segment number {past_end} of one map attempt"));
    }
    Ok(())
}
