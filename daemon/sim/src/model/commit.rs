// SPDX-License-Identifier: Apache-2.0
//! Map attempts: the segments that are taken of them, and when they count.

use bytes::Bytes;
use lodestone_model::{Code, Ledger, MapId, MapIndex, Mode, ReduceId};
use lodestone_server::handler::Answer;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::{AbortMap, CommitMap};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::status::Done;

use super::push::{is_disk, pieces};
use super::refusal::{Judged, agree, breach, refused_or};
use super::{AttemptState, Model, Shuffle, Trouble};

impl Model {
    pub(super) fn commit(&mut self, request: &CommitMap, answer: &Answer) -> Judged {
        let incarnation = self.incarnation;
        let id = (request.map_index, request.map_id);
        let found = self.of_map(&request.key, request.map_index);
        let expected = found.and_then(|shuffle| shuffle.commit(id, request.pushed));
        refused_or::<Done>(answer, incarnation, expected).map(|_| ())
    }

    pub(super) fn abort(&mut self, request: &AbortMap, answer: &Answer) -> Judged {
        let incarnation = self.incarnation;
        let id = (request.map_index, request.map_id);
        let found = self.of_map(&request.key, request.map_index);
        let expected = found.map(|shuffle| {
            let attempt = shuffle.attempts.entry(id).or_default();
            attempt.state = AttemptState::Aborted;
            attempt.ledger = Ledger::default();
            for laid in shuffle.laid.values_mut().flatten() {
                if (laid.segment.map_index, laid.segment.map_id) == id {
                    laid.gone = true;
                }
            }
        });
        refused_or::<Done>(answer, incarnation, expected).map(|_| ())
    }

    fn of_map(&mut self, key: &ShuffleAddress, map_index: MapIndex) -> Result<&mut Shuffle, Code> {
        match self.shuffle(key, Code::UnknownShuffle) {
            Ok(shuffle) if map_index.0 >= shuffle.maps => Err(Code::Malformed),
            other => other,
        }
    }
}

impl Shuffle {
    fn commit(&mut self, id: (MapIndex, MapId), pushed: Ledger) -> Result<(), Code> {
        match self.attempts.get_mut(&id) {
            None if pushed.segments == 0 => Ok(()),
            None => Err(Code::LedgerMismatch),
            Some(attempt) if attempt.state == AttemptState::Aborted => Err(Code::Aborted),
            Some(attempt) if attempt.ledger != pushed => Err(Code::LedgerMismatch),
            Some(attempt) => {
                attempt.state = AttemptState::Committed;
                Ok(())
            }
        }
    }

    /// Judges whether a batch whose segments got these codes has committed its attempt.
    pub(super) fn commit_whole(&mut self, batch: &PushBatch, reply: &PushBatchReply) -> Judged {
        let is_taken = |code: &Code| matches!(code, Code::Ok | Code::Duplicate);
        let id = (batch.map_index, batch.map_id);
        let commits = batch.is_whole
            && reply.codes.iter().all(is_taken)
            && self.commit(id, batch.ledger()).is_ok();
        agree("commit of a whole batch", &reply.is_committed, &commits)
    }

    /// Judges the outcome of a batch: a prefix is taken, once.
    pub(super) fn take(
        &mut self,
        batch: &PushBatch,
        body: &Bytes,
        codes: &[Code],
        trouble: Trouble,
        draining: bool,
    ) -> Judged {
        let count = batch.segments.len();
        let id = (batch.map_index, batch.map_id);
        if draining && !self.attempts.contains_key(&id) {
            let refused = vec![Code::Draining; count];
            return agree("codes of a push while it drains", &codes.to_vec(), &refused);
        }
        let attempt = self.attempts.entry(id).or_default();
        let before = match attempt.state {
            AttemptState::Aborted => {
                return agree("codes", &codes.to_vec(), &vec![Code::Aborted; count]);
            }
            AttemptState::Committed => count,
            AttemptState::Open => {
                let taken = attempt.batches.get(&batch.first_segment);
                let taken = taken.copied().unwrap_or_default();
                if count < taken.segments as usize || first(batch, body, taken.segments) != taken {
                    let others = vec![Code::OtherContent; count];
                    return agree("codes of another batch", &codes.to_vec(), &others);
                }
                taken.segments as usize
            }
        };
        let stays = self.mode == Mode::Remote || !trouble.writes;
        let mut refused = draining.then_some(Code::Draining);
        for (at, (mut laid, code)) in pieces(batch, body).zip(codes).enumerate() {
            if at < before {
                agree("code of what is there", code, &Code::Duplicate)?;
                continue;
            }
            if let Some(refused) = refused {
                agree("code behind a refused segment", code, &refused)?;
                continue;
            }
            let intact = crc32c::crc32c(&laid.bytes) == laid.segment.crc32c.0;
            match *code {
                Code::ChecksumMismatch if !intact => refused = Some(*code),
                other if !intact => return breach(format!("damaged, and answered {other:?}")),
                Code::Ok => {
                    let reduce_id = batch.segments.get(at).map_or(ReduceId(0), |s| s.reduce_id);
                    let one = Ledger::of(reduce_id, [laid.segment]);
                    attempt.ledger = attempt.ledger.and(one);
                    let taken = attempt.batches.entry(batch.first_segment).or_default();
                    *taken = taken.and(one);
                    laid.sure = stays;
                    self.laid.entry(reduce_id).or_default().push(laid);
                }
                code if is_disk(code) && trouble.writes => refused = Some(code),
                // Nothing is wrong with the disks.
                Code::Overloaded if trouble.descriptors => refused = Some(*code),
                // The attempt would be new, or the application has much metadata.
                Code::Overloaded | Code::Quota if trouble.metadata => refused = Some(*code),
                code => return breach(format!("refused with {code:?}, and nothing is wrong")),
            }
        }
        Ok(())
    }
}

/// The ledger of a batch's first segments.
fn first(batch: &PushBatch, body: &Bytes, count: u64) -> Ledger {
    let pieces = pieces(batch, body)
        .zip(&batch.segments)
        .take(count as usize);
    pieces.fold(Ledger::default(), |sum, (laid, segment)| {
        sum.and(Ledger::of(segment.reduce_id, [laid.segment]))
    })
}
