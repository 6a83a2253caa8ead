// SPDX-License-Identifier: Apache-2.0
//! Bugs planted on purpose, to show that the simulation finds them.
//!
//! Most are between the network and the real handlers, or between the store and the disk: they
//! change a request, an answer or a call as the bug would. Nineteen are inside the store, behind
//! its feature `planted`.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use lodestone_model::{AppId, Code, Crc32c, GenerationId, MapId, ShuffleId};
use lodestone_server::handler::{self, Answer, Call, Upload};
use lodestone_store::PlantedBug;
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::drain::Drain;
use lodestone_wire::extension::fetch::{FetchSegments, SegmentLayout, SegmentLayoutReply};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::{Done, Refused};

/// A bug of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Inside the store.
    Store(PlantedBug),
    /// Whatever incarnation a request names, it is taken for ours.
    IncarnationIgnored,
    /// A repeated commit finds nothing to compare, and is refused.
    CommittedOnce,
    /// The layout of a removed shuffle is empty.
    ReleasedReadAsEmpty,
    /// The layout of a partition that nothing was pushed for is empty.
    UnknownPartitionAsEmpty,
    /// The checksum of a segment is not compared.
    ChecksumUnchecked,
    /// A push of an older generation goes into the current one.
    StaleGenerationMerged,
    /// The first attempt of a map that commits is the only one.
    OtherAttemptRefused,
    /// All segments of a batch get the code of the first.
    OneCodeForAll,
    /// The bytes that a failed write left at the end of a file are forgotten, and the next write
    /// comes behind them.
    TornTailForgotten,
    /// A write that took only some of the bytes counts as complete.
    ShortWriteTakenForWhole,
    /// A directory of our name is removed without a look at its marker.
    MarkerUnchecked,
    /// The files of a killed daemon are not removed.
    LeftoversKept,
    /// Leases never expire.
    LeaseIgnored,
    /// A chunk is read from one byte too far.
    ChunkOffByOne,
    /// All connections have the same streams.
    StreamsShared,
    /// The data files of a removed shuffle stay.
    RemovedFilesKept,
    /// A file that was opened for reading is never closed.
    FilesLeftOpen,
    /// Every daemon has the same incarnation.
    IncarnationReused,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 37] = [
        Self::Store(PlantedBug::DroppedShown),
        Self::Store(PlantedBug::DropMovesSlots),
        Self::Store(PlantedBug::DroppedBytesCounted),
        Self::Store(PlantedBug::RemoteDropped),
        Self::Store(PlantedBug::AckBeforeWrite),
        Self::Store(PlantedBug::FailedWriteAcknowledged),
        Self::Store(PlantedBug::FailedWriteDropsAll),
        Self::Store(PlantedBug::PartsMixedUp),
        Self::Store(PlantedBug::TailMemoryKept),
        Self::Store(PlantedBug::RegistrationsForgotten),
        Self::Store(PlantedBug::LedgerUnchecked),
        Self::Store(PlantedBug::UncommittedShown),
        Self::Store(PlantedBug::AbortedKept),
        Self::Store(PlantedBug::BatchTakenTwice),
        Self::Store(PlantedBug::HandoverBelievedTwice),
        Self::Store(PlantedBug::HandoverWithoutMemory),
        Self::Store(PlantedBug::DrainIgnored),
        Self::Store(PlantedBug::RepeatsUncompared),
        Self::Store(PlantedBug::SegmentForgotten),
        Self::IncarnationIgnored,
        Self::CommittedOnce,
        Self::ReleasedReadAsEmpty,
        Self::UnknownPartitionAsEmpty,
        Self::ChecksumUnchecked,
        Self::StaleGenerationMerged,
        Self::OtherAttemptRefused,
        Self::OneCodeForAll,
        Self::TornTailForgotten,
        Self::ShortWriteTakenForWhole,
        Self::MarkerUnchecked,
        Self::LeftoversKept,
        Self::LeaseIgnored,
        Self::ChunkOffByOne,
        Self::StreamsShared,
        Self::RemovedFilesKept,
        Self::FilesLeftOpen,
        Self::IncarnationReused,
    ];
}

/// The real handlers, with one bug or none around them.
#[derive(Debug, Default)]
pub struct Handlers {
    bug: Option<Bug>,
    /// Commits that were done, as they were asked for.
    committed: HashSet<Bytes>,
    /// The attempt of each map that committed first.
    first: HashMap<String, MapId>,
    /// The generation of each application's shuffle that was registered last.
    newest: HashMap<(AppId, ShuffleId), GenerationId>,
}

impl Handlers {
    /// Handlers with this bug.
    pub fn new(bug: Option<Bug>) -> Self {
        Self {
            bug,
            ..Self::default()
        }
    }

    /// Carries out an RPC.
    pub fn rpc(&mut self, call: &Call, body: &Bytes) -> Answer {
        let mutated = match self.bug {
            Some(Bug::IncarnationIgnored) => with_our_incarnation(call, body),
            _ => None,
        };
        let request = mutated.as_ref().unwrap_or(body);
        let answer = match request.first() {
            // It comes to another socket, and no network is between.
            Some(&Drain::ID) => handler::operator(call, request),
            _ => handler::rpc(call, request),
        };
        if let (Ok(register), Answer::Response(response)) =
            (RegisterShuffle::from_bytes(body), &answer)
            && Done::from_bytes(response).is_ok()
        {
            let key = register.key.shuffle;
            self.newest.insert((key.app, key.shuffle), key.generation);
        }
        self.mutate_answer(call, body, answer)
    }

    fn mutate_answer(&mut self, call: &Call, body: &Bytes, answer: Answer) -> Answer {
        let Answer::Response(response) = &answer else {
            return answer;
        };
        match self.bug {
            Some(Bug::CommittedOnce | Bug::OtherAttemptRefused) => {
                let Ok(commit) = CommitMap::from_bytes(body) else {
                    return answer;
                };
                match Done::from_bytes(response).is_ok() && !self.is_the_first(body, commit) {
                    true => Answer::Response(refused(call, Code::LedgerMismatch)),
                    false => answer,
                }
            }
            Some(Bug::ReleasedReadAsEmpty) => match (SegmentLayout::from_bytes(body), response) {
                (Ok(_), refused) if is_refused(refused, Code::UnknownShuffle) => {
                    Answer::Response(empty_layout(call))
                }
                _ => answer,
            },
            Some(Bug::UnknownPartitionAsEmpty) => {
                let Ok(mut reply) = SegmentLayoutReply::from_bytes(response) else {
                    return answer;
                };
                for partition in &mut reply.partitions {
                    partition.code = Code::Ok;
                }
                Answer::Response(reply.to_bytes())
            }
            _ => answer,
        }
    }

    /// Returns true if a commit is the first of its attempt, or its attempt the first of its map.
    fn is_the_first(&mut self, body: &Bytes, commit: CommitMap) -> bool {
        if self.bug == Some(Bug::CommittedOnce) {
            return self.committed.insert(body.clone());
        }
        let map = format!("map {} of {}", commit.map_index, commit.key.shuffle);
        *self.first.entry(map).or_insert(commit.map_id) == commit.map_id
    }

    /// Looks at an upload before its body is read.
    pub fn admit_upload(
        &mut self,
        call: &Call,
        meta: &Bytes,
        body: &Bytes,
    ) -> Result<Upload, Answer> {
        let mutated = PushBatch::from_bytes(meta)
            .ok()
            .map(|batch| self.mutate_batch(call, batch, body).to_bytes());
        let length = body.len() as u64;
        handler::admit_upload(call, mutated.as_ref().unwrap_or(meta), length)
    }

    fn mutate_batch(&self, call: &Call, mut batch: PushBatch, body: &Bytes) -> PushBatch {
        match self.bug {
            Some(Bug::IncarnationIgnored) => batch.key.incarnation = call.service.incarnation(),
            Some(Bug::StaleGenerationMerged) => {
                let key = &mut batch.key.shuffle;
                let newest = self.newest.get(&(key.app.clone(), key.shuffle)).copied();
                key.generation = newest.unwrap_or(key.generation);
            }
            Some(Bug::ChecksumUnchecked) => {
                let mut rest: &[u8] = body;
                for segment in &mut batch.segments {
                    let length = (segment.length as usize).min(rest.len());
                    let (bytes, after) = rest.split_at(length);
                    segment.crc32c = Crc32c(crc32c::crc32c(bytes));
                    rest = after;
                }
            }
            _ => {}
        }
        batch
    }

    /// Merges an upload.
    pub fn upload(&mut self, call: &Call, upload: &Upload, body: &Bytes) -> Answer {
        let answer = handler::upload(call, upload, body);
        let Answer::Response(response) = &answer else {
            return answer;
        };
        let Ok(mut reply) = PushBatchReply::from_bytes(response) else {
            return answer;
        };
        if self.bug != Some(Bug::OneCodeForAll) {
            return answer;
        }
        let first = reply.codes.first().copied().unwrap_or(Code::Ok);
        reply.codes.fill(first);
        Answer::Response(reply.to_bytes())
    }

    /// Returns the offset of the bytes of a read.
    pub fn offset(&self, offset: u64) -> u64 {
        offset + u64::from(self.bug == Some(Bug::ChunkOffByOne))
    }
}

fn with_our_incarnation(call: &Call, body: &Bytes) -> Option<Bytes> {
    fn renamed<M: Message>(body: &Bytes, rename: impl FnOnce(&mut M)) -> Option<Bytes> {
        let mut message = M::from_bytes(body).ok()?;
        rename(&mut message);
        Some(message.to_bytes())
    }
    let ours = |key: &mut ShuffleAddress| key.incarnation = call.service.incarnation();
    renamed::<RegisterShuffle>(body, |message| ours(&mut message.key))
        .or_else(|| renamed::<CommitMap>(body, |message| ours(&mut message.key)))
        .or_else(|| renamed::<SegmentLayout>(body, |message| ours(&mut message.key)))
        .or_else(|| renamed::<FetchSegments>(body, |message| ours(&mut message.key)))
}

fn is_refused(response: &[u8], code: Code) -> bool {
    Refused::from_bytes(response).is_ok_and(|refused| refused.code == code)
}

fn refused(call: &Call, code: Code) -> Bytes {
    Refused {
        code,
        incarnation: call.service.incarnation(),
        detail: String::new(),
    }
    .to_bytes()
}

fn empty_layout(call: &Call) -> Bytes {
    SegmentLayoutReply {
        incarnation: call.service.incarnation(),
        partitions: Vec::new(),
    }
    .to_bytes()
}
