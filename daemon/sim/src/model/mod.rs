// SPDX-License-Identifier: Apache-2.0
//! What a daemon must answer. The model gets every request that the daemon gets, in the same order,
//! and judges every answer. No files, no memory, no speed: lists of segments.
//!
//! The only thing it does not know is which segments of a merged tail a failed write dropped. Such
//! a segment is no longer *sure*: it may be served, complete, or its slot stays empty. A layout
//! without it shows that it is gone; a layout with it shows that it was there until then. No
//! segment of a remote shuffle is ever dropped.

mod application;
mod commit;
mod drain;
mod executors;
mod fetch;
mod handover;
mod merged;
mod originals;
mod push;
mod refusal;
mod removal;
mod spark_push;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lodestone_model::{
    AppAttempt, AppId, Code, GenerationId, LaidSegment, Ledger, MapId, MapIndex, Mode, ReduceId,
    ShuffleId, ShuffleKey,
};
use lodestone_server::handler::Answer;
use lodestone_wire::Message;
use lodestone_wire::extension::commit::CommitMap;
use lodestone_wire::extension::fetch::WantedChunk;
use lodestone_wire::extension::{PROTOCOL_VERSION, ShuffleAddress, hello, register};
use lodestone_wire::spark::fetch::FetchShuffleBlockChunks;
use lodestone_wire::spark::finalize::FinalizeShuffleMerge;
use lodestone_wire::spark::originals::{FetchShuffleBlocks, OpenBlocks};
use lodestone_wire::spark::register::{GetLocalDirsForExecutors, RegisterExecutor};

pub use fetch::Chunk;
pub use merged::{MergedFiles, consists_of};
pub use originals::Original;
pub use refusal::{Judged, refusal};
use refusal::{agree, breach, refused_or};
pub use removal::Removal;
pub use spark_push::Seen;

/// Trouble while a request was carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// A disk failed to write, or was out of use because it had.
    pub writes: bool,
    /// A file of an executor could not be removed.
    pub removals: bool,
    /// A read failed.
    pub reads: bool,
    /// A call had no descriptor.
    pub descriptors: bool,
    /// There is hardly any memory for metadata.
    pub metadata: bool,
}

impl Trouble {
    /// Blocks of Spark's own push may be refused, or missing in what is finalized.
    fn is_for_blocks(self) -> bool {
        self.removals || self.descriptors || self.metadata
    }
}

/// A segment that was acknowledged.
#[derive(Clone, Debug)]
struct Laid {
    segment: LaidSegment,
    bytes: Bytes,
    /// Written to the file: no failure takes it along.
    on_file: bool,
    /// False if it has an original, and was not on file when a disk failed.
    sure: bool,
    /// Its attempt was aborted, or it was dropped: only its slot is left.
    gone: bool,
}

#[derive(Debug)]
struct Shuffle {
    mode: Mode,
    generation: GenerationId,
    maps: u32,
    partitions: u32,
    format: String,
    /// By their slots.
    laid: BTreeMap<ReduceId, Vec<Laid>>,
    attempts: BTreeMap<(MapIndex, MapId), Attempt>,
}

/// A map attempt. The segments that were taken of it count, whether they are still there or not.
#[derive(Debug, Default)]
struct Attempt {
    state: AttemptState,
    ledger: Ledger,
    /// The ledger of the segments that were taken of each batch.
    batches: BTreeMap<u32, Ledger>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AttemptState {
    #[default]
    Open,
    Committed,
    Aborted,
}

#[derive(Debug)]
struct Application {
    attempt: AppAttempt,
    lease_until_ms: u64,
    /// The length that was granted last.
    lease_ms: u64,
    shuffles: BTreeMap<ShuffleId, Shuffle>,
    /// Removed shuffles, with their newest generation.
    removed: BTreeMap<ShuffleId, GenerationId>,
}

#[derive(Debug)]
struct Stream {
    source: Source,
    next: usize,
}

/// What a stream consists of.
#[derive(Debug)]
enum Source {
    Merged {
        key: ShuffleAddress,
        chunks: Vec<WantedChunk>,
    },
    Originals {
        app: String,
        exec: String,
        blocks: Vec<originals::Block>,
    },
    /// Merged by Spark's own push.
    Pushed(Vec<merged::MergedChunk>),
}

/// The model of one daemon.
#[derive(Debug, Default)]
pub struct Model {
    incarnation: i64,
    earlier: BTreeSet<i64>,
    applications: BTreeMap<String, Application>,
    streams: BTreeMap<(u64, i64), Stream>,
    stream_ids: BTreeSet<i64>,
    executors: executors::Executors,
    files: originals::Files,
    pushed: spark_push::Pushed,
    /// Nothing new is taken.
    draining: bool,
    /// Dropped segments that layouts have shown to be gone.
    dropped: u64,
    /// By daemons that were stopped, the last one last.
    left: Vec<handover::Left>,
}

impl Model {
    /// A daemon starts. It takes over the handover of one that was stopped, under the same
    /// incarnation; or it knows nothing but executors, and has an incarnation that no daemon before
    /// it had. Returns true if it may have less than was handed over.
    pub fn start(&mut self, incarnation: i64, now_ms: u64, is_troubled: bool) -> Judged<bool> {
        self.end();
        self.executors.start(is_troubled, &self.files);
        self.incarnation = incarnation;
        if let Some(is_sure) = self.go_on(incarnation, now_ms, is_troubled)? {
            return Ok(!is_sure);
        }
        agree(
            "a new incarnation",
            &self.earlier.insert(incarnation),
            &true,
        )?;
        agree("an incarnation that is not 0", &(incarnation != 0), &true)?;
        Ok(false)
    }

    /// A daemon ends, one way or another.
    pub fn end(&mut self) {
        self.applications.clear();
        self.streams.clear();
        self.pushed.end();
        self.draining = false;
        self.incarnation = 0;
    }

    /// A connection is closed: its streams are gone.
    pub fn disconnect(&mut self, connection: u64) {
        self.streams.retain(|(of, _), _| *of != connection);
    }

    /// Returns the number of segments that layouts did not show because failed writes had dropped
    /// them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true if the daemon must hold no shuffle.
    pub fn holds_nothing(&self) -> bool {
        let mut applications = self.applications.values();
        applications.all(|application| application.shuffles.is_empty())
            && self.pushed.shuffles.is_empty()
    }

    /// Applications that there are, with their attempts.
    pub fn applications(&self) -> Vec<(String, AppAttempt)> {
        let named = |(name, app): (&String, &Application)| (name.clone(), app.attempt);
        self.applications.iter().map(named).collect()
    }

    /// Keys of all shuffles that there are, with their number of partitions.
    pub fn shuffles(&self) -> Vec<(ShuffleAddress, u32)> {
        let mut keys = Vec::new();
        for (name, application) in &self.applications {
            let Ok(app) = AppId::new(name) else {
                continue;
            };
            keys.extend(application.shuffles.iter().map(|(id, shuffle)| {
                let key = ShuffleAddress {
                    shuffle: ShuffleKey {
                        app: app.clone(),
                        attempt: Some(application.attempt),
                        shuffle: *id,
                        generation: shuffle.generation,
                    },
                    incarnation: self.incarnation,
                };
                (key, shuffle.partitions)
            }));
        }
        keys
    }

    /// Returns the slots whose segments are gone: key, partition, slot.
    pub fn gone(&self) -> Vec<(ShuffleAddress, ReduceId, u32)> {
        let mut found = Vec::new();
        for (key, _) in self.shuffles() {
            let ShuffleKey { app, shuffle, .. } = &key.shuffle;
            let application = self.applications.get(app.as_str());
            let shuffle = application.and_then(|one| one.shuffles.get(shuffle));
            for (reduce, laid) in shuffle.iter().flat_map(|shuffle| &shuffle.laid) {
                let gone = (0..).zip(laid).filter(|(_, laid)| laid.gone);
                found.extend(gone.map(|(slot, _)| (key.clone(), *reduce, slot)));
            }
        }
        found
    }

    /// Returns the commits that make every attempt visible that has neither committed nor been
    /// aborted.
    pub fn commits(&self) -> Vec<CommitMap> {
        let mut commits = Vec::new();
        for (key, _) in self.shuffles() {
            let ShuffleKey { app, shuffle, .. } = &key.shuffle;
            let application = self.applications.get(app.as_str());
            let shuffle = application.and_then(|one| one.shuffles.get(shuffle));
            let attempts = shuffle.iter().flat_map(|shuffle| &shuffle.attempts);
            let open = attempts.filter(|(_, attempt)| attempt.state == AttemptState::Open);
            commits.extend(open.map(|(&(map_index, map_id), attempt)| CommitMap {
                key: key.clone(),
                map_index,
                map_id,
                pushed: attempt.ledger,
            }));
        }
        commits
    }

    /// From now on any segment that has an original, and is not on file, may have been dropped with
    /// its tail.
    pub fn doubt(&mut self) {
        let shuffles = self
            .applications
            .values_mut()
            .flat_map(|application| application.shuffles.values_mut())
            .filter(|shuffle| shuffle.mode == Mode::Merge);
        for laid in shuffles.flat_map(|shuffle| shuffle.laid.values_mut().flatten()) {
            laid.sure = laid.on_file || laid.gone;
        }
    }

    /// Judges the answer to an RPC.
    pub fn rpc(
        &mut self,
        now_ms: u64,
        connection: u64,
        request: &[u8],
        answer: &Answer,
        trouble: Trouble,
    ) -> Judged {
        use lodestone_wire::extension::{commit, drain, fetch, lease, remove};
        match request.first() {
            Some(&hello::Hello::ID) => self.hello(request, answer),
            Some(&lease::RenewLease::ID) => self.renew(now_ms, &decoded(request)?, answer),
            Some(&register::RegisterShuffle::ID) => {
                self.register(now_ms, decoded(request)?, answer)
            }
            Some(&drain::Drain::ID) => self.drain(&decoded(request)?, answer),
            Some(&CommitMap::ID) => self.commit(&decoded(request)?, answer),
            Some(&commit::AbortMap::ID) => self.abort(&decoded(request)?, answer),
            Some(&fetch::SegmentLayout::ID) => self.layout(&decoded(request)?, answer),
            Some(&fetch::FetchSegments::ID) => self.fetch(connection, &decoded(request)?, answer),
            Some(&RegisterExecutor::ID) => self.register_executor(request, answer, trouble),
            Some(&GetLocalDirsForExecutors::ID) => self.local_dirs(request, answer),
            Some(&OpenBlocks::ID) => self.open_blocks(connection, request, answer),
            Some(&FetchShuffleBlocks::ID) => self.fetch_blocks(connection, request, answer),
            Some(&FinalizeShuffleMerge::ID) => self.finalize(request, answer, trouble),
            Some(&FetchShuffleBlockChunks::ID) => self.fetch_merged(connection, request, answer),
            Some(&remove::EndApplication::ID) => self.end_application(&decoded(request)?, answer),
            other => breach(format!("the simulation sent message {other:?}")),
        }
    }

    fn hello(&self, request: &[u8], answer: &Answer) -> Judged {
        let request: hello::Hello = decoded(request)?;
        let expected = match request.protocol_version {
            PROTOCOL_VERSION => Ok(()),
            _ => Err(Code::VersionMismatch),
        };
        let reply: Option<hello::HelloReply> = refused_or(answer, self.incarnation, expected)?;
        match reply {
            Some(reply) => agree("incarnation", &reply.incarnation, &self.incarnation),
            None => Ok(()),
        }
    }

    /// Returns the shuffle that a key names, or the code with which a request with that key is
    /// refused.
    fn shuffle(&mut self, key: &ShuffleAddress, removed: Code) -> Result<&mut Shuffle, Code> {
        if key.incarnation != self.incarnation {
            return Err(Code::StaleIncarnation);
        }
        let application = self.application_of(&key.shuffle)?;
        let ShuffleKey {
            shuffle,
            generation,
            ..
        } = key.shuffle;
        match application.newest(shuffle) {
            Some(newest) if newest > generation => Err(Code::StaleGeneration),
            Some(newest) if newest == generation => {
                application.shuffles.get_mut(&shuffle).ok_or(removed)
            }
            _ => Err(Code::UnknownShuffle),
        }
    }

    fn application_of(&mut self, key: &ShuffleKey) -> Result<&mut Application, Code> {
        self.application(key.app.as_str(), attempt_of(key))
    }

    fn application(&mut self, app: &str, attempt: AppAttempt) -> Result<&mut Application, Code> {
        match self.applications.get_mut(app) {
            Some(application) if attempt < application.attempt => Err(Code::StaleAttempt),
            Some(application) if attempt == application.attempt => Ok(application),
            _ => Err(Code::UnknownApplication),
        }
    }
}

impl Application {
    fn newest(&self, shuffle: ShuffleId) -> Option<GenerationId> {
        match self.shuffles.get(&shuffle) {
            Some(current) => Some(current.generation),
            None => self.removed.get(&shuffle).copied(),
        }
    }
}

/// Messages of the extension name an attempt.
pub(crate) fn attempt_of(key: &ShuffleKey) -> AppAttempt {
    key.attempt.unwrap_or(AppAttempt::NONE)
}

fn decoded<M: Message>(bytes: &[u8]) -> Result<M, String> {
    M::from_bytes(bytes).map_err(|error| format!("{}: {error}", M::NAME))
}
