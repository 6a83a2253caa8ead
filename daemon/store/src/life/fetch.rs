// SPDX-License-Identifier: Apache-2.0
//! Fetch: which segments a partition has, and their bytes.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use bytes::Bytes;
use lodestone_model::{
    Code, LaidRun, LaidSegment, MapRange, ReduceId, Refusal, SegmentRun, ShuffleKey,
};
use lodestone_planted::{self as planted, Bug};

use crate::fs::{File, Open};
use crate::index::segment::{Segments, is_gone};
use crate::index::slot::{SegmentAt, at, check_slots, selected};
use crate::merge::{FileRange, Partition, View};
use crate::resource::disk::code_of;
use crate::resource::home::DataFile;
use crate::resource::timed_mutex::Wait;
use crate::resource::{Resources, reading};
use crate::state::generation::Generation;
use crate::state::store::Store;

/// A range of bytes to send.
#[derive(Clone, Debug)]
pub enum Part {
    /// From an open file: readable also after the shuffle was removed.
    File {
        /// The file.
        file: Arc<dyn File>,
        /// Where the range starts.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// From memory.
    Memory(Bytes),
}

impl Part {
    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

/// The bytes of a chunk or block, in order.
#[derive(Clone, Debug, Default)]
pub struct ChunkData {
    /// Runs of bytes, one after another. Adjacent ones are joined.
    pub parts: Vec<Part>,
}

impl ChunkData {
    /// Length of all parts.
    pub fn length(&self) -> u64 {
        self.parts.iter().map(Part::length).sum()
    }
}

/// A chunk whose bytes are found, and whose files are not open yet.
#[derive(Debug)]
pub struct FoundChunk {
    generation: Arc<Generation>,
    partition: Arc<Partition>,
    sources: Vec<ByteSource>,
}

/// A range of a chunk's bytes before the file is opened.
#[derive(Debug)]
enum ByteSource {
    File(FileRange),
    Memory(Bytes),
}

impl ByteSource {
    fn length(&self) -> u64 {
        match self {
            Self::File(range) => range.length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl Store {
    /// Refuses unless the shuffle exists and may be read. For requests that name no partition: a
    /// request about an unknown shuffle is refused, and not answered with an empty result.
    pub fn check_readable(&self, key: &ShuffleKey) -> Result<(), Refusal> {
        self.readable_format(key).map(drop)
    }

    /// Returns the format of the blocks of a shuffle that may be read. Spark's own push names none.
    pub fn readable_format(&self, key: &ShuffleKey) -> Result<String, Refusal> {
        let generation = self.generation(key, Code::UnknownShuffle)?;
        generation.check_readable(&reading(&generation.partitions))?;
        Ok(generation.format().to_owned())
    }

    /// Refuses unless these are slots of the partition, in order, and no run is empty.
    pub fn check_slots(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        reduce: ReduceId,
        slots: &[SegmentRun],
    ) -> Result<(), Refusal> {
        self.view(wait, key, reduce, |_, view| {
            check(key, reduce, view.segments, slots)
        })
    }

    /// Returns the segments of the selected map indexes, by their slots. If attempts commit, only
    /// the segments of committed attempts: a reader that wants another attempt must find that it is
    /// not there.
    pub fn layout(
        &self,
        key: &ShuffleKey,
        range: MapRange,
        reduce: ReduceId,
    ) -> Result<Vec<LaidRun>, Refusal> {
        self.layout_if(Wait::InTime, key, range, reduce)
    }

    /// Returns a layout like [`Store::layout`]. OVERLOADED if the caller must not wait and would
    /// have to.
    pub fn layout_if(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        range: MapRange,
        reduce: ReduceId,
    ) -> Result<Vec<LaidRun>, Refusal> {
        self.view(wait, key, reduce, |generation, view| {
            let in_range = |segment: &LaidSegment| range.contains(segment.map_index);
            if !generation.kind().commits() || planted::is(Bug::UncommittedShown) {
                return Ok(selected(view.segments, in_range));
            }
            let shown = generation.attempts.shown();
            // A removal takes the attempts first: without them nothing would be here.
            if !planted::is(Bug::RemovalReadAsEmpty) {
                generation.check_readable(&reading(&generation.partitions))?;
            }
            let is_forgotten = |segment: &LaidSegment| {
                planted::is(Bug::SegmentForgotten) && segment.crc32c.0 % 8 == 1
            };
            let is_shown = |segment: &LaidSegment| {
                in_range(segment)
                    && !is_forgotten(segment)
                    && shown.contains(&(segment.map_index, segment.map_id))
            };
            Ok(selected(view.segments, is_shown))
        })
    }

    /// How many segments the layouts of these partitions have at most, as far as is known. Waits
    /// for no partition.
    pub fn segments_at_most(&self, key: &ShuffleKey, reduces: &[ReduceId]) -> usize {
        let Ok(generation) = self.generation(key, Code::UnknownShuffle) else {
            return 0;
        };
        let partitions = reading(&generation.partitions);
        let found = reduces
            .iter()
            .filter_map(|reduce| partitions.by_reduce.get(reduce));
        found.map(|partition| partition.segments_hint()).sum()
    }

    /// Returns the bytes of the segments in these slots, which are in order, one segment after
    /// another.
    pub fn segments(
        &self,
        key: &ShuffleKey,
        reduce: ReduceId,
        slots: &[SegmentRun],
    ) -> Result<ChunkData, Refusal> {
        let found = self.find_segments(Wait::InTime, key, reduce, slots)?;
        found.open(Wait::InTime, self)
    }

    /// Finds these bytes. Asks no disk.
    pub fn find_segments(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        reduce: ReduceId,
        slots: &[SegmentRun],
    ) -> Result<FoundChunk, Refusal> {
        self.find(wait, key, reduce, |_, segments| {
            check(key, reduce, segments, slots)?;
            let found = at(segments, slots);
            if found.iter().any(|one| is_gone(&one.segment)) {
                let detail = format!("a segment of partition {reduce} of {key} is gone");
                return Err(Code::Aborted.because(detail));
            }
            Ok(found)
        })
    }

    /// Finds the bytes of chosen segments, one after another.
    pub(crate) fn find(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        reduce: ReduceId,
        choose: impl FnOnce(&Generation, &Segments) -> Result<Vec<SegmentAt>, Refusal>,
    ) -> Result<FoundChunk, Refusal> {
        let (generation, partition) = self.look_up(key, reduce)?;
        let sources = generation.view(wait, &partition, |view| {
            let found = choose(&generation, view.segments)?;
            sources(view, &found).ok_or_else(|| generation.refuse(Code::Internal))
        })?;
        Ok(FoundChunk {
            generation,
            partition,
            sources,
        })
    }

    /// Shows a partition that is not empty and may be read.
    pub(crate) fn view<T>(
        &self,
        wait: Wait,
        key: &ShuffleKey,
        reduce: ReduceId,
        read: impl FnOnce(&Generation, &View<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let (generation, partition) = self.look_up(key, reduce)?;
        generation.view(wait, &partition, |view| read(&generation, view))
    }

    fn look_up(
        &self,
        key: &ShuffleKey,
        reduce: ReduceId,
    ) -> Result<(Arc<Generation>, Arc<Partition>), Refusal> {
        let generation = self.generation(key, Code::UnknownShuffle)?;
        let partition = generation.partition(reduce)?;
        Ok((generation, partition))
    }
}

impl FoundChunk {
    /// Returns the places of the bytes that are not in memory, in ascending order: data directories
    /// by their number, and after those the disks of Spark's executors.
    pub fn places(&self) -> Vec<usize> {
        let (home, reduce) = (&self.generation.home, self.partition.reduce());
        let place = |source: &ByteSource| match source {
            ByteSource::Memory(_) => None,
            ByteSource::File(range) => Some(home.place(range.file, reduce)),
        };
        let all: BTreeSet<usize> = self.sources.iter().filter_map(place).collect();
        all.into_iter().collect()
    }

    /// Opens the files. Blocks as long as their disks do; a caller that must not wait must have
    /// bytes in memory only.
    pub fn open(self, wait: Wait, store: &Store) -> Result<ChunkData, Refusal> {
        let Self {
            generation,
            partition,
            sources,
        } = self;
        let (key, reduce) = (&generation.key, partition.reduce());
        let bytes = sources.iter().map(ByteSource::length).sum();
        let counted = partition.count_read(wait, bytes);
        if !wait.is_allowed() {
            counted.map_err(|code| generation.refuse(code))?;
        }
        open_parts(&store.resources, &generation, reduce, sources).map_err(|error| {
            let code = match error.kind() {
                // The shuffle was removed since the look at the index, or its file by another hand.
                ErrorKind::NotFound => match store.look_up(key, reduce) {
                    Ok(_) => Code::DiskFailed,
                    Err(removed) => removed.code,
                },
                _ => code_of(&error),
            };
            code.because(format!("open a file of {key}: {error}"))
        })
    }
}

impl Generation {
    /// Shows a partition of this generation, unless it is empty. An empty one is unknown: a reader
    /// must never take an empty answer for the whole partition.
    fn view<T>(
        &self,
        wait: Wait,
        partition: &Partition,
        read: impl FnOnce(&View<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let shown = partition.view(wait, |view| {
            if view.segments.len() == 0 {
                let (reduce, key) = (partition.reduce(), &self.key);
                let detail = format!("nothing for partition {reduce} of {key}");
                return Err(Code::UnknownPartition.because(detail));
            }
            read(view)
        });
        shown.map_err(|code| self.refuse(code))?
    }
}

fn check(
    key: &ShuffleKey,
    reduce: ReduceId,
    segments: &Segments,
    slots: &[SegmentRun],
) -> Result<(), Refusal> {
    check_slots(segments, slots).map_err(|what| {
        let count = segments.len();
        let detail = format!("a chunk of {key}, partition {reduce} of {count} segments, {what}");
        Code::Malformed.because(detail)
    })
}

/// Returns the sources of a chunk's bytes. All bytes of a segment are on disk or all are in the
/// tail.
fn sources(view: &View<'_>, chunk: &[SegmentAt]) -> Option<Vec<ByteSource>> {
    let on_disk = view.extents.bytes();
    let mut sources = Vec::new();
    for (offset, length) in joined(chunk, on_disk) {
        match offset.checked_sub(on_disk) {
            Some(start) => {
                let start = usize::try_from(start).ok()?;
                let end = start.checked_add(usize::try_from(length).ok()?)?;
                let shared = view.in_memory(&(start..end));
                sources.extend(shared.into_iter().map(ByteSource::Memory));
            }
            None => sources.extend(view.extents.ranges(offset, length).map(ByteSource::File)),
        }
    }
    let wanted: u64 = chunk.iter().map(|p| u64::from(p.segment.length)).sum();
    let found: u64 = sources.iter().map(ByteSource::length).sum();
    (found == wanted).then_some(sources)
}

/// Returns ranges of the partition's bytes: adjacent segments are joined, but no range crosses
/// `border`.
fn joined(chunk: &[SegmentAt], border: u64) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for one in chunk {
        let length = u64::from(one.segment.length);
        match joined.last_mut() {
            Some((start, so_far)) if *start + *so_far == one.offset && one.offset != border => {
                *so_far += length;
            }
            _ => joined.push((one.offset, length)),
        }
    }
    joined
}

/// Opens each file once, with no lock held.
fn open_parts(
    resources: &Resources,
    generation: &Generation,
    reduce: ReduceId,
    sources: Vec<ByteSource>,
) -> io::Result<ChunkData> {
    let mut open: Vec<(DataFile, Arc<dyn File>)> = Vec::new();
    let mut parts = Vec::with_capacity(sources.len());
    for source in sources {
        parts.push(match source {
            ByteSource::Memory(bytes) => Part::Memory(bytes),
            ByteSource::File(range) => {
                let known = open.iter().find(|(opened, _)| *opened == range.file);
                let file = match known {
                    Some((_, file)) => Arc::clone(file),
                    None => {
                        let path = generation.home.path(resources, range.file, reduce);
                        let file = path.open(resources, Open::Read)?;
                        if planted::is(Bug::FilesLeftOpen) {
                            let _ = Arc::into_raw(Arc::clone(&file));
                        }
                        open.push((range.file, Arc::clone(&file)));
                        file
                    }
                };
                Part::File {
                    file,
                    offset: range.offset + u64::from(planted::is(Bug::ChunkOffByOne)),
                    length: range.length,
                }
            }
        });
    }
    Ok(ChunkData { parts })
}
