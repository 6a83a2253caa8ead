// SPDX-License-Identifier: Apache-2.0
//! The streams of one connection: lists of items, which are taken one by one in index order. A
//! stream is gone after its last chunk and with its connection.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use lodestone_model::{AppId, Code, GenerationId, MapId, ReduceId, Refusal, SegmentRun, ShuffleId};

use room::Room;
use source::{Job, Source};

pub mod items;
pub mod room;
pub mod source;
pub mod unreadable;

/// Streams open on one connection. A client has one per request under way; more is a leak.
pub const MAX_STREAMS: usize = 4096;

/// Chunks in one stream.
pub const MAX_CHUNKS: usize = 524_288;

/// Memory of the items in one stream: this is a million blocks of Spark's own, each of one
/// partition or of the same range of partitions.
pub const MAX_BYTES: usize = 8 << 20;

/// Runs of slots in one chunk: each is a part of its own that is sent. A chunk of 2 MiB whose
/// segments have 32 bytes, each apart from the others, has so many.
pub const MAX_RUNS: usize = 65_536;

/// One element of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamItem {
    /// Segments of a partition.
    Segments {
        /// The shuffle.
        shuffle: ShuffleId,
        /// Its generation.
        generation: GenerationId,
        /// The partition.
        reduce: ReduceId,
        /// Where they are, in order.
        slots: Box<[SegmentRun]>,
    },
    /// A chunk of a merged partition.
    Merged {
        /// The shuffle.
        shuffle: ShuffleId,
        /// Its generation.
        generation: GenerationId,
        /// The partition.
        reduce: ReduceId,
        /// Its index.
        chunk: u32,
    },
    /// Contiguous partitions of one map output.
    Original {
        /// The shuffle.
        shuffle: ShuffleId,
        /// The map task attempt.
        map: MapId,
        /// The partitions.
        reduces: Range<ReduceId>,
    },
    /// A persisted block.
    Rdd {
        /// The RDD.
        rdd: i32,
        /// The partition.
        split: i32,
    },
}

/// Reduce ids come from non-negative 32-bit fields: one more fits.
fn one(reduce: ReduceId) -> Range<ReduceId> {
    reduce..ReduceId(reduce.0 + 1)
}

impl StreamItem {
    /// One partition of one map output.
    pub fn original(shuffle: ShuffleId, map: MapId, reduce: ReduceId) -> Self {
        StreamItem::Original {
            shuffle,
            map,
            reduces: one(reduce),
        }
    }

    /// `shuffle_S_M_R`, `shuffleChunk_S_G_R_C` or `rdd_R_P`.
    pub fn named(id: &str) -> Option<Self> {
        let (kind, numbers) = id.split_once('_')?;
        let numbers = numbers
            .split('_')
            .map(str::parse)
            .collect::<Result<Vec<i64>, _>>()
            .ok()?;
        let small = |number: i64| i32::try_from(number).ok();
        let index = |number: i64| small(number).and_then(|number| u32::try_from(number).ok());
        match (kind, numbers.as_slice()) {
            ("shuffle", &[shuffle, map, reduce]) => Some(Self::original(
                ShuffleId(small(shuffle)?),
                MapId(map),
                ReduceId(index(reduce)?),
            )),
            ("shuffleChunk", &[shuffle, generation, reduce, chunk]) => Some(StreamItem::Merged {
                shuffle: ShuffleId(small(shuffle)?),
                generation: GenerationId(small(generation)?),
                reduce: ReduceId(index(reduce)?),
                chunk: index(chunk)?,
            }),
            ("rdd", &[rdd, split]) => Some(StreamItem::Rdd {
                rdd: small(rdd)?,
                split: small(split)?,
            }),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Stream {
    listed: Arc<Listed>,
    next: usize,
}

/// Memory of a list, until it is dropped.
pub type Memory = Box<dyn Any + Send + Sync>;

/// The content of a stream, with the memory that its list takes until the last chunk is sent.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) source: Source,
    _memory: Memory,
}

/// The streams of one connection: handlers open them, the reader takes chunks.
#[derive(Debug, Clone, Default)]
pub struct SharedStreams {
    open: Arc<Mutex<HashMap<i64, Stream>>>,
    room: Arc<Room>,
}

impl SharedStreams {
    /// Registers a stream, if there is memory for its list.
    pub fn open(
        &self,
        id: i64,
        source: Source,
        memory: impl FnOnce(&AppId, u64) -> Option<Memory>,
    ) -> Result<(), Refusal> {
        let (count, bytes) = (source.items.count(), source.items.bytes());
        let runs = source.items.runs_most();
        if runs > MAX_RUNS {
            let detail = format!("{runs} runs of slots in one chunk, at most {MAX_RUNS}");
            return Err(Code::TooLarge.because(detail));
        }
        if count > MAX_CHUNKS {
            let detail = format!("{count} chunks in one stream, at most {MAX_CHUNKS}");
            return Err(Code::TooLarge.because(detail));
        }
        if bytes > MAX_BYTES {
            let detail = format!("a stream of {bytes} bytes of block names, at most {MAX_BYTES}");
            return Err(Code::TooLarge.because(detail));
        }
        if count == 0 {
            return Ok(());
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_STREAMS {
            return Err(Code::Overloaded.because("too many open streams on this connection"));
        }
        let memory = memory(&source.app, source.items.memory() as u64)
            .ok_or_else(|| Code::Overloaded.because("open streams name too many blocks"))?;
        let listed = Arc::new(Listed {
            source,
            _memory: memory,
        });
        open.insert(id, Stream { listed, next: 0 });
        Ok(())
    }

    /// The requests that wait.
    pub fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Takes the next chunk of a stream. The expected index advances also if its bytes cannot be
    /// read.
    pub fn take(&self, id: i64, index: i32) -> Result<Job, Refusal> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = open.get_mut(&id) else {
            let text = "Requested chunk not available since streamId";
            return Err(Code::Malformed.because(format!("{text} {id} is closed")));
        };
        let expected = stream.next;
        if usize::try_from(index) != Ok(expected) {
            let text = "Received out-of-order chunk index";
            let detail = format!("{text} {index} (expected {expected}) of stream {id}");
            return Err(Code::Malformed.because(detail));
        }
        stream.next += 1;
        let job = Job {
            listed: Arc::clone(&stream.listed),
            index: expected,
        };
        if stream.next == stream.listed.source.items.count() {
            open.remove(&id);
        }
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::items::Items;

    fn source(items: usize) -> Source {
        let item = |split| StreamItem::Rdd { rdd: 1, split };
        Source {
            app: AppId::new("app").unwrap(),
            attempt: None,
            exec: String::new(),
            items: Items::Mixed((0..items as i32).map(item).collect()),
        }
    }

    fn open(streams: &SharedStreams, id: i64, source: Source) -> Result<(), Refusal> {
        streams.open(id, source, |_, _| Some(Box::new(())))
    }

    #[test]
    fn chunks_are_taken_in_order_and_the_stream_goes_with_the_last() {
        let streams = SharedStreams::default();
        open(&streams, 7, source(2)).unwrap();
        assert!(
            streams
                .take(7, 1)
                .unwrap_err()
                .detail
                .contains("out-of-order")
        );
        assert_eq!(streams.take(7, 0).unwrap().index, 0);
        assert!(
            streams
                .take(7, 0)
                .unwrap_err()
                .detail
                .contains("out-of-order")
        );
        assert!(
            streams
                .take(7, -1)
                .unwrap_err()
                .detail
                .contains("out-of-order")
        );
        assert_eq!(streams.take(7, 1).unwrap().index, 1);
        assert!(streams.take(7, 2).unwrap_err().detail.contains("is closed"));
    }

    #[test]
    fn streams_and_their_items_are_limited() {
        let streams = SharedStreams::default();
        let most = MAX_BYTES / size_of::<StreamItem>();
        for items in [most + 1, MAX_CHUNKS + 1] {
            let refusal = open(&streams, 0, source(items)).unwrap_err();
            assert_eq!(refusal.code, Code::TooLarge, "{items} items");
        }
        open(&streams, 1, source(most)).unwrap();
        let none = |_: &AppId, _| None;
        let refusal = streams.open(2, source(1), none).unwrap_err();
        assert_eq!(refusal.code, Code::Overloaded, "no memory");
    }

    #[test]
    fn a_chunk_of_many_runs_has_memory_for_the_parts_that_are_sent_of_it() {
        let streams = SharedStreams::default();
        let source = |chunks: &[usize]| {
            let run = |first| SegmentRun { first, count: 1 };
            let runs = |count: &usize| (0..*count as u32).map(|at| run(2 * at)).collect();
            let wanted = chunks.iter().map(|count| (ReduceId(0), runs(count)));
            Source {
                items: Items::segments(ShuffleId(1), GenerationId(0), wanted),
                ..source(0)
            }
        };
        let mut needed = 0;
        let mut memory = |_: &AppId, bytes| {
            needed = bytes;
            Some(Box::new(()) as Memory)
        };
        let chunks = [10, MAX_RUNS, 1];
        streams.open(1, source(&chunks), &mut memory).unwrap();
        assert!(needed > 100 * MAX_RUNS as u64, "{needed}");
        let refused = open(&streams, 2, source(&[MAX_RUNS + 1])).unwrap_err();
        assert_eq!(refused.code, Code::TooLarge);
    }

    #[test]
    fn small_streams_are_limited_in_number() {
        let streams = SharedStreams::default();
        for id in 0..MAX_STREAMS as i64 {
            open(&streams, id, source(1)).unwrap();
        }
        assert_eq!(
            open(&streams, -1, source(1)).unwrap_err().code,
            Code::Overloaded
        );
    }

    #[test]
    fn block_names_are_read_as_spark_writes_them() {
        let reduces = ReduceId(3)..ReduceId(4);
        let original = StreamItem::Original {
            shuffle: ShuffleId(1),
            map: MapId(2),
            reduces,
        };
        assert_eq!(StreamItem::named("shuffle_1_2_3"), Some(original));
        let (shuffle, generation, reduce) = (ShuffleId(1), GenerationId(0), ReduceId(3));
        let merged = StreamItem::Merged {
            shuffle,
            generation,
            reduce,
            chunk: 4,
        };
        assert_eq!(StreamItem::named("shuffleChunk_1_0_3_4"), Some(merged));
        assert_eq!(
            StreamItem::named("rdd_7_8"),
            Some(StreamItem::Rdd { rdd: 7, split: 8 })
        );
        for bad in [
            "",
            "rdd_1",
            "rdd_1_x",
            "shuffle_1_2",
            "shuffle_1_2_-3",
            "broadcast_1_2",
            "rdd",
        ] {
            assert_eq!(StreamItem::named(bad), None, "{bad}");
        }
    }
}
