// SPDX-License-Identifier: Apache-2.0
//! Requests to a server: the same work in the protocol of Spark, of Lodestone, or of the bare loop.

pub mod bare;
pub mod lodestone;
pub mod originals;
pub mod spark;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use lodestone_model::{AppAttempt, AppId, GenerationId, ShuffleId, ShuffleKey};
use lodestone_wire::extension::status::Refused;
use lodestone_wire::spark::remove::RemoveShuffleMerge;
use lodestone_wire::{Frame, Message};
use roaring::RoaringBitmap;

use crate::error::{LinkError, Wrong};
use crate::net::link::send_one_way;
use crate::workload::blocks::BlockSet;
use crate::workload::payload::Payload;
use crate::workload::{Block, PushRange, Workload};

/// Chunks have about this size, in Spark and in Lodestone.
pub const CHUNK_BYTES: u64 = 2 << 20;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// One upload for each block, `MergedBlockMeta`, `FetchShuffleBlockChunks`.
    Spark,
    /// Batches, `SegmentLayout`, `FetchSegments`.
    Lodestone,
    /// Bytes to a file, and back.
    Bare,
}

/// The outcome of a pushed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Merged.
    Merged,
    /// Not merged: Spark's and Lodestone's names for the reason.
    Refused(&'static str),
}

/// The end of all pushes to a shuffle.
#[derive(Debug)]
pub enum Ending {
    /// Spark's request, for the whole shuffle.
    Finalize,
    /// Lodestone's, of each map.
    Commits(Vec<Bytes>),
    /// None.
    Nothing,
}

/// The part of a partition that one request of a reader asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The partition; for the bare loop the file.
    pub partition: u32,
    /// Which part of it.
    pub part: u32,
    /// Number of parts.
    pub parts: u32,
}

impl Part {
    /// Returns which of `count` things are in this part.
    pub fn range_of(self, count: u32) -> std::ops::Range<u32> {
        let cut =
            |part: u32| (u64::from(count) * u64::from(part)).div_ceil(u64::from(self.parts)) as u32;
        cut(self.part)..cut(self.part + 1)
    }
}

/// A chunk that is going to be fetched, and its expected content.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its index in the partition, or the slot of its first segment.
    pub index: u32,
    /// About how large it is.
    pub bytes: u64,
    /// Its blocks.
    pub expect: Expect,
}

/// Which blocks a chunk must have.
#[derive(Clone, Debug)]
pub enum Expect {
    /// This one.
    One(Block),
    /// Those of these maps, in any order.
    Maps(RoaringBitmap),
    /// Those of these maps with these lengths, in this order.
    Segments(VecDeque<(u32, u32)>),
    /// Any.
    Any,
}

impl Expect {
    /// Crosses the block off.
    pub fn take(&mut self, block: Block, length: u32) -> Result<(), Wrong> {
        let is_right = match self {
            Self::One(one) => *one == block,
            Self::Maps(maps) => maps.remove(block.map),
            Self::Segments(segments) => segments.pop_front() == Some((block.map, length)),
            Self::Any => true,
        };
        if let Self::One(_) = self {
            *self = Self::Maps(RoaringBitmap::new());
        }
        if is_right {
            Ok(())
        } else {
            Err(Wrong::Misplaced(block))
        }
    }

    /// One more segment behind the others.
    pub(crate) fn add(&mut self, map: u32, length: u32) {
        if let Self::Segments(segments) = self {
            segments.push_back((map, length));
        }
    }

    /// How many segments are still to come, where that is known one by one.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Segments(segments) => segments.len() as u32,
            _ => 0,
        }
    }

    /// Returns true if all have come.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::One(_) => false,
            Self::Maps(maps) => maps.is_empty(),
            Self::Segments(segments) => segments.is_empty(),
            Self::Any => true,
        }
    }
}

/// Requests about pushes to one shuffle.
pub trait PushWords: Debug + Send + Sync {
    /// Returns true if every block is a request of its own.
    fn one_by_one(&self) -> bool;

    /// Returns the bytes before the blocks of an upload.
    fn meta(&self, connection: u32, range: PushRange) -> Bytes;

    /// Returns the verdict of the answer about each block.
    fn verdicts(&self, range: PushRange, answer: &[u8]) -> Result<Vec<Verdict>, Wrong>;
}

/// Requests about fetches from one shuffle.
pub trait FetchWords: Debug + Send + Sync {
    /// Returns the request that comes before a stream can be opened, if there is one.
    fn layout(&self, part: Part, request_id: i64) -> Option<Frame>;

    /// Which chunks the part has, after the answer to that.
    fn planned(&self, part: Part, answer: Option<Frame>) -> Result<Vec<Planned>, Wrong>;

    /// Returns true if all blocks of a part are of its partition.
    fn by_partition(&self) -> bool {
        true
    }

    /// Opens a stream over them.
    fn open(&self, part: Part, planned: &[Planned]) -> Bytes;
}

/// One shuffle on one server.
#[derive(Clone, Debug)]
pub struct Shuffle {
    /// Where the server listens.
    pub address: SocketAddr,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// The application.
    pub app: AppId,
    /// The incarnation of the server, if the dialect has one.
    pub incarnation: i64,
    /// The blocks, and the shuffle's id.
    pub workload: Workload,
    /// Their bytes.
    pub payload: Payload,
}

impl Shuffle {
    /// Makes the application and the shuffle known to the server. `dir` is the directory of an
    /// executor's files.
    pub async fn register(
        address: SocketAddr,
        dialect: Dialect,
        app: AppId,
        (workload, payload): (Workload, Payload),
        dir: &Path,
    ) -> Result<Self, LinkError> {
        let incarnation = match dialect {
            Dialect::Spark => {
                spark::register(address, &app, dir).await?;
                0
            }
            Dialect::Lodestone => lodestone::register(address, &app, workload).await?,
            Dialect::Bare => 0,
        };
        Ok(Self {
            address,
            dialect,
            app,
            incarnation,
            workload,
            payload,
        })
    }

    /// Returns the requests that push its blocks.
    pub fn push_words(&self) -> Arc<dyn PushWords> {
        match self.dialect {
            Dialect::Spark => Arc::new(spark::Words::of(self)),
            Dialect::Lodestone => Arc::new(lodestone::Words::of(self)),
            Dialect::Bare => Arc::new(bare::Words::of(self)),
        }
    }

    /// Returns the requests that fetch merged blocks.
    pub fn fetch_words(&self) -> Arc<dyn FetchWords> {
        match self.dialect {
            Dialect::Spark => Arc::new(spark::Words::of(self)),
            Dialect::Lodestone => Arc::new(lodestone::Words::of(self)),
            Dialect::Bare => Arc::new(bare::Words::of(self)),
        }
    }

    /// Returns the requests that end a shuffle with these blocks, so that they can be read.
    pub fn ending(&self, merged: &BlockSet) -> Ending {
        match self.dialect {
            Dialect::Spark => Ending::Finalize,
            Dialect::Lodestone => Ending::Commits(lodestone::commits(self, merged)),
            Dialect::Bare => Ending::Nothing,
        }
    }

    /// Sends them. Returns how many blocks the server reports as merged, if it does.
    pub async fn end(&self, ending: &Ending) -> Result<Option<u64>, LinkError> {
        match ending {
            Ending::Finalize => spark::finalize(self).await.map(Some),
            Ending::Commits(commits) => lodestone::commit(self, commits).await.map(|()| None),
            Ending::Nothing => Ok(None),
        }
    }

    /// The data is no longer wanted.
    pub async fn remove(&self) -> Result<(), LinkError> {
        match self.dialect {
            Dialect::Spark | Dialect::Lodestone => {
                let key = self.spark_key();
                send_one_way(self.address, &RemoveShuffleMerge { key }).await
            }
            Dialect::Bare => bare::remove(self).await,
        }
    }

    pub(crate) fn spark_key(&self) -> ShuffleKey {
        generation(&self.app, self.workload)
    }
}

/// Returns the only generation of a shuffle. Map attempts have the ids of their maps, application
/// attempts none.
pub(crate) fn generation(app: &AppId, workload: Workload) -> ShuffleKey {
    ShuffleKey {
        app: app.clone(),
        attempt: Some(AppAttempt::NONE),
        shuffle: ShuffleId(workload.shuffle.cast_signed()),
        generation: GenerationId(0),
    }
}

/// The answer, or the words of a refusal that came instead.
pub(crate) fn read<A: Message>(request: &'static str, body: &[u8]) -> Result<A, Wrong> {
    A::from_bytes(body).map_err(|error| match Refused::from_bytes(body) {
        Ok(refused) => Wrong::Refused {
            request,
            why: format!("{} ({})", refused.code.name(), refused.detail),
        },
        Err(_) => error.into(),
    })
}
