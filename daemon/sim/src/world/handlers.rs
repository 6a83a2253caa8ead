// SPDX-License-Identifier: Apache-2.0
//! The real handlers, called as a connection calls them, and the planted bugs around them.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use lodestone_model::{AppId, Code, Crc32c, GenerationId, MapId, Refusal, ShuffleId};
use lodestone_server::handler::{self, Answer, Call, NoRoom, Upload};
use lodestone_server::streams::source::{Job, Opened};
use lodestone_store::{ChunkData, Wait};
use lodestone_wire::Message;
use lodestone_wire::extension::ShuffleAddress;
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::drain::Drain;
use lodestone_wire::extension::fetch::{FetchSegments, SegmentLayout, SegmentLayoutReply};
use lodestone_wire::extension::push::{PushBatch, PushBatchReply};
use lodestone_wire::extension::register::RegisterShuffle;
use lodestone_wire::extension::status::{Done, Refused};

use crate::planted::Bug;
use crate::world::disk::Disk;

/// The real handlers, with one bug or none around them.
#[derive(Debug)]
pub(super) struct Handlers {
    bug: Option<Bug>,
    disk: Disk,
    /// Commits that were done, as they were asked for.
    committed: HashSet<Bytes>,
    /// The attempt of each map that committed first.
    first: HashMap<String, MapId>,
    /// The generation of each application's shuffle that was registered last.
    newest: HashMap<(AppId, ShuffleId), GenerationId>,
    is_short: bool,
}

impl Handlers {
    /// Handlers with this bug.
    pub(super) fn new(bug: Option<Bug>, disk: Disk) -> Self {
        Self {
            bug,
            disk,
            committed: HashSet::new(),
            first: HashMap::new(),
            newest: HashMap::new(),
            is_short: false,
        }
    }

    /// Carries out an RPC.
    pub(super) fn rpc(&mut self, call: &Call, body: &Bytes) -> Answer {
        let mutated = match self.bug {
            Some(Bug::IncarnationIgnored) => with_our_incarnation(call, body),
            _ => None,
        };
        let request = mutated.as_ref().unwrap_or(body);
        let answer = match request.first() {
            // It comes to another socket, and no network is between.
            Some(&Drain::ID) => handler::operator(call, request),
            _ => self.rpc_of_connection(call, request),
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

    /// Carries out an RPC as a connection does: at once, if it need not wait.
    fn rpc_of_connection(&mut self, call: &Call, request: &Bytes) -> Answer {
        let at_once = match self.is_short() {
            true => {
                let call = call.without_waiting();
                self.disk.untouched(|| handler::rpc_now(&call, request))
            }
            false => None,
        };
        at_once.unwrap_or_else(|| {
            handler::rpc(call, request)
                .unwrap_or_else(|NoRoom(refusal)| handler::without_stream(call, request, &refusal))
        })
    }

    /// Every other request counts as one that is too long to be carried out at once.
    fn is_short(&mut self) -> bool {
        self.is_short = !self.is_short;
        self.is_short
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
    pub(super) fn admit_upload(
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
    pub(super) fn upload(&mut self, call: &Call, upload: &Upload, body: &Bytes) -> Answer {
        let at_once = match self.is_short() {
            true => {
                let call = call.without_waiting();
                self.disk
                    .untouched(|| handler::upload_now(&call, upload, body))
            }
            false => Err(Vec::new()),
        };
        let answer = at_once.unwrap_or_else(|before| {
            let begun = match upload {
                Upload::Block(block) => handler::begin_block(call, block),
                Upload::Batch(_) => None,
            };
            begun.unwrap_or_else(|| handler::upload(call, upload, body, &before))
        });
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

    /// Opens a chunk as the writer of a connection does.
    pub(super) fn open(&self, call: &Call, job: &Job) -> Result<ChunkData, Refusal> {
        let store = &call.service.store;
        let mut opened = self
            .disk
            .untouched(|| job.open_at(Wait::Never, &[], None, store));
        loop {
            match opened {
                Opened::Here(opened, _) => return opened,
                Opened::Elsewhere(places, found) => {
                    opened = job.open_at(Wait::InTime, &places, found, store);
                }
            }
        }
    }

    /// Returns the offset of the bytes of a read.
    pub(super) fn offset(&self, offset: u64) -> u64 {
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
